"""Packs the writes of topics into `multi`s.

A partition's znodes and its state-change requests are always in the same one, and so is all that is to be
written as a whole. The requests of one multi take one znode a broker, also those about different topics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes, queue_znodes
from strandline.adapters.zookeeper.requests.sizes import OPERATION_BYTES, operation_size
from strandline.config.limits import KIB, MULTI_BYTES_MAX, STATE_ENTRY_BYTES_MAX
from strandline.controller.core.cluster import PlacedTopic
from strandline.controller.core.placement import ReplicaAssignment
from strandline.ids import (
    NO_BROKER,
    NO_EPOCH,
    BrokerId,
    LeaderEpoch,
    PartitionId,
    PartitionKey,
    TopicId,
)
from strandline.ports import Create, Delete, Operation
from strandline.vocabulary.metadata import IsrMember, PartitionState, Registration
from strandline.vocabulary.state_changes import (
    TOPIC_CREATED,
    AskedBy,
    Command,
    StateChange,
    StateChangeEvent,
    life_of,
)

T = TypeVar("T")

KEPT_BYTES: Final = 128
"""The size of an operation that keeps events, beside these: its path too."""

HEAD_BYTES_MAX: Final = 64 * KIB
"""Bytes that stay free in each multi for the fence, the topic's own znode and its deletion marker."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The time of the requests of one change, and the source of their identifiers."""

    at_ms: int
    """Milliseconds since the Unix epoch."""
    new_id: Callable[[], str]
    """See `strandline.host.Host`."""
    by: AskedBy | None = None
    """The caller that asked for the change; None: no caller did."""


@dataclass(frozen=True, slots=True)
class Step:
    """The writes for one partition: its operations, and one request for each broker named. Or those for a
    topic, without requests."""

    operations: Sequence[Operation]
    requests: Mapping[BrokerId, StateChange] = field(default_factory=dict)
    adds: Collection[BrokerId] = ()
    """Brokers that get a replica by it: those that were forgotten meanwhile have no queue, and get none."""
    keeps: Sequence[StateChangeEvent] = ()
    """Events that are lost unless the multi keeps them in ZooKeeper until they are recorded."""


def creation_steps(
    name: str,
    topic: PlacedTopic,
    brokers: Mapping[BrokerId, Registration],
    stamp: Stamp,
    *,
    first: int = 0,
    reason: str = TOPIC_CREATED,
) -> list[Step]:
    """Steps that create partitions of a topic, from number `first` on. `brokers` are those that may be in
    sync; an empty log is in sync."""
    steps = []
    for number, assignment in enumerate(topic.assignments, first):
        members = tuple(IsrMember(b, brokers[b].epoch) for b in assignment if b in brokers)
        operations = (
            Create(znodes.partition(name, number)),
            Create(znodes.replicas(name, number), znodes.dump_replicas(assignment)),
            Create(
                znodes.isr(name, number), isr_znodes.dump_isr(PartitionState(NO_BROKER, NO_EPOCH, members))
            ),
        )
        subject = Subject(name, PartitionKey(topic.topic_id, PartitionId(number)), NO_EPOCH)
        asked = requests(Command.START_REPLICA, subject, assignment, stamp, reason)
        steps.append(Step(operations, asked, adds=assignment))
    return steps


def restart_step(
    name: str,
    topic_id: TopicId,
    number: int,
    assignment: ReplicaAssignment,
    epoch: LeaderEpoch,
    stamp: Stamp,
) -> Step:
    """The step that has all replicas of a partition read its topic's config again."""
    subject = Subject(name, PartitionKey(topic_id, PartitionId(number)), epoch)
    return Step((), requests(Command.START_REPLICA, subject, assignment, stamp, "config altered"))


def deletion_step(
    name: str,
    topic_id: TopicId,
    number: int,
    znodes_left: Iterable[Delete],
    assignment: ReplicaAssignment,
    stamp: Stamp,
    reason: str,
) -> Step:
    """The step that deletes a partition with its present znodes. Dead brokers find the request when they
    return."""
    subject = Subject(name, PartitionKey(topic_id, PartitionId(number)), NO_EPOCH)
    return Step(tuple(znodes_left), requests(Command.DELETE_REPLICA, subject, assignment, stamp, reason))


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a request, and the epoch that it is made in."""

    topic: str
    key: PartitionKey
    epoch: LeaderEpoch


def requests(
    command: Command,
    subject: Subject,
    brokers: Iterable[BrokerId],
    stamp: Stamp,
    reason: str,
) -> dict[BrokerId, StateChange]:
    """The controller's own request for each of these brokers."""
    return {
        broker: StateChange(
            stamp.new_id(),
            command,
            subject.topic,
            subject.key,
            subject.epoch,
            NO_BROKER,
            stamp.at_ms,
            reason=reason,
            by=stamp.by,
        )
        for broker in brokers
    }


@dataclass(frozen=True, slots=True)
class Multi:
    """One atomic write, and the requests that it queues."""

    operations: Sequence[Operation]
    requested: Sequence[tuple[BrokerId, StateChange]] = ()
    adds: Set[BrokerId] = frozenset()
    """As of its steps."""
    keeps: Sequence[StateChangeEvent] = ()
    """As of its steps."""

    def events(self) -> list[StateChangeEvent]:
        """Events that record these requests as requested."""
        return [life_of(change, broker)[0] for broker, change in self.requested]


def pack(steps: Iterable[Step], bytes_max: int = MULTI_BYTES_MAX) -> list[Multi]:
    """Packs these steps into as few multis of that size as possible; at least one, which may be empty."""
    return [multi for multi, _ in pack_each(((step, None) for step in steps), bytes_max)] or [Multi(())]


def pack_each(
    steps: Iterable[tuple[Step, T]], bytes_max: int = MULTI_BYTES_MAX
) -> list[tuple[Multi, list[T]]]:
    """Packs as `pack` does, and returns with each multi the items of its steps. Empty if there are no
    steps."""
    wholes = (Whole.of([step], meant) for step, meant in steps)
    return [(joined(lot), [each.meant for each in lot]) for lot in pack_wholes(wholes, bytes_max)]


@dataclass(frozen=True, slots=True)
class Whole(Generic[T]):
    """Steps that belong into one multi, and what they mean to the caller."""

    steps: Sequence[Step]
    meant: T
    cost: _Cost

    @classmethod
    def of(cls, steps: Sequence[Step], meant: T) -> Whole[T]:
        return cls(steps, meant, _Cost.of(steps))

    def fits(self, bytes_max: int) -> bool:
        """True if a multi of that size has room for it."""
        return _Room(bytes_max).has(self.cost)

    def adds(self, broker: BrokerId) -> bool:
        """True if this broker gets a replica by it."""
        return any(broker in step.adds for step in self.steps)

    @property
    def operations(self) -> list[Operation]:
        """Its operations in a multi, without the queues' entries."""
        return [each for step in self.steps for each in step.operations]

    @property
    def length(self) -> int:
        """The number of these."""
        return sum(len(step.operations) for step in self.steps)


def pack_wholes(wholes: Iterable[Whole[T]], bytes_max: int = MULTI_BYTES_MAX) -> list[list[Whole[T]]]:
    """Distributes these to as few multis of that size as possible, in order. One that does not fit has a
    multi of its own."""
    packed: list[list[Whole[T]]] = []
    room = _Room(bytes_max)
    for whole in wholes:
        if not packed or not room.has(whole.cost):
            packed.append([])
            room = _Room(bytes_max)
        packed[-1].append(whole)
        room.take(whole.cost)
    return packed


def joined(wholes: Iterable[Whole[T]]) -> Multi:
    """The multi that writes all of these: first their operations, in order, then an entry in the queue of
    each broker."""
    operations: list[Operation] = []
    changes: defaultdict[BrokerId, list[StateChange]] = defaultdict(list)
    adds: set[BrokerId] = set()
    keeps: list[StateChangeEvent] = []
    for step in (step for whole in wholes for step in whole.steps):
        operations += step.operations
        adds.update(step.adds)
        keeps += step.keeps
        for broker, change in step.requests.items():
            changes[broker].append(change)
    queued = sorted(changes.items())
    entries = [
        Create(znodes.state_entry_prefix(broker), queue_znodes.dump_state_changes(theirs), sequential=True)
        for broker, theirs in queued
    ]
    requested = [(broker, change) for broker, theirs in queued for change in theirs]
    return Multi([*operations, *entries], requested, adds, keeps)


@dataclass(frozen=True, slots=True)
class _Cost:
    """The bytes of some steps: their operations, and each broker's requests."""

    operations: int
    requests: Mapping[BrokerId, int]

    @classmethod
    def of(cls, steps: Iterable[Step]) -> _Cost:
        operations = 0
        requests: defaultdict[BrokerId, int] = defaultdict(int)
        for step in steps:
            operations += sum(map(operation_size, step.operations))
            if step.keeps:
                operations += len(isr_znodes.dump_unrecorded(step.keeps)) + KEPT_BYTES
            for broker, change in step.requests.items():
                requests[broker] += len(queue_znodes.dump_state_changes([change]))
        return cls(operations, requests)


@dataclass(slots=True)
class _Room:
    """What is free in a multi that is being filled."""

    _bytes_max: int
    _bytes: int = HEAD_BYTES_MAX
    _entries: defaultdict[BrokerId, int] = field(default_factory=lambda: defaultdict(int))
    """The bytes of each broker's entry."""

    def has(self, cost: _Cost) -> bool:
        """True if these steps fit. Any single step fits into an empty multi, since steps are much
        smaller."""
        entries = max((self._entries[b] + size for b, size in cost.requests.items()), default=0)
        return self._after(cost) <= self._bytes_max and entries <= STATE_ENTRY_BYTES_MAX

    def take(self, cost: _Cost) -> None:
        self._bytes = self._after(cost)
        for broker, size in cost.requests.items():
            self._entries[broker] += size

    def _after(self, cost: _Cost) -> int:
        """The bytes of the multi with these steps."""
        new = (b for b in cost.requests if not self._entries[b])
        heads = sum(len(znodes.state_entry_prefix(broker)) + OPERATION_BYTES for broker in new)
        return self._bytes + cost.operations + sum(cost.requests.values()) + heads
