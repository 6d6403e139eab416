"""Values that clients and controllers exchange through the service `Admin`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from strandline.errors import StrandlineError
from strandline.ids import NO_TOPIC_ID, TopicId, TopicPartition
from strandline.security.acls import AclBinding
from strandline.security.quotas.model import QuotaAlteration, QuotaEntity
from strandline.vocabulary.metadata import BalanceMove, BalanceState, Endpoint

# --- topics -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. `config` has Kafka's names and text values.

    `assignments`, if given, names the replicas of each partition in order, the preferred leader
    first; the replication factor is then theirs, and `partitions` their number or 0.
    """

    name: str
    partitions: int = 1
    replication_factor: int = 1
    config: Mapping[str, str] = field(default_factory=dict)
    assignments: Sequence[Sequence[int]] = ()


@dataclass(frozen=True, slots=True)
class CreateTopics:
    """`internal` allows names of internal topics, which begin with `__`; only members of the cluster
    may set it."""

    topics: Sequence[NewTopic]
    validate_only: bool
    internal: bool = False


@dataclass(frozen=True, slots=True)
class DeleteTopics:
    """`topic_ids`: none, or one for each topic, empty for any. A topic with another id is not deleted."""

    topics: Sequence[str]
    topic_ids: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class AlterTopic:
    """`partitions`: the new number, 0 to leave it; `assignments`: replicas of the added partitions, in
    order. `topic_id`: only of the topic with this id."""

    topic: str
    set: Mapping[str, str] = field(default_factory=dict)
    unset: Collection[str] = ()
    partitions: int = 0
    assignments: Sequence[Sequence[int]] = ()
    validate_only: bool = False
    topic_id: TopicId = NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class TopicResult:
    """The outcome for one topic of a request. `topic_id` is empty if there is none."""

    topic: str
    error: StrandlineError | None = None
    topic_id: str = ""
    warnings: Sequence[str] = ()
    """Doubts about its replicas, which were placed nevertheless."""


# --- placement ----------------------------------------------------------------------------------

NO_DEADLINE: Final = -1
"""As the timeout of a reassignment: it has no deadline."""


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A request to give this partition these replicas (RAR), the preferred leader first; none: cancel.

    `only_throttle`: without replicas, change only the throttle of the reassignment under way. `topic_id`:
    only of the topic with this id. `keep_size`: only if the partition has as many replicas.
    """

    name: TopicPartition
    replicas: tuple[int, ...]
    only_throttle: bool = False
    topic_id: TopicId = NO_TOPIC_ID
    keep_size: bool = False


@dataclass(frozen=True, slots=True)
class Reassign:
    """`timeout_ms`: after this time the moves are overdue; 0: after the controller's own; NO_DEADLINE: never.
    `cancel_at_deadline`: they are then taken back."""

    partitions: Sequence[PartitionReassignment]
    throttle_bytes_per_s: int = 0
    validate_only: bool = False
    timeout_ms: int = 0
    cancel_at_deadline: bool = False


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """The outcome for one partition of a request."""

    name: TopicPartition
    error: StrandlineError | None = None
    warnings: Sequence[str] = ()
    """Doubts about the replicas that were named; they were accepted nevertheless."""


@dataclass(frozen=True, slots=True)
class OngoingReassignment:
    """A partition whose replicas move from `original` to `replicas`. `deadline_at_ms`: 0 if it has none."""

    name: TopicPartition
    original: tuple[int, ...]
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    throttle_bytes_per_s: int
    reverting: bool
    deadline_at_ms: int = 0
    overdue: bool = False
    """The deadline has passed, and the controller has recorded that."""


@dataclass(frozen=True, slots=True)
class ElectUnclean:
    """`topic_ids`: none, or one for each partition, empty for any. In a topic with another id none is
    elected."""

    partitions: Sequence[TopicPartition]
    validate_only: bool = False
    topic_ids: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class UncleanElection:
    """An unclean election, made or planned; after an error there is none."""

    name: TopicPartition
    error: StrandlineError | None = None
    broker: int = -1
    """The new leader, or the candidate."""
    last_epoch: int = -1
    """The epoch of the last record in its log; -1: the log is empty."""
    log_end: int = 0
    """The end of its log: what was committed from here on is lost."""
    known_end: int = 0
    """The records between `log_end` and this offset were committed for certain; more may have been."""
    known: str = ""
    """The same as text."""
    missing: tuple[str, ...] = ()
    """The in-sync replicas that have not returned with their logs, as text."""
    topic_id: TopicId = NO_TOPIC_ID
    """Of its topic: the leader is elected, or would be, in this one."""


# --- brokers ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DrainBroker:
    broker: int
    replicas: bool = False
    undo: bool = False
    throttle_bytes_per_s: int = 0
    until_restart: bool = False


@dataclass(frozen=True, slots=True)
class DrainProgress:
    """What a drained broker still has, and why some of it stays for now."""

    leaderships: int
    replicas: int
    problems: Sequence[str]
    """The temporary ones first."""
    permanent: int = 0
    """The number of leaderships of partitions that have no other replica and get none by this drain."""


@dataclass(frozen=True, slots=True)
class ForgetBroker:
    broker: int


@dataclass(frozen=True, slots=True)
class ForgottenBroker:
    """`requests`: state changes that waited for it and have failed now. Not `was_known`: there was nothing to
    forget."""

    was_known: bool
    requests: int = 0


@dataclass(frozen=True, slots=True)
class CheckBroker:
    """`end_drain`: end the drain of its leaderships, if the broker is ready and was started again since."""

    broker: int
    end_drain: bool = False


@dataclass(frozen=True, slots=True)
class BrokerCheck:
    """`ready`: caught up, and it may be stopped without a partition falling below its bound."""

    ready: bool
    problems: Sequence[str]
    """The temporary ones first, then the permanent ones."""
    leaderships: int
    replicas: int
    permanent: Sequence[str] = ()
    """The problems that waiting does not solve: partitions that need all their replicas in sync."""
    drain_ended: bool = False
    """A drain of its leaderships, requested in an earlier life, was ended by this check."""

    @property
    def is_ready_but_for_permanent(self) -> bool:
        """True if there is no problem but permanent ones."""
        return self.ready or (bool(self.problems) and self.problems == self.permanent)


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker that is alive, or that was once and has a queue.

    `queued_state_changes`: requests in it that have not ended; `oldest_queued_at_ms`: when the
    oldest of them was made, 0 if there is none.
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


# --- balances -----------------------------------------------------------------------------------


class BalanceAction(IntEnum):
    """What to do with the balance under way."""

    PAUSE = 1
    """Begin no more moves. Those that have begun continue."""
    RESUME = 2
    CANCEL = 3
    """End it. Moves that have begun continue."""
    REVERT = 4
    """End it, and take back the moves that have begun and are not complete."""


@dataclass(frozen=True, slots=True)
class PartitionBytes:
    """The size of one replica of a partition."""

    name: TopicPartition
    bytes: int


@dataclass(frozen=True, slots=True)
class StartBalance:
    """A balance over `brokers`, none: all that may get replicas; of `topics`, none: all.

    `validate_only`: only plan it. `sizes`: as far as the caller knows them.
    """

    brokers: tuple[int, ...] = ()
    topics: tuple[str, ...] = ()
    throttle_bytes_per_s: int = 0
    validate_only: bool = False
    sizes: tuple[PartitionBytes, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """What a broker has of the balanced partitions, before and after: replicas, preferred leaderships, and
    the bytes of these replicas as far as they are known."""

    broker: int
    replicas_before: int
    leads_before: int
    bytes_before: int
    replicas_after: int
    leads_after: int
    bytes_after: int
    kept_because: str = ""
    """Why it gives and gets nothing; empty: it takes part."""


@dataclass(frozen=True, slots=True)
class BalancePlan:
    """The moves of a balance, and what they make of each broker."""

    moves: tuple[BalanceMove, ...]
    loads: tuple[BrokerLoad, ...]
    left_out: int = 0
    """Further moves, which another balance after this one does."""

    @property
    def copies(self) -> int:
        """Replicas that are copied to another broker."""
        return sum(len(move.added) for move in self.moves)

    @property
    def copied_bytes(self) -> int:
        return sum(len(move.added) * move.bytes for move in self.moves)

    def longest_ms(self, throttle_bytes_per_s: int) -> int:
        """About how long the largest move takes at a throttle, which each partition has for itself."""
        return max((move.throttled_ms(throttle_bytes_per_s) for move in self.moves), default=0)


@dataclass(frozen=True, slots=True)
class BalanceDescription:
    """The balance under way, or the last one: how many partitions it changes, and how far it is."""

    state: BalanceState
    at_ms: int = 0
    """When it was asked for."""
    throttle_bytes_per_s: int = 0
    moves: int = 0
    done: int = 0
    moving: int = 0
    skipped: int = 0
    """Partitions that were deleted, that others have moved since, or that were to get a replica on a broker
    whose replicas are drained."""
    problems: tuple[str, ...] = ()
    """Why some moves do not get on now."""
    skipped_because: tuple[str, ...] = ()
    """Why moves were skipped: of the first ones, and how many more there are."""

    @property
    def left(self) -> int:
        """Moves that have not begun."""
        return self.moves - self.done - self.moving - self.skipped


# --- state changes ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StateChangesQuery:
    """Selects records of `__state_changes`; `StateChangesRequest` in proto/strandline/rpc/admin.proto
    describes the fields."""

    brokers: tuple[int, ...] = ()
    topic: str = ""
    partition: int = -1
    follow: bool = False
    from_offsets: tuple[int, ...] = ()
    since_ms: int = 0


@dataclass(frozen=True, slots=True)
class StateChangesAnswer:
    """Selected records, as they are in the log, and the offsets at which to continue after them."""

    events: Sequence[bytes]
    next_offsets: tuple[int, ...]


# --- ACLs ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AclResult:
    """The outcome for one ACL of a request."""

    binding: AclBinding
    error: StrandlineError | None = None


@dataclass(frozen=True, slots=True)
class DeletedAcls:
    """The ACLs that one filter matched: each is deleted, unless it has an error."""

    matched: tuple[AclResult, ...]


# --- users --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UserResult:
    """The outcome for one user of a request: all changes of the user, or none of them."""

    user: str
    error: StrandlineError | None = None


@dataclass(frozen=True, slots=True)
class UserDescription:
    """A user, and the iterations of each mechanism that it has a credential for.

    Without any, its znode is unreadable: the user cannot log in until it is set again.
    """

    user: str
    iterations: Mapping[str, int] = field(default_factory=dict)
    error: StrandlineError | None = None


# --- quotas -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AlterClientQuotas:
    """New limits of users and client ids."""

    alterations: tuple[QuotaAlteration, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class QuotaResult:
    """The outcome for one entity of a request."""

    entity: QuotaEntity
    error: StrandlineError | None = None
