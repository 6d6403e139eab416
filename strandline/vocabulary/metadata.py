"""Cluster facts that several packages share. They are frozen: a change is a new value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final

from strandline.config.limits import REASSIGNMENT_NEAR_BYTES
from strandline.ids import NO_BROKER, NO_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch, TopicId, TopicPartition
from strandline.vocabulary.state_changes import AskedBy, StateChangeEvent


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a broker or controller."""

    id: int
    host: str
    port: int
    rack: str = ""
    external: tuple[str, int] | None = None
    """The address for clients in another network, if it differs."""
    kafka: tuple[str, int] | None = None
    """The address for Kafka clients; None: this member serves none."""
    kafka_external: tuple[str, int] | None = None
    """The address for Kafka clients in another network, if it differs."""
    encrypted: bool = False
    """Whether connections to `address` are encrypted, as the member says in ZooKeeper."""
    replication: tuple[str, int] | None = None
    """The address at which followers fetch by streams of frames; None: they fetch at `address`."""

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Registration:
    """A live broker, as registered in `/brokers/ids/[id]`."""

    endpoint: Endpoint
    epoch: BrokerEpoch
    shutting_down: bool = False
    follower_fetch: bool = False
    """Whether its followers serve clients that name their rack; those of earlier versions refuse them."""

    @property
    def id(self) -> BrokerId:
        return BrokerId(self.endpoint.id)


@dataclass(frozen=True, slots=True)
class IsrMember:
    """A member of the ISR and the broker epoch with which it joined (CORRECTNESS E2, I6)."""

    broker: BrokerId
    broker_epoch: BrokerEpoch


class LogCondition(Enum):
    """The state of a replica's log in a partition without a leader, relative to the recorded ISR."""

    UNSURE = "unsure"
    """It was in sync, but records that counted then may be missing: they were not synced before a
    loss of power."""
    OUTSIDE = "outside"
    """It was not in sync when the last leader wrote the ISR."""
    ABSENT = "absent"
    """It was in sync, but its folder was lost: this is a new log."""
    DAMAGED = "damaged"
    """Its log is damaged; it cannot lead."""


@dataclass(frozen=True, slots=True)
class LogStatement:
    """The state of the log of `broker`, in this registration, for a partition without a leader. It
    stays true until a leader is elected: nothing is appended before that."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    condition: LogCondition
    last_epoch: int
    """The epoch of the last record; -1 if there is none."""
    log_start: int
    log_end: int
    high_watermark: int
    """The highest HW that the replica ever knew; above `log_end` if committed records are missing."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The content of `…/isr`. Every write is a compare-and-set on the znode's version.

    `trail` has the events that led to this state and that `__state_changes` may lack. Each event is
    written by the same write that makes it happen, so none is lost if its writer dies before it
    could record the event. The next writer keeps these events, or drops those that it knows to be
    recorded. `trail` is no part of the state.
    """

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[IsrMember, ...]
    trail: tuple[StateChangeEvent, ...] = field(default=(), compare=False)
    statements: tuple[LogStatement, ...] = field(default=(), compare=False)
    """The log state of each replica that has returned, while no in-sync replica can lead without a
    loss. The next election removes it."""
    lossy_epoch: LeaderEpoch = field(default=NO_EPOCH, compare=False)
    """The last epoch whose leader may lack committed records. Its followers truncate what it lacks (T11)."""

    @property
    def isr_ids(self) -> tuple[BrokerId, ...]:
        return tuple(member.broker for member in self.isr)

    def __contains__(self, broker: object) -> bool:
        return any(member.broker == broker for member in self.isr)


NEVER_LED = PartitionState(NO_BROKER, NO_EPOCH, ())


REPLACED_MAX: Final = 4
"""Replaced targets that a reassignment remembers; their ends are recorded at the latest with its own end."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """An earlier target of a running reassignment, superseded by a later request."""

    request_id: str
    replicas: tuple[BrokerId, ...]
    at_ms: int
    until_ms: int
    by: AskedBy | None = None


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a reassignment should be complete, milliseconds since 1970."""

    at_ms: int
    cancels: bool = False
    """A reassignment that is not complete by then is taken back."""
    passed: bool = False
    """It has passed, and the event that says so is kept."""


@dataclass(frozen=True, slots=True)
class Reassignment:
    """`/brokers/partitions_reassigned/[topic]/[partition]`: the target replicas of a partition.

    While it exists, AR is `original` followed by the replicas of `replicas` (RAR) that are not in
    it, and by those of an earlier RAR if this one replaced it: such a replica may be in sync, or
    lead, so it stays until the end like any other of AR − RAR. Only the `replicas` znode has all of
    AR. `reverting`: the reassignment was cancelled, and the partition returns to `original`.
    `throttle_bytes_per_s` limits what the leader sends to new replicas; 0: no limit of its own.
    """

    topic_id: TopicId
    replicas: tuple[BrokerId, ...]
    original: tuple[BrokerId, ...]
    throttle_bytes_per_s: int = 0
    reverting: bool = False
    request_id: str = ""
    """The request id of its events in `__state_changes`: the leader that completes the reassignment
    records all its events, and those of the targets that it replaced. Another RAR is another
    request; a cancellation ends this one."""
    at_ms: int = 0
    """The time of the request."""
    replaced: tuple[Replaced, ...] = ()
    by: AskedBy | None = None
    """The caller that asked for these replicas; None: no caller did."""
    deadline: Deadline | None = None
    """None: it may take as long as it takes. A reassignment that is taken back has none."""
    cause: str = ""
    """What they are part of: "balance", "drain"; empty if the caller named them."""

    @property
    def is_overdue(self) -> bool:
        return self.deadline is not None and self.deadline.passed

    @property
    def target(self) -> tuple[BrokerId, ...]:
        """AR after the reassignment: RAR, or `original` if it was cancelled."""
        return self.original if self.reverting else self.replicas

    @property
    def adding(self) -> tuple[BrokerId, ...]:
        """RAR − the original AR."""
        return tuple(broker for broker in self.replicas if broker not in self.original)

    @property
    def grown(self) -> tuple[BrokerId, ...]:
        """AR at the start: the original order first, so that leaders stay until the end."""
        return self.original + self.adding


@dataclass(frozen=True, slots=True)
class Drain:
    """`/admin/drains/[id]`: this broker shall lead no partition and, with `replicas`, hold no
    replica.

    It stays in force until it is withdrawn, whether or not the broker's session ends. A drain of
    leaderships alone also ends when the broker, registered again with another epoch than
    `broker_epoch`, is found to be ready; with `until_restart` as soon as it is registered again.
    """

    broker_epoch: BrokerEpoch
    """The broker epoch when the drain was requested."""
    replicas: bool
    throttle_bytes_per_s: int = 0
    """The limit for the reassignments that it makes."""
    earlier_throttles: tuple[int, ...] = ()
    """Its earlier limits; reassignments of this drain that still have one of them get the present limit."""
    by: AskedBy | None = field(default=None, compare=False)
    """The caller that asked for it; None: no caller did."""
    until_restart: bool = False


class BalanceState(StrEnum):
    """From RUNNING to PAUSED and back; from both to CANCELLED or COMPLETED."""

    NONE = "none"
    """There was no balance."""
    RUNNING = "running"
    PAUSED = "paused"
    """No move begins. Those that had begun continue."""
    CANCELLED = "cancelled"
    COMPLETED = "completed"

    @property
    def is_under_way(self) -> bool:
        return self in (BalanceState.RUNNING, BalanceState.PAUSED)


def throttled_ms(
    bytes_left: int, bytes_per_s: int, *, copies: int = 1, near_bytes: int = REASSIGNMENT_NEAR_BYTES
) -> int:
    """About how many milliseconds the throttle of a partition makes its new replicas take, if nothing else
    slows them down and producers append nothing.

    `bytes_left`: what all `copies` lack together; they share the throttle. The last `near_bytes` of each are
    not held back, so a partition that is smaller takes no time by its throttle.
    """
    held_back = max(0, bytes_left - copies * near_bytes)
    return held_back * 1000 // bytes_per_s


@dataclass(frozen=True, slots=True)
class BalanceMove:
    """A partition that a balance gives other replicas, or the same ones in another order."""

    name: TopicPartition
    topic_id: TopicId
    before: tuple[BrokerId, ...]
    after: tuple[BrokerId, ...]
    bytes: int = 0
    """Of one replica when the balance was planned; 0 if they were not known."""

    @property
    def added(self) -> tuple[BrokerId, ...]:
        """The brokers that copy the partition. None: only the order of its replicas changes."""
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removed(self) -> tuple[BrokerId, ...]:
        """The brokers that give it up."""
        return tuple(broker for broker in self.before if broker not in self.after)

    def throttled_ms(self, bytes_per_s: int) -> int:
        """As `throttled_ms`, as far as its size is known."""
        copies = len(self.added)
        return throttled_ms(copies * self.bytes, bytes_per_s, copies=copies)

    @property
    def turn(self) -> tuple[bool, TopicPartition]:
        """Moves begin in this order: first those that copy."""
        return not self.added, self.name


@dataclass(frozen=True, slots=True)
class Balance:
    """`/admin/balance`: the balance under way, or the last one.

    The controller begins its moves, a few at a time. `moves` are those that have not ended. Once a balance is
    cancelled they are those that still move; of one that is over there are none.
    """

    state: BalanceState
    moves: tuple[BalanceMove, ...]
    count: int
    """All moves that it began with."""
    throttle_bytes_per_s: int = 0
    at_ms: int = 0
    done: int = 0
    skipped: int = 0
    by: AskedBy | None = None
    """The caller that asked for it; None: no caller did."""
    reasons: tuple[str, ...] = ()
    """Why moves were skipped: of the first ones, as many as have room."""


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """A client's view of a partition."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    def led_by(self, leader: int, leader_epoch: int) -> PartitionMetadata:
        """The same partition with the leader of a later epoch. The ISR stays as it was until it is
        read again, with the leader added: a leader is always in the ISR."""
        isr = self.isr if leader in self.isr else (leader, *self.isr)
        return PartitionMetadata(self.partition, leader, leader_epoch, self.replicas, isr)

    def without_leader(self) -> PartitionMetadata:
        """The same partition after its leader is lost and before another is elected."""
        return PartitionMetadata(self.partition, NO_BROKER, self.leader_epoch, self.replicas, self.isr)


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A client's view of a topic."""

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionMetadata, ...]
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """A client's view of the cluster."""

    cluster_id: str
    brokers: tuple[Endpoint, ...]
    controller: Endpoint | None
    topics: tuple[TopicMetadata, ...]
    controller_unknown: str = ""
    """Why `controller` is None, if the broker could not look for it."""
