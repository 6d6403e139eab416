"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete: the offsets that a group keeps."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.table.rows import (
    BOOL,
    ERROR,
    GROUP,
    INT16,
    INT32,
    INT64,
    MEMBER,
    PARTITION,
    STRING,
    Array,
    Inline,
    One,
    Struct,
    constant,
    inline,
    row,
    throttle,
)
from strandline.broker.kafka.wire.topics import Topics, topics

# --- OffsetCommit -----------------------------------------------------------------------------


IDS_SINCE: Final = 10
"""The first version of OffsetCommit and OffsetFetch that has topics' ids instead of their names."""


class OffsetToCommit(NamedTuple):
    """`leader_epoch` is -1 if the client does not know it."""

    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None


class OffsetCommitRequest(NamedTuple):
    """An empty member in no generation: a client that is outside the group."""

    group: str
    generation: int
    member: str
    topics: Topics[OffsetToCommit]
    instance: str | None = None


class PartitionResult(NamedTuple):
    partition: int
    error: int = 0


class OffsetCommitAnswer(NamedTuple):
    topics: Topics[PartitionResult]


_OFFSET: Final = Struct(
    OffsetToCommit,
    PARTITION,
    INT64("committed_offset", "offset"),
    INT32("committed_leader_epoch", "leader_epoch", since=6, absent=-1),
    STRING("committed_metadata", "metadata", nullable=0),
)
COMMIT_REQUEST: Final = Struct(
    OffsetCommitRequest,
    GROUP,
    INT32("generation_id_or_member_epoch", "generation"),
    MEMBER,
    STRING("group_instance_id", "instance", since=7, nullable=7),
    constant("retention_time_ms", INT64, -1, until=4),  # the broker's setting decides
    topics(_OFFSET, ids_since=IDS_SINCE),
)
_RESULT: Final = Struct(PartitionResult, PARTITION, ERROR)
COMMIT_ANSWER: Final = Struct(OffsetCommitAnswer, throttle(since=3), topics(_RESULT, ids_since=IDS_SINCE))


# --- TxnOffsetCommit --------------------------------------------------------------------------


TXN_IDS_SINCE: Final = 6
"""The first version of TxnOffsetCommit that has topics' ids instead of their names (KIP-1319)."""
TXN_ADDS_SINCE: Final = 5
"""From this version on, the group need not be in the transaction before (KIP-890)."""


class TxnOffsetCommitRequest(NamedTuple):
    """An empty member in no generation: a client that is outside the group."""

    transactional_id: str
    group: str
    producer_id: int
    producer_epoch: int
    topics: Topics[OffsetToCommit]
    generation: int = -1
    member: str = ""
    instance: str | None = None


_TXN_OFFSET: Final = Struct(
    OffsetToCommit,
    PARTITION,
    INT64("committed_offset", "offset"),
    INT32("committed_leader_epoch", "leader_epoch", since=2, absent=-1),
    STRING("committed_metadata", "metadata", nullable=0),
)
TXN_COMMIT_REQUEST: Final = Struct(
    TxnOffsetCommitRequest,
    STRING("transactional_id"),
    GROUP,
    INT64("producer_id"),
    INT16("producer_epoch"),
    INT32("generation_id_or_member_epoch", "generation", since=3),
    STRING("member_id", "member", since=3),
    STRING("group_instance_id", "instance", since=3, nullable=3),
    topics(_TXN_OFFSET, ids_since=TXN_IDS_SINCE),
)
TXN_COMMIT_ANSWER: Final = Struct(OffsetCommitAnswer, throttle(), topics(_RESULT, ids_since=TXN_IDS_SINCE))


# --- OffsetFetch ------------------------------------------------------------------------------


class GroupWanted(NamedTuple):
    """Numbers of partitions by topic; None: every partition with an offset. The member has an epoch if its
    coordinator assigns (KIP-848); other clients name none."""

    group: str
    topics: Topics[int] | None
    member: str | None = None
    epoch: int = -1


class OffsetFetchRequest(NamedTuple):
    """One group before version 8, any number from there on. `require_stable`: no offset that an open
    transaction may replace (KIP-447)."""

    groups: tuple[GroupWanted, ...]
    require_stable: bool = False


class PartitionOffset(NamedTuple):
    """`offset` is -1 if none was committed."""

    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: int = 0


class OffsetsOfGroup(NamedTuple):
    """`error` is for the whole group. Clients of version 1 find it at each partition."""

    group: str
    topics: Topics[PartitionOffset] = ()
    error: int = 0


class OffsetFetchAnswer(NamedTuple):
    groups: tuple[OffsetsOfGroup, ...]


def _wanted(nullable: int) -> Struct[GroupWanted]:
    return Struct(
        GroupWanted,
        GROUP,
        STRING("member_id", "member", since=9, nullable=9),
        INT32("member_epoch", "epoch", since=9),
        topics(INT32, partitions="partition_indexes", nullable=nullable, ids_since=IDS_SINCE),
    )


FETCH_REQUEST: Final = Struct(
    OffsetFetchRequest,
    inline("groups", One(Inline(_wanted(2))), until=7),
    row("groups", Array(_wanted(8)), since=8),
    BOOL("require_stable", since=7),
)
_COMMITTED: Final = Struct(
    PartitionOffset,
    PARTITION,
    INT64("committed_offset", "offset"),
    INT32("committed_leader_epoch", "leader_epoch", since=5),
    STRING("metadata", nullable=0, read=lambda text: text or ""),
    ERROR,
)
_GROUP: Final = Struct(
    OffsetsOfGroup,
    STRING("group_id", "group", since=8, absent=""),
    topics(_COMMITTED, large=True, ids_since=IDS_SINCE),
    INT16("error_code", "error", since=2),
)
FETCH_ANSWER: Final = Struct(
    OffsetFetchAnswer,
    throttle(since=3),
    inline("groups", One(Inline(_GROUP)), until=7),
    row("groups", Array(_GROUP), since=8),
)


# --- OffsetDelete -----------------------------------------------------------------------------


class OffsetDeleteRequest(NamedTuple):
    """Numbers of partitions by topic."""

    group: str
    topics: Topics[int]


class OffsetDeleteAnswer(NamedTuple):
    """`error` is for the whole group; then there are no topics."""

    error: int = 0
    topics: Topics[PartitionResult] = ()


DELETE_REQUEST: Final = Struct(OffsetDeleteRequest, GROUP, topics(Struct(None, INT32("partition_index"))))
DELETE_ANSWER: Final = Struct(OffsetDeleteAnswer, ERROR, throttle(), topics(_RESULT))
