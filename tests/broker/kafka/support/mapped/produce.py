"""Produce."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.apis import PRODUCE
from strandline.broker.kafka.wire.produce import (
    PartitionRecords,
    ProduceAnswer,
    ProducedPartition,
    ProduceRequest,
)
from tests.broker.kafka.support.kio_codec import Values
from tests.broker.kafka.support.mapped.mapped import Mapped, by_topic


def request(asked: Values, version: int) -> ProduceRequest:
    topics = by_topic(
        asked["topic_data"], lambda p: PartitionRecords(p["index"], p["records"]), partitions="partition_data"
    )
    return ProduceRequest(asked["acks"], asked["timeout_ms"], topics, asked.get("transactional_id"))


def answer(found: Values, version: int) -> ProduceAnswer:
    return ProduceAnswer(
        by_topic(
            found["responses"],
            lambda p: ProducedPartition(
                p["index"],
                p["error_code"],
                p["base_offset"],
                p.get("log_start_offset", -1),
                p.get("error_message"),
            ),
            partitions="partition_responses",
        )
    )


MAPPED: Final = (Mapped(PRODUCE, request, answer, {"log_append_time_ms": -1, "record_errors": []}),)
