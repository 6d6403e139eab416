"""What clients ask of the service `Log`, and what they are answered, in the broker's own types."""

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
    """That many, made while they are read: the records of one entry at a time are in memory twice."""
    unreplicated: frozenset[TopicPartition]
    """The partitions of entries that their leader alone acknowledges (acks 0 and 1)."""


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
    """One of the requests of a fetch stream."""

    correlation_id: int
    wait_ms: int
    bytes_min: int
    bytes_max: int
    partitions: Sequence[FetchPartition]


@dataclass(frozen=True, slots=True)
class Fetched:
    """`high_watermark` is -1 while a new leader does not know it yet."""

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
    """`offset` and `timestamp_ms` are -1 where no record is as young as was asked; `high_watermark` while a
    new leader does not know it yet."""

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
    """No topics: all of them. `waits`: answer once these partitions have leaders above these epochs, or
    after `wait_ms`."""

    topics: Sequence[str]
    waits: Sequence[tuple[TopicPartition, int]]
    wait_ms: int
    omit_topics: bool
    include_config: bool


@dataclass(frozen=True, slots=True)
class MetadataAnswer:
    cluster: ClusterMetadata
    unknown: Sequence[str]
    """The topics asked for that do not exist."""
    include_config: bool
