"""ListOffsets: offsets by time. OffsetForLeaderEpoch: where the records of an epoch end."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.fetch import CONSUMER
from strandline.broker.kafka.wire.table.rows import (
    ERROR,
    INT8,
    INT32,
    INT64,
    PARTITION,
    Struct,
    constant,
    throttle,
)
from strandline.broker.kafka.wire.topics import Topics, topics

# --- ListOffsets ------------------------------------------------------------------------------

DEBUGGING: Final = -2
"""In the place of a follower's id: a consumer that also asks followers."""


class PartitionTime(NamedTuple):
    """`timestamp_ms`: milliseconds since the Unix epoch; -1: the end, -2: the start, -3: the record of the
    latest time; below it, offsets of tiered storage. `leader_epoch` is -1 if the client does not know it."""

    partition: int
    leader_epoch: int
    timestamp_ms: int


class ListOffsetsRequest(NamedTuple):
    """`isolation_level` as in Fetch."""

    topics: Topics[PartitionTime]
    isolation_level: int = 0
    replica: int = CONSUMER


class OffsetAtTime(NamedTuple):
    partition: int
    error: int = 0
    timestamp_ms: int = -1
    offset: int = -1
    leader_epoch: int = -1


class ListOffsetsAnswer(NamedTuple):
    topics: Topics[OffsetAtTime]


_TIME: Final = Struct(
    PartitionTime,
    PARTITION,
    INT32("current_leader_epoch", "leader_epoch", since=4, absent=-1),
    INT64("timestamp", "timestamp_ms"),
)
LIST_REQUEST: Final = Struct(
    ListOffsetsRequest,
    INT32("replica_id", "replica"),
    INT8("isolation_level", since=2),
    topics(_TIME),
    constant("timeout_ms", INT32, 0, since=10),  # of reads in another tier
)
_AT_TIME: Final = Struct(
    OffsetAtTime,
    PARTITION,
    ERROR,
    INT64("timestamp", "timestamp_ms"),
    INT64("offset"),
    INT32("leader_epoch", since=4),
)
LIST_ANSWER: Final = Struct(ListOffsetsAnswer, throttle(since=2), topics(_AT_TIME))


# --- OffsetForLeaderEpoch ---------------------------------------------------------------------


class PartitionEpoch(NamedTuple):
    """`current_epoch`: the leader's epoch as far as the client knows it, or -1; `epoch`: the one that it asks
    about."""

    partition: int
    current_epoch: int
    epoch: int


class EpochEndsRequest(NamedTuple):
    topics: Topics[PartitionEpoch]


class PartitionEpochEnd(NamedTuple):
    """The largest epoch up to the requested one, and the offset at which it ends; -1 and -1 for none."""

    partition: int
    error: int = 0
    epoch: int = -1
    end_offset: int = -1


class EpochEndsAnswer(NamedTuple):
    topics: Topics[PartitionEpochEnd]


_EPOCH: Final = Struct(
    PartitionEpoch,
    INT32("partition"),
    INT32("current_leader_epoch", "current_epoch"),
    INT32("leader_epoch", "epoch"),
)
ENDS_REQUEST: Final = Struct(
    EpochEndsRequest, constant("replica_id", INT32, CONSUMER, since=3), topics(_EPOCH, topic="topic")
)
_END: Final = Struct(
    PartitionEpochEnd, ERROR, INT32("partition"), INT32("leader_epoch", "epoch"), INT64("end_offset")
)
ENDS_ANSWER: Final = Struct(EpochEndsAnswer, throttle(), topics(_END, topic="topic"))
