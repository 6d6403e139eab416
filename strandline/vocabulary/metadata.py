"""Facts of the cluster that several parts share. Frozen: a change is a new value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from strandline.ids import NO_BROKER, NO_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch, TopicId
from strandline.vocabulary.state_changes import StateChangeEvent


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a broker or controller answers."""

    id: int
    host: str
    port: int
    rack: str = ""
    external: tuple[str, int] | None = None
    """Where clients reach it that are not in its network, if that is somewhere else."""

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Registration:
    """A live broker, as `/brokers/ids/[id]` has it."""

    endpoint: Endpoint
    epoch: BrokerEpoch
    shutting_down: bool = False

    @property
    def id(self) -> BrokerId:
        return BrokerId(self.endpoint.id)


@dataclass(frozen=True, slots=True)
class IsrMember:
    """A member of the ISR and the life (broker epoch) in which it joined (CORRECTNESS E2, I6)."""

    broker: BrokerId
    broker_epoch: BrokerEpoch


class LogCondition(Enum):
    """What a replica whose partition nobody leads says of its log, as far as the ISR of record goes."""

    UNSURE = "unsure"
    """In sync once; records that counted then may be missing: they were not synced, and power was lost."""
    OUTSIDE = "outside"
    """Not in sync when the last leader wrote the ISR."""
    ABSENT = "absent"
    """In sync once, and this is not the log of that time: its folder was lost."""
    DAMAGED = "damaged"
    """It cannot lead."""


@dataclass(frozen=True, slots=True)
class LogStatement:
    """What `broker`, in this life, has of a partition that nobody leads. It stays true until a leader is
    elected: nothing is appended before that."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    condition: LogCondition
    last_epoch: int
    """Of its last record; -1 if it has none."""
    log_start: int
    log_end: int
    high_watermark: int
    """The highest ever known there; above `log_end` if committed records are missing."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What `…/isr` holds. Every write is a compare-and-set on the znode's version.

    `trail` has the events that led here and that `__state_changes` may lack: each is written by the very
    write that makes it happen, so none is lost when its writer dies before it could record it. Who writes
    next hands them on, or drops those that it knows to be recorded. It is no part of the state.
    """

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[IsrMember, ...]
    trail: tuple[StateChangeEvent, ...] = field(default=(), compare=False)
    statements: tuple[LogStatement, ...] = field(default=(), compare=False)
    """While nobody in sync can lead without a loss: what each replica that is back has. Ends with the next
    election."""
    lossy_epoch: LeaderEpoch = field(default=NO_EPOCH, compare=False)
    """The last epoch whose leader may lack committed records. Its followers cut what it lacks (T11)."""

    @property
    def isr_ids(self) -> tuple[BrokerId, ...]:
        return tuple(member.broker for member in self.isr)

    def __contains__(self, broker: object) -> bool:
        return any(member.broker == broker for member in self.isr)


NEVER_LED = PartitionState(NO_BROKER, NO_EPOCH, ())


REPLACED_MAX: Final = 4
"""Targets that a reassignment remembers to have replaced; their ends are told at the latest with its own."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """An earlier target of a reassignment that goes on: it ended as superseded when another was asked for."""

    request_id: str
    replicas: tuple[BrokerId, ...]
    at_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class Reassignment:
    """`/brokers/partitions_reassigned/[topic]/[partition]`: where the replicas of a partition go.

    While it stands AR is `original` and, after them, what `replicas` (RAR) has besides; and what an earlier
    RAR had, if this one replaced it: such a replica may be in sync, or lead, so it stays until the end like
    any other of AR − RAR. Only the `replicas` znode knows all of AR. `reverting`: it was cancelled, and the
    partition goes back to `original`. `throttle_bytes_per_s` bounds what the leader sends to replicas that
    are new; 0: no bound of its own.
    """

    topic_id: TopicId
    replicas: tuple[BrokerId, ...]
    original: tuple[BrokerId, ...]
    throttle_bytes_per_s: int = 0
    reverting: bool = False
    request_id: str = ""
    """Of its events in `__state_changes`: the leader that completes it tells its whole life, and those of
    what it replaced. Another RAR is another request; a cancellation is the end of this one."""
    at_ms: int = 0
    """When it was asked for."""
    replaced: tuple[Replaced, ...] = ()

    @property
    def target(self) -> tuple[BrokerId, ...]:
        """AR once it is over: RAR, or the original if it was cancelled."""
        return self.original if self.reverting else self.replicas

    @property
    def adding(self) -> tuple[BrokerId, ...]:
        """RAR − the original AR."""
        return tuple(broker for broker in self.replicas if broker not in self.original)

    @property
    def grown(self) -> tuple[BrokerId, ...]:
        """AR at its begin: the original order first, so that leaders stay until the end."""
        return self.original + self.adding


@dataclass(frozen=True, slots=True)
class Drain:
    """`/admin/drains/[id]`: this broker is to lead nothing, and with `replicas` to have nothing either.

    It stands until it is taken back, whatever becomes of the broker's session. One of leaderships alone also
    ends when the broker, registered in another life than `broker_epoch`, is found to be ready again.
    """

    broker_epoch: BrokerEpoch
    """The life in which the broker was registered when it was asked for."""
    replicas: bool
    throttle_bytes_per_s: int = 0
    """For the reassignments that it makes."""
    earlier_throttles: tuple[int, ...] = ()
    """Those that it had before; reassignments of its own that still have one of them get the present one."""


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """What a client knows of a partition."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    def led_by(self, leader: int, leader_epoch: int) -> PartitionMetadata:
        """The same with the leader of a later epoch. The ISR is the one of before until it is read again, but
        for the leader: that one is in it, or it would not lead."""
        isr = self.isr if leader in self.isr else (leader, *self.isr)
        return PartitionMetadata(self.partition, leader, leader_epoch, self.replicas, isr)

    def without_leader(self) -> PartitionMetadata:
        """The same once its leader is gone and no other was elected yet."""
        return PartitionMetadata(self.partition, NO_BROKER, self.leader_epoch, self.replicas, self.isr)


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """What a client knows of a topic."""

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionMetadata, ...]
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """What a client knows of the cluster."""

    cluster_id: str
    brokers: tuple[Endpoint, ...]
    controller: Endpoint | None
    topics: tuple[TopicMetadata, ...]
    controller_unknown: str = ""
    """Why `controller` is None, where the broker could not look for one."""
