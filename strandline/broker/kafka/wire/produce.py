"""Produce: batches to append."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.leaders import CURRENT_LEADER, ENDPOINTS, CurrentLeader
from strandline.broker.kafka.wire.metadata import BrokerAddress
from strandline.broker.kafka.wire.table.rows import (
    ERROR,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    Array,
    Struct,
    row,
    throttle,
)
from strandline.broker.kafka.wire.topics import Topics, topics

IDS_SINCE: Final = 13
"""The first version that has topics' ids instead of their names (KIP-516)."""
LEADERS_SINCE: Final = 10
"""The first version whose answers name leaders."""


class PartitionRecords(NamedTuple):
    """The batch for one partition, as a part of the frame."""

    partition: int
    records: memoryview | None


class ProduceRequest(NamedTuple):
    acks: int
    timeout_ms: int
    topics: Topics[PartitionRecords]
    transactional_id: str | None = None


class WrongRecord(NamedTuple):
    """A record that its batch was refused for, by its position there."""

    position: int
    message: str | None


class ProducedPartition(NamedTuple):
    """`base_offset` is -1 with an error. `message` goes to clients from version 8 on, `leader` from 10 on."""

    partition: int
    error: int = 0
    base_offset: int = -1
    log_start_offset: int = -1
    message: str | None = None
    leader: CurrentLeader | None = None
    wrong: tuple[WrongRecord, ...] = ()
    """The records that the batch was refused for (KIP-467)."""
    append_time_ms: int = -1
    """The time that the leader gave to its records; -1: they have their own. Of a repeated batch, its latest
    time."""


class ProduceAnswer(NamedTuple):
    """`endpoints`: the addresses of the leaders that it names."""

    topics: Topics[ProducedPartition]
    endpoints: tuple[BrokerAddress, ...] = ()


_RECORDS: Final = Struct(PartitionRecords, INT32("index", "partition"), RECORDS("records", nullable=0))
REQUEST: Final = Struct(
    ProduceRequest,
    STRING("transactional_id", since=3, nullable=3),
    INT16("acks"),
    INT32("timeout_ms"),
    topics(_RECORDS, "topic_data", partitions="partition_data", ids_since=IDS_SINCE),
)
_WRONG: Final = Struct(
    WrongRecord,
    INT32("batch_index", "position"),
    STRING("batch_index_error_message", "message", nullable=0),
)
_PRODUCED: Final = Struct(
    ProducedPartition,
    INT32("index", "partition"),
    ERROR,
    INT64("base_offset"),
    INT64("log_append_time_ms", "append_time_ms", since=2),
    INT64("log_start_offset", since=5),
    row("record_errors", Array(_WRONG), "wrong", since=8),
    STRING("error_message", "message", since=8, nullable=8),
    row("current_leader", CURRENT_LEADER, "leader", since=LEADERS_SINCE, tag=0),
)
ANSWER: Final = Struct(
    ProduceAnswer,
    topics(_PRODUCED, "responses", partitions="partition_responses", ids_since=IDS_SINCE),
    throttle(since=1),
    row("node_endpoints", ENDPOINTS, "endpoints", since=LEADERS_SINCE, tag=0),
)
