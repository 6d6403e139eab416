"""Produce."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.apis import PRODUCE
from strandline.broker.kafka.wire.leaders import CurrentLeader
from strandline.broker.kafka.wire.metadata import BrokerAddress
from strandline.broker.kafka.wire.produce import (
    PartitionRecords,
    ProduceAnswer,
    ProducedPartition,
    ProduceRequest,
)
from tests.broker.kafka.support.kio_codec import Values
from tests.broker.kafka.support.mapped.mapped import Mapped, by_topic

NO_LEADER: Final = {"leader_id": -1, "leader_epoch": -1}


def request(asked: Values, version: int) -> ProduceRequest:
    topics = by_topic(
        asked["topic_data"], lambda p: PartitionRecords(p["index"], p["records"]), partitions="partition_data"
    )
    return ProduceRequest(asked["acks"], asked["timeout_ms"], topics, asked.get("transactional_id"))


def leader(found: Values | None) -> CurrentLeader | None:
    unknown = found is None or found == NO_LEADER
    return None if unknown else CurrentLeader(found["leader_id"], found["leader_epoch"])  # type: ignore[index]


def answer(found: Values, version: int) -> ProduceAnswer:
    topics = by_topic(
        found["responses"],
        lambda p: ProducedPartition(
            p["index"],
            p["error_code"],
            p["base_offset"],
            p.get("log_start_offset", -1),
            p.get("error_message"),
            leader(p.get("current_leader")),
            tuple(each["batch_index"] for each in p.get("record_errors", [])),
        ),
        partitions="partition_responses",
    )
    endpoints = found.get("node_endpoints", [])
    return ProduceAnswer(
        topics, tuple(BrokerAddress(e["node_id"], e["host"], e["port"], e["rack"]) for e in endpoints)
    )


MAPPED: Final = (
    Mapped(PRODUCE, request, answer, {"log_append_time_ms": -1, "batch_index_error_message": None}),
)
