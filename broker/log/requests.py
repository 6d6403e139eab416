"""Requests to the service `Log`, and its answers, in the broker's own types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from strandline.broker.replicas.leadership import Outcome
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.vocabulary.metadata import ClusterMetadata

ACKS_ALL = -1


@dataclass(frozen=True, slots=True)
class ProduceEntry:
    """A batch for one partition."""

    name: TopicPartition
    records: bytes
    acks: int = ACKS_ALL
    timeout_ms: int = 1_000
    correlation_id: int = 0
    """Chosen by the client; the result carries it."""
    internal: bool = False
    """True for a write to an internal topic, by a member of the cluster."""
    expected_offset: int | None = None
    """Append only if the log ends there: see `PartitionLog.append_as_leader`."""


@dataclass(frozen=True, slots=True)
class ProduceMessage:
    """One message of a produce stream."""

    count: int
    entries: Iterable[ProduceEntry]
    """The entries, decoded one by one as they are read, so only one at a time is in memory twice."""
    unreplicated: frozenset[TopicPartition]
    """The partitions of entries that only their leader acknowledges (acks 0 and 1)."""


ProduceResults = Sequence[tuple[int, Outcome]]
"""Correlation ids of entries, with their outcomes."""


@dataclass(frozen=True, slots=True)
class FetchPartition:
    name: TopicPartition
    offset: int
    leader_epoch: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """One request of a fetch stream."""

    correlation_id: int
    wait_ms: int
    bytes_min: int
    bytes_max: int
    partitions: Sequence[FetchPartition]


@dataclass(frozen=True, slots=True)
class Fetched:
    """The result for one partition. `high_watermark` is -1 while a new leader does not know it yet."""

    name: TopicPartition
    error: StrandlineError | None = None
    high_watermark: int = -1
    log_start_offset: int = -1
    leader_epoch: int = -1
    records: bytes = b""


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    correlation_id: int
    partitions: Sequence[Fetched]


@dataclass(frozen=True, slots=True)
class Listed:
    """The result for one partition. `offset` and `timestamp_ms` are -1 if no record is recent enough,
    `high_watermark` while a new leader does not know it yet."""

    name: TopicPartition
    error: StrandlineError | None = None
    offset: int = -1
    timestamp_ms: int = -1
    leader_epoch: int = -1
    high_watermark: int = -1
    log_start_offset: int = -1
    log_end_offset: int = -1


@dataclass(frozen=True, slots=True)
class MetadataRequest:
    """A request for metadata; without topics, for all of them. `waits`: answer once these partitions have
    leaders with epochs above these, or after `wait_ms`."""

    topics: Sequence[str]
    waits: Sequence[tuple[TopicPartition, int]]
    wait_ms: int
    omit_topics: bool
    include_config: bool


@dataclass(frozen=True, slots=True)
class MetadataAnswer:
    cluster: ClusterMetadata
    unknown: Sequence[str]
    """The requested topics that do not exist."""
    include_config: bool
