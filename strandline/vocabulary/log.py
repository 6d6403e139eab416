"""Values that clients and brokers exchange through the service `Log`. Times are milliseconds.

The values of which a stream makes one for each batch or partition are tuples: they cost less to make.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from strandline.errors import StrandlineError
from strandline.ids import ACKS_ALL, NO_EPOCH, NO_TOPIC_ID, TopicId, TopicPartition
from strandline.vocabulary.log_position import EpochEnd
from strandline.vocabulary.metadata import ClusterMetadata

LATEST: Final = -1
"""As a timestamp in ListOffsets: the high watermark."""
EARLIEST: Final = -2
"""As a timestamp in ListOffsets: where the log starts."""
MAX_TIMESTAMP: Final = -3
"""As a timestamp in ListOffsets: the first record of the latest time."""


class OfPartition(Protocol):
    """An entry of a request that names a partition."""

    @property
    def name(self) -> TopicPartition: ...


def topic_of(entry: OfPartition) -> str:
    return entry.name.topic


# --- produce ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """Marks a producer's batches, so that a broker recognizes duplicates (KIP-98)."""

    producer_id: int
    producer_epoch: int


NO_MARKER: Final = -1
"""A guard: the log has no marker of the producer."""


@dataclass(frozen=True, slots=True)
class Transactional:
    """The right to append a producer's batch to one log, which its coordinator has in its transaction.

    `guard` is the offset of the producer's last marker in that log, NO_MARKER if there is none, from before
    the coordinator was asked. If another marker has come since, the transaction has ended, and the batch
    would begin one that nothing ends (KIP-890): it is refused. None with transactions v2: each transaction
    has an epoch of its own, and its marker the next one, which fences the batch. The marker of the
    transaction before may come while the coordinator is asked.
    """

    producer: ProducerIdentity
    guard: int | None


Rights = Mapping[TopicPartition, Transactional | StrandlineError]
"""The rights to begin a producer's transaction in partitions, or why there is none."""


class ProduceEntry(NamedTuple):
    """A batch to append to one partition."""

    name: TopicPartition
    records: bytes
    acks: int = ACKS_ALL
    timeout_ms: int = 1_000
    correlation_id: int = 0
    """Chosen by the client, unique on the stream; the result carries it."""
    internal: bool = False
    """True for a write to an internal topic, by a member of the cluster."""
    expected_offset: int | None = None
    """Append only if the log ends there."""
    topic_id: TopicId = NO_TOPIC_ID
    """Append only to this incarnation of the topic."""
    any_first_sequence: bool = False
    """Take a batch of any sequence from a producer that the partition does not know (KIP-360)."""
    transactional_id: str = ""
    """Of a batch in a transaction; empty for every other one."""


@dataclass(frozen=True, slots=True)
class ProduceMessage:
    """One message of a produce stream, as a broker reads it."""

    count: int
    entries: Iterable[ProduceEntry]
    """`count` entries, each made when it is read: only one entry's records are in memory twice."""
    unreplicated: tuple[TopicPartition, ...]
    """The partitions of entries that their leader alone acknowledges (acks 0 and 1), each once, in the order
    of the entries."""
    bytes: int = 0
    """The size of the message."""
    transactional: bool = False
    """Whether an entry has a transactional id."""


class ProduceResult(NamedTuple):
    """The outcome of the entry with this correlation id."""

    correlation_id: int
    error: StrandlineError | None
    base_offset: int = -1
    appended: bool = False
    """True if this request appended the batch; False if an earlier one may have."""
    log_start_offset: int = 0
    throttle_ms: int = 0
    """How long the broker reads no further message, as the client is over its quota."""


# --- fetch --------------------------------------------------------------------------------------


class FetchPartition(NamedTuple):
    """A partition's part of a fetch. `leader_epoch` is the epoch that the client knows, or -1.

    `topic_id` and `last_epoch`, the epoch of the record before the offset, say which log it belongs to
    (`LogPosition`).
    """

    name: TopicPartition
    offset: int
    leader_epoch: int
    bytes_max: int
    topic_id: TopicId = NO_TOPIC_ID
    last_epoch: int = NO_EPOCH
    from_follower: bool = False
    """Whether a follower may serve it, up to the HW that it knows (KIP-392)."""
    stable: bool = False
    """Read only what is below the last stable offset, and name the aborted transactions in it: the isolation
    level `read_committed` of KIP-98."""


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """One request of a fetch stream."""

    correlation_id: int
    wait_ms: int
    bytes_min: int
    bytes_max: int
    partitions: Sequence[FetchPartition]


class AbortedFrom(NamedTuple):
    """What this producer wrote from this offset on, up to its next abort marker, was aborted."""

    producer_id: int
    first_offset: int


class Fetched(NamedTuple):
    """The records of one partition. `high_watermark` is -1 while a new leader does not know it.

    `standing_watermark`: while it is not known and too few replicas are in sync for it to move, the offset
    that it has at least; else -1.
    """

    name: TopicPartition
    error: StrandlineError | None = None
    high_watermark: int = -1
    log_start_offset: int = -1
    records: bytes = b""
    leader_epoch: int = -1
    standing_watermark: int = -1
    topic_id: TopicId = NO_TOPIC_ID
    """Of the log that was read, if the request did not name it."""
    diverging: EpochEnd | None = None
    """The log has lost the record before the position (`Match.CUT`). Nothing was read: the position is to go
    to this end, and no further than it was."""
    stable_offset: int = -1
    """LSO; -1 while the HW is neither known nor standing."""
    aborted: Sequence[AbortedFrom] | None = None
    """For a reader of what is `stable`, in the order of their offsets."""


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """The answer to the fetch with this correlation id."""

    correlation_id: int
    partitions: Sequence[Fetched]
    throttle_ms: int = 0
    """By how much the answer was delayed, as the client is over its quota."""


# --- offsets ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OffsetQuery:
    """`timestamp_ms`: milliseconds since the Unix epoch, or LATEST, EARLIEST or
    MAX_TIMESTAMP."""

    name: TopicPartition
    timestamp_ms: int
    topic_id: TopicId = NO_TOPIC_ID
    """Look only in this incarnation of the topic."""
    stable: bool = False
    """As of `FetchPartition`: the end is the last stable offset."""


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """`offset` and `timestamp_ms` are -1 if every record is older than the query; `high_watermark` is
    -1 while a new leader does not know it."""

    name: TopicPartition
    error: StrandlineError | None = None
    offset: int = -1
    timestamp_ms: int = -1
    leader_epoch: int = -1
    high_watermark: int = -1
    log_start_offset: int = -1
    log_end_offset: int = -1
    topic_id: TopicId = NO_TOPIC_ID
    """Of the log in which the offset was looked for."""


@dataclass(frozen=True, slots=True)
class EpochQuery:
    """Asks where an epoch ended. `leader_epoch` is the current epoch that the client knows, or -1."""

    name: TopicPartition
    epoch: int
    leader_epoch: int = -1
    topic_id: TopicId = NO_TOPIC_ID
    """Look only in this incarnation of the topic."""


@dataclass(frozen=True, slots=True)
class ListedEpochEnd:
    """The largest epoch not above the one that was asked for, and the offset after its last committed record;
    both are -1 if the log has none."""

    name: TopicPartition
    error: StrandlineError | None = None
    epoch: int = -1
    end_offset: int = -1
    topic_id: TopicId = NO_TOPIC_ID
    """Of the log in which the epoch was looked for."""

    @property
    def end(self) -> EpochEnd:
        return EpochEnd(self.epoch, self.end_offset)


@dataclass(frozen=True, slots=True)
class DeletedRecords:
    """The outcome of a deletion. `log_start_offset`: where the log starts on all in-sync replicas; -1 with an
    error."""

    name: TopicPartition
    error: StrandlineError | None = None
    log_start_offset: int = -1


# --- replicas -----------------------------------------------------------------------------------

UNKNOWN: Final = -1
"""In place of a number: the replica has reported nothing to this leader."""


def known(number: int) -> int | None:
    """A number of a `ReplicaProgress`; None if it is unknown."""
    return None if number < 0 else number


@dataclass(frozen=True, slots=True)
class ReplicasQuery:
    """Asks the leader of this partition."""

    name: TopicPartition


@dataclass(frozen=True, slots=True)
class ReplicaProgress:
    """One replica; the leader itself is never behind."""

    broker: int
    in_sync: bool = False
    """Whether the ISR of record has it."""
    fetching: bool = False
    """Whether it follows the leader now, or is the leader."""
    adding: bool = False
    """Whether a reassignment adds it."""
    removing: bool = False
    """Whether a reassignment removes it."""
    log_end_offset: int = UNKNOWN
    lag: int = UNKNOWN
    """Offsets up to the leader's log end. 0: it has all that the leader has."""
    lag_bytes: int = UNKNOWN
    """The bytes of these records, to within `index.interval.bytes`; within a segment that is not being read,
    in proportion to the offsets."""
    lag_ms: int = UNKNOWN
    """Since it last had all that the leader had then, counted from the leader's election at the earliest. 0:
    it fetches, and lacks nothing."""
    bytes_per_s: int = UNKNOWN
    """The rate at which it is copied, over the last seconds: while a reassignment adds it and it is not in
    sync, or while it lacks committed records, for example on an empty disk."""
    ms_left: int = UNKNOWN
    """Until it has all, at the pace of these seconds and with what was appended meanwhile, but not faster
    than its reassignment's throttle allows. Unknown if it does not come closer."""


@dataclass(frozen=True, slots=True)
class DescribedReplicas:
    """The replicas of one partition: AR in its order, then members of the ISR that are assigned no longer.

    `high_watermark` is -1 while a new leader does not know it. After an error the rest is unknown.
    """

    name: TopicPartition
    error: StrandlineError | None = None
    leader_epoch: int = -1
    high_watermark: int = -1
    log_start_offset: int = -1
    log_end_offset: int = -1
    size_bytes: int = -1
    """Of the leader's log."""
    min_insync: int = -1
    """The members that the ISR needs for acks=all."""
    replicas: tuple[ReplicaProgress, ...] = ()
    topic_id: TopicId = NO_TOPIC_ID
    """Of the leader's log."""


# --- the cluster --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeaderWait:
    """Hold the answer until this partition has a leader of a higher epoch."""

    name: TopicPartition
    above_epoch: int


@dataclass(frozen=True, slots=True)
class MetadataQuery:
    """`topics` None: no topics, only brokers and controller; empty: all topics."""

    topics: Sequence[str] | None
    waits: Sequence[LeaderWait] = ()
    max_wait_ms: int = 0
    include_config: bool = True
    current_sizes: bool = False
    """Answers named topics with the partitions that they have now, not those of half a second ago."""


@dataclass(frozen=True, slots=True)
class MetadataAnswer:
    """A broker's view of the cluster; `errors` by topic, for the topics that it could not describe."""

    cluster: ClusterMetadata
    errors: Mapping[str, StrandlineError]
