"""Fetch."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from strandline.broker.kafka.wire.apis import FETCH
from strandline.broker.kafka.wire.fetch import (
    FetchAnswer,
    FetchedPartition,
    FetchRequest,
    PartitionPosition,
)
from tests.broker.kafka.support.kio_codec import Values
from tests.broker.kafka.support.mapped.mapped import Mapped, by_topic
from tests.broker.kafka.support.mapped.produce import leader


def request(asked: Values, version: int) -> FetchRequest:
    topics = by_topic(
        asked["topics"],
        lambda p: PartitionPosition(
            p["partition"], p.get("current_leader_epoch", -1), p["fetch_offset"], p["partition_max_bytes"]
        ),
        name="topic",
    )
    return FetchRequest(
        asked["max_wait_ms"],
        asked["min_bytes"],
        asked["max_bytes"],
        asked["isolation_level"],
        topics,
        asked.get("session_id", 0),
        asked.get("session_epoch", -1),
    )


def answer(found: Values, version: int) -> FetchAnswer:
    topics = by_topic(
        found["responses"],
        lambda p: FetchedPartition(
            p["partition_index"],
            p["error_code"],
            p["high_watermark"],
            p["last_stable_offset"],
            p.get("log_start_offset", -1),
            p["records"],
            leader(p.get("current_leader")),
        ),
        name="topic",
    )
    lists = [p["aborted_transactions"] for topic in found["responses"] for p in topic["partitions"]]
    return FetchAnswer(topics, found.get("error_code", 0), aborted=[] in lists)


NOTHING: Final = {"epoch": -1, "end_offset": -1}
MAPPED: Final = (
    Mapped(
        FETCH,
        request,
        answer,
        {
            "session_id": 0,
            "aborted_transactions": st.shared(st.sampled_from([None, []]), key="aborted"),
            "preferred_read_replica": -1,
            "records": st.binary(max_size=50),
            "diverging_epoch": NOTHING,
            "snapshot_id": NOTHING,
        },
    ),
)
