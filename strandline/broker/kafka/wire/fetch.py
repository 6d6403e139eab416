"""Fetch: records from given offsets on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from strandline.broker.kafka.wire.leaders import CURRENT_LEADER, ENDPOINTS, CurrentLeader
from strandline.broker.kafka.wire.metadata import BrokerAddress
from strandline.broker.kafka.wire.table.rows import (
    ERROR,
    INT8,
    INT16,
    INT32,
    INT64,
    PARTITION,
    RECORDS,
    STRING,
    Array,
    Struct,
    constant,
    row,
    throttle,
)
from strandline.broker.kafka.wire.topics import Topics, topics
from strandline.ids import NO_BROKER

CONSUMER: Final = -1
"""In the place of a follower's id."""
IDS_SINCE: Final = 13
"""The first version that has topics' ids instead of their names (KIP-516)."""
ENDPOINTS_SINCE: Final = 16
"""The first version whose answers have the addresses of leaders (KIP-951)."""
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
"""As `isolation_level`: all records, or those of transactions that ended well."""
ISOLATION_LEVELS: Final = (READ_UNCOMMITTED, READ_COMMITTED)
INITIAL_SESSION_EPOCH: Final = 0
"""As `session_epoch`: a fetch that begins a session (KIP-227)."""
FINAL_SESSION_EPOCH: Final = -1
"""As `session_epoch`: a fetch outside sessions, or one that ends its session (KIP-227)."""


class PartitionPosition(NamedTuple):
    """Where to read in one partition. `leader_epoch` is -1 if the client does not know it."""

    partition: int
    leader_epoch: int
    offset: int
    bytes_max: int


class FetchRequest(NamedTuple):
    wait_ms: int
    bytes_min: int
    bytes_max: int
    isolation_level: int
    topics: Topics[PartitionPosition]
    session_id: int = 0
    session_epoch: int = FINAL_SESSION_EPOCH
    forgotten: Topics[int] = ()
    """Partitions that leave the session."""
    rack: str = ""
    """The client's; empty: it reads from leaders only."""
    replica: int = CONSUMER
    """The id of a follower, which none is by this protocol."""


class AbortedTransaction(NamedTuple):
    """What this producer wrote from this offset on, up to its next abort marker, was aborted."""

    producer_id: int
    first_offset: int


class FetchedPartition(NamedTuple):
    partition: int
    error: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: bytes = b""
    leader: CurrentLeader | None = None
    """For clients from version 12 on."""
    aborted: Sequence[AbortedTransaction] | None = None
    """For readers of committed records, in the order of their offsets."""
    preferred: int = NO_BROKER
    """The follower in the client's rack that it is to read from; then there are no records (KIP-392)."""


class FetchAnswer(NamedTuple):
    """`error` is for the whole request; clients before version 7 do not see it. `endpoints`: the addresses of
    the leaders that it names."""

    topics: Topics[FetchedPartition]
    error: int = 0
    session_id: int = 0
    """0: it is of no session."""
    endpoints: tuple[BrokerAddress, ...] = ()


def _copied(records: memoryview | None) -> bytes:
    """A client keeps the records longer than the frame."""
    return bytes(records or b"")


_POSITION: Final = Struct(
    PartitionPosition,
    INT32("partition"),
    INT32("current_leader_epoch", "leader_epoch", since=9, absent=-1),
    INT64("fetch_offset", "offset"),
    constant("last_fetched_epoch", INT32, -1, since=12),
    constant("log_start_offset", INT64, -1, since=5),
    INT32("partition_max_bytes", "bytes_max"),
)
REQUEST: Final = Struct(
    FetchRequest,
    INT32("replica_id", "replica", until=14),  # then a tagged field, as others of followers
    INT32("max_wait_ms", "wait_ms"),
    INT32("min_bytes", "bytes_min"),
    INT32("max_bytes", "bytes_max"),
    INT8("isolation_level"),
    INT32("session_id", since=7),
    INT32("session_epoch", since=7),
    topics(_POSITION, topic="topic", ids_since=IDS_SINCE),
    topics(INT32, "forgotten_topics_data", to="forgotten", topic="topic", since=7, ids_since=IDS_SINCE),
    STRING("rack_id", "rack", since=11),
)
_ABORTED: Final = Struct(AbortedTransaction, INT64("producer_id"), INT64("first_offset"))
_FETCHED: Final = Struct(
    FetchedPartition,
    PARTITION,
    ERROR,
    INT64("high_watermark"),
    INT64("last_stable_offset"),
    INT64("log_start_offset", since=5),
    row("current_leader", CURRENT_LEADER, "leader", since=12, tag=1),
    row("aborted_transactions", Array(_ABORTED), "aborted", nullable=4),
    INT32("preferred_read_replica", "preferred", since=11),
    RECORDS("records", nullable=0, read=_copied),
)
ANSWER: Final = Struct(
    FetchAnswer,
    throttle(),
    INT16("error_code", "error", since=7),
    INT32("session_id", since=7),
    topics(_FETCHED, "responses", topic="topic", ids_since=IDS_SINCE),
    row("node_endpoints", ENDPOINTS, "endpoints", since=ENDPOINTS_SINCE, tag=0),
)
