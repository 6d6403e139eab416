"""Packs a topic's writes into `multi`s. A partition's znodes and its state-change requests are always in the
same one. The requests take one znode a broker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, TypeVar

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes, queue_znodes
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
from strandline.ports import Check, Create, Delete, Operation, SetData
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

OPERATION_BYTES: Final = 64
"""The size of an operation beside its path and data: its header and access list."""

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
    """The writes for one partition: its operations, and one request for each broker named."""

    operations: Sequence[Operation]
    requests: Mapping[BrokerId, StateChange]
    adds: Collection[BrokerId] = ()
    """Brokers that get a replica by it: those that were forgotten meanwhile have no queue, and get none."""


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
    packed: list[tuple[_Multi, list[T]]] = []
    for step, meant in steps:
        cost = _Cost.of(step)
        if not packed or not packed[-1][0].has_room(cost):
            packed.append((_Multi(bytes_max), []))
        packed[-1][0].add(step, cost)
        packed[-1][1].append(meant)
    return [(multi.whole(), meant) for multi, meant in packed]


@dataclass(frozen=True, slots=True)
class _Cost:
    """The bytes of a step: its operations, and each broker's request."""

    operations: int
    requests: Mapping[BrokerId, int]

    @classmethod
    def of(cls, step: Step) -> _Cost:
        return cls(
            sum(_size(operation) for operation in step.operations),
            {
                broker: len(queue_znodes.dump_state_changes([change]))
                for broker, change in step.requests.items()
            },
        )


def _size(operation: Operation) -> int:
    match operation:
        case Create(path=path, data=data) | SetData(path=path, data=data):
            return len(path) + len(data) + OPERATION_BYTES
        case Check(path=path) | Delete(path=path):
            return len(path) + OPERATION_BYTES


@dataclass(slots=True)
class _Multi:
    """A multi that is being filled."""

    _bytes_max: int
    _operations: list[Operation] = field(default_factory=list)
    _requests: defaultdict[BrokerId, list[StateChange]] = field(default_factory=lambda: defaultdict(list))
    _bytes: int = HEAD_BYTES_MAX
    _adds: set[BrokerId] = field(default_factory=set)
    _request_bytes: defaultdict[BrokerId, int] = field(default_factory=lambda: defaultdict(int))

    def has_room(self, cost: _Cost) -> bool:
        """True if the step fits. Any step fits into an empty multi, since steps are much smaller."""
        if not self._operations and not self._requests:
            return True
        total = self._bytes + cost.operations + sum(cost.requests.values())
        entries = max((self._request_bytes[b] + size for b, size in cost.requests.items()), default=0)
        return total <= self._bytes_max and entries <= STATE_ENTRY_BYTES_MAX

    def add(self, step: Step, cost: _Cost) -> None:
        self._operations += step.operations
        self._bytes += cost.operations
        self._adds.update(step.adds)
        for broker, change in step.requests.items():
            if broker not in self._requests:
                self._bytes += len(znodes.state_entry_prefix(broker)) + OPERATION_BYTES
            self._requests[broker].append(change)
            self._request_bytes[broker] += cost.requests[broker]
            self._bytes += cost.requests[broker]

    def whole(self) -> Multi:
        queued = sorted(self._requests.items())
        entries = [
            Create(
                znodes.state_entry_prefix(broker), queue_znodes.dump_state_changes(changes), sequential=True
            )
            for broker, changes in queued
        ]
        requested = [(broker, change) for broker, changes in queued for change in changes]
        return Multi([*self._operations, *entries], requested, self._adds)
