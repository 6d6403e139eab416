"""What is written for a topic, packed into `multi`s: a partition's znodes and the state-change requests
that go with them are always in the same one, with one znode of requests a broker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from controller.core.cluster import PlacedTopic
from controller.core.placement import Assignment
from strandline.adapters import queue_znodes, znodes
from strandline.config import KIB, MULTI_BYTES_MAX, ZNODE_BYTES_MAX
from strandline.ids import (
    NO_BROKER,
    NO_EPOCH,
    BrokerId,
    LeaderEpoch,
    PartitionId,
    PartitionKey,
    TopicId,
)
from strandline.metadata import IsrMember, PartitionState, Registration
from strandline.ports import Check, Create, Delete, Operation, SetData
from strandline.state_changes import Command, StateChange

OPERATION_BYTES: Final = 64
"""What an operation costs beside its path and data: its header, its access list."""

HEAD_BYTES_MAX: Final = 64 * KIB
"""Kept free in each multi for the fence, the topic's own znode and its deletion marker."""


@dataclass(frozen=True, slots=True)
class Step:
    """What happens to one partition: its operations, and a request for each of these brokers."""

    operations: Sequence[Operation]
    requests: Mapping[BrokerId, StateChange]


def creation_steps(
    name: str, topic: PlacedTopic, brokers: Mapping[BrokerId, Registration], at_ms: int
) -> list[Step]:
    """The partitions of a new topic. `brokers` are those that may be in sync; an empty log is in sync."""
    steps = []
    for number, assignment in enumerate(topic.assignments):
        members = tuple(IsrMember(b, brokers[b].epoch) for b in assignment if b in brokers)
        operations = (
            Create(znodes.partition(name, number)),
            Create(znodes.replicas(name, number), znodes.dump_replicas(assignment)),
            Create(znodes.isr(name, number), znodes.dump_isr(PartitionState(NO_BROKER, NO_EPOCH, members))),
        )
        requests = _requests(Command.START_REPLICA, name, topic.topic_id, number, assignment, NO_EPOCH, at_ms)
        steps.append(Step(operations, requests))
    return steps


def restart_step(
    name: str, topic_id: TopicId, number: int, assignment: Assignment, epoch: LeaderEpoch, at_ms: int
) -> Step:
    """All replicas of a partition are to read its topic's config again."""
    return Step((), _requests(Command.START_REPLICA, name, topic_id, number, assignment, epoch, at_ms))


def deletion_step(
    name: str, topic_id: TopicId, number: int, children: Iterable[str], assignment: Assignment, at_ms: int
) -> Step:
    """A partition with the children that it has now; dead brokers find the request when they return."""
    path = znodes.partition(name, number)
    operations = (*(Delete(f"{path}/{child}") for child in children), Delete(path))
    return Step(
        operations, _requests(Command.DELETE_REPLICA, name, topic_id, number, assignment, NO_EPOCH, at_ms)
    )


def _requests(
    command: Command,
    name: str,
    topic_id: TopicId,
    number: int,
    assignment: Assignment,
    epoch: LeaderEpoch,
    at_ms: int,
) -> dict[BrokerId, StateChange]:
    key = PartitionKey(topic_id, PartitionId(number))
    return {
        broker: StateChange(uuid4().hex, command, name, key, epoch, NO_BROKER, at_ms) for broker in assignment
    }


def pack(steps: Iterable[Step]) -> list[list[Operation]]:
    """The operations of these steps, in as few multis as fit; at least one, which may be empty."""
    multis = [_Multi()]
    for step in steps:
        cost = _Cost.of(step)
        if not multis[-1].has_room(cost):
            multis.append(_Multi())
        multis[-1].add(step, cost)
    return [multi.operations() for multi in multis]


@dataclass(frozen=True, slots=True)
class _Cost:
    """Bytes of a step: of its operations, and of each broker's request."""

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
    """One multi as it fills up."""

    _operations: list[Operation] = field(default_factory=list)
    _requests: defaultdict[BrokerId, list[StateChange]] = field(default_factory=lambda: defaultdict(list))
    _bytes: int = HEAD_BYTES_MAX
    _request_bytes: defaultdict[BrokerId, int] = field(default_factory=lambda: defaultdict(int))

    def has_room(self, cost: _Cost) -> bool:
        """Anything fits into an empty one: a step is far smaller than a multi."""
        if not self._operations and not self._requests:
            return True
        total = self._bytes + cost.operations + sum(cost.requests.values())
        entries = max((self._request_bytes[b] + size for b, size in cost.requests.items()), default=0)
        return total <= MULTI_BYTES_MAX and entries <= ZNODE_BYTES_MAX

    def add(self, step: Step, cost: _Cost) -> None:
        self._operations += step.operations
        self._bytes += cost.operations
        for broker, change in step.requests.items():
            if broker not in self._requests:
                self._bytes += len(znodes.state_entry_prefix(broker)) + OPERATION_BYTES
            self._requests[broker].append(change)
            self._request_bytes[broker] += cost.requests[broker]
            self._bytes += cost.requests[broker]

    def operations(self) -> list[Operation]:
        entries = (
            Create(
                znodes.state_entry_prefix(broker), queue_znodes.dump_state_changes(changes), sequential=True
            )
            for broker, changes in sorted(self._requests.items())
        )
        return [*self._operations, *entries]
