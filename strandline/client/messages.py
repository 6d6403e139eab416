"""What clients ask and are answered, in their own types; `wire` turns them into protobuf and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.vocabulary.metadata import ClusterMetadata, Endpoint
from strandline.vocabulary.state_changes import StateChangeEvent

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
    """`offset` and `timestamp_ms` are -1 where no record is as young as was asked; `high_watermark` while a
    new leader does not know it yet."""

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
    """`partitions`: as many from now on, 0 as it is; `assignments`: of those that are new, in order."""

    topic: str
    set: Mapping[str, str]
    unset: Sequence[str]
    partitions: int = 0
    assignments: Sequence[Sequence[int]] = ()


@dataclass(frozen=True, slots=True)
class TopicResult:
    topic: str
    error: StrandlineError | None
    topic_id: str


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """`replicas` (RAR), the preferred leader first; none: cancel what is under way."""

    name: TopicPartition
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reassign:
    partitions: Sequence[PartitionReassignment]
    throttle_bytes_per_s: int = 0
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class PartitionResult:
    name: TopicPartition
    error: StrandlineError | None


@dataclass(frozen=True, slots=True)
class OngoingReassignment:
    """A partition whose replicas are on their way from `original` to `replicas`."""

    name: TopicPartition
    original: tuple[int, ...]
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    throttle_bytes_per_s: int
    reverting: bool


@dataclass(frozen=True, slots=True)
class ElectUnclean:
    partitions: Sequence[TopicPartition]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class UncleanElection:
    """An unclean election, made or planned; after an error there is none."""

    name: TopicPartition
    error: StrandlineError | None
    broker: int = -1
    """That leads, or would."""
    last_epoch: int = -1
    """Of the last record in its log; -1: it is empty."""
    log_end: int = 0
    """Where its log ends: what was committed from here on is lost."""
    known_end: int = 0
    """What lies between `log_end` and this was committed for certain; more may have been."""
    known: str = ""
    """The same in words."""
    missing: tuple[str, ...] = ()
    """What became of in-sync replicas that are not back with their logs, in words."""


@dataclass(frozen=True, slots=True)
class DrainBroker:
    broker: int
    replicas: bool = False
    undo: bool = False
    throttle_bytes_per_s: int = 0


@dataclass(frozen=True, slots=True)
class DrainProgress:
    """What a broker that is being drained still has; `problems`: what cannot be moved now, and why."""

    leaderships: int
    replicas: int
    problems: tuple[str, ...]
    permanent: int = 0
    """Of the leaderships, those of partitions that have no other replica: no waiting moves them."""


@dataclass(frozen=True, slots=True)
class CheckBroker:
    """`end_drain`: if the broker is ready, and was started again since it was drained, it may lead again."""

    broker: int
    end_drain: bool = False


@dataclass(frozen=True, slots=True)
class BrokerCheck:
    """`ready`: caught up everywhere, and it may be stopped without a partition falling below its bound."""

    ready: bool
    problems: tuple[str, ...]
    leaderships: int
    replicas: int
    permanent: tuple[str, ...] = ()
    """Of the problems, those that no waiting mends: partitions that need all their replicas in sync."""
    drain_ended: bool = False
    """The broker was drained of its leaderships before its last start, and may lead again from now on."""

    @property
    def is_ready_but_for_permanent(self) -> bool:
        """Nothing, or nothing that a later question would find gone, is in the way."""
        return self.ready or (bool(self.problems) and self.problems == self.permanent)


@dataclass(frozen=True, slots=True)
class StateChangesQuery:
    """Which records of `__state_changes`; see `StateChangesRequest` in proto/strandline/rpc/admin.proto."""

    brokers: tuple[int, ...] = ()
    topic: str = ""
    partition: int = -1
    follow: bool = False
    from_offsets: tuple[int, ...] = ()
    since_ms: int = 0


@dataclass(frozen=True, slots=True)
class StateChangesAnswer:
    """Some events, in the order in which they were written; `next_offsets` to go on with after a loss."""

    events: tuple[StateChangeEvent, ...]
    next_offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker that is alive, or that has a queue.

    `queued_state_changes`: requests in it that have not ended; `oldest_queued_at_ms`: when the oldest of them
    was made, 0 if there is none.
    """

    endpoint: Endpoint
    broker_epoch: int
    shutting_down: bool
    queued_state_changes: int
    oldest_queued_at_ms: int = 0
    alive: bool = True
    drained: bool = False


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster as its active controller sees it."""

    cluster_id: str
    controller: Endpoint
    brokers: tuple[BrokerDescription, ...]
