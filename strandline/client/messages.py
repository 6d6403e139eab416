"""What clients ask and are answered, in their own types; `wire` turns them into protobuf and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.metadata import ClusterMetadata, Endpoint

LATEST: Final = -1
"""As a timestamp in ListOffsets: the high watermark."""
EARLIEST: Final = -2
"""As a timestamp in ListOffsets: where the log starts."""


@dataclass(frozen=True, slots=True)
class LeaderWait:
    """Hold the answer until this partition has a leader of a higher epoch."""

    name: TopicPartition
    above_epoch: int


@dataclass(frozen=True, slots=True)
class MetadataQuery:
    """`topics` None: none of them, only brokers and controller; empty: all of them."""

    topics: Sequence[str] | None
    waits: Sequence[LeaderWait] = ()
    max_wait_ms: int = 0


@dataclass(frozen=True, slots=True)
class MetadataAnswer:
    """What a broker knows; `errors` by topic, for those that it could not describe."""

    cluster: ClusterMetadata
    errors: Mapping[str, StrandlineError]


@dataclass(frozen=True, slots=True)
class OffsetQuery:
    """`timestamp_ms`: milliseconds since the Unix epoch, or LATEST or EARLIEST."""

    name: TopicPartition
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """`offset` and `timestamp_ms` are -1 where no record is as young as was asked."""

    name: TopicPartition
    error: StrandlineError | None
    offset: int
    timestamp_ms: int
    leader_epoch: int
    high_watermark: int
    log_start_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """What makes a producer's batches recognizable (KIP-98)."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. `config` has Kafka's names and text values.

    `assignments`, where given, names the replicas of each partition in order, the preferred one
    first; the replication factor is then theirs.
    """

    name: str
    partitions: int = 1
    replication_factor: int = 1
    config: Mapping[str, str] = field(default_factory=dict)
    assignments: Sequence[Sequence[int]] = ()


@dataclass(frozen=True, slots=True)
class CreateTopics:
    """`internal` allows the system's own names, which begin with `__`."""

    topics: Sequence[NewTopic]
    validate_only: bool
    internal: bool = False


@dataclass(frozen=True, slots=True)
class AlterTopic:
    topic: str
    set: Mapping[str, str]
    unset: Sequence[str]


@dataclass(frozen=True, slots=True)
class TopicResult:
    topic: str
    error: StrandlineError | None
    topic_id: str


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A live broker. `queued_state_changes`: requests that wait in its queue."""

    endpoint: Endpoint
    broker_epoch: int
    shutting_down: bool
    queued_state_changes: int


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster as its active controller sees it."""

    cluster_id: str
    controller: Endpoint
    brokers: tuple[BrokerDescription, ...]
