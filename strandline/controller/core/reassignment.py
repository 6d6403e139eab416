"""Checks a requested reassignment, and computes the one that results, even on top of another one.

A reassignment begins by growing AR, never by removing a replica: a replica that is to go may lead, or be the
only one in sync. The leader removes replicas at the end. So a request for another target during a
reassignment adds the new target's replicas to AR, and removes none; the request for the earlier target ends
as superseded, and the znode remembers it until the leader has recorded that. It remembers a few: the write
that forgets one keeps its events elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from strandline.config.limits import REPLICAS_PER_BROKER_MAX
from strandline.controller.core.broker_list import listed
from strandline.controller.core.placement import ReplicaAssignment
from strandline.controller.core.topics import Brokers, check_replicas
from strandline.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    NoReassignmentInProgress,
)
from strandline.ids import BrokerId, TopicId
from strandline.vocabulary.admin import PartitionReassignment
from strandline.vocabulary.metadata import REPLACED_MAX, Deadline, PartitionState, Reassignment, Replaced
from strandline.vocabulary.state_changes import AskedBy


@dataclass(frozen=True, slots=True)
class Placed:
    """A partition: AR, the reassignment in progress, if any, the leader and the ISR.

    The versions are those of the znodes, for compare-and-set.
    """

    number: int
    assigned: ReplicaAssignment
    assigned_version: int
    state: PartitionState
    wanted: Reassignment | None = None
    wanted_version: int = -1

    @property
    def settled(self) -> ReplicaAssignment:
        """AR once no reassignment is in progress."""
        return self.assigned if self.wanted is None else self.wanted.target


@dataclass(frozen=True, slots=True)
class MoveContext:
    """The facts to check a move against: brokers, their numbers of replicas, and the topic's id."""

    brokers: Brokers
    replicas: Mapping[BrokerId, int]
    topic_id: TopicId


@dataclass(frozen=True, slots=True)
class Asked:
    """The identity of a new reassignment, and the throttle for all of them."""

    request_id: str
    at_ms: int
    throttle_bytes_per_s: int = 0
    by: AskedBy | None = None
    deadline: Deadline | None = None
    renews: bool = False
    """Whether it also holds for a reassignment to the same replicas that is under way."""
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveFrom(PartitionReassignment):
    """A move that was decided for this topic and AR: it is refused if the partition is not like that, or
    moves, or if the replicas of a broker that it adds are drained."""

    before: ReplicaAssignment


@dataclass(frozen=True, slots=True)
class TakeBackOverdue(PartitionReassignment):
    """Takes back a reassignment that is marked as overdue and ends so; any other one stays as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeBackTo(PartitionReassignment):
    """Takes back a reassignment to these replicas that is part of `cause`; any other one stays as it is."""

    target: ReplicaAssignment
    cause: str


def plan_move(
    move: PartitionReassignment, now: Placed, context: MoveContext, asked: Asked
) -> Reassignment | None:
    """The reassignment that holds from now on; None if nothing has to change.

    Raises InvalidReplicaAssignment, InvalidReplicationFactor, NoReassignmentInProgress; the message names the
    value.
    """
    standing = now.wanted
    if move.only_throttle:
        return _with_throttle(move, standing, asked.throttle_bytes_per_s)
    if isinstance(move, TakeBackOverdue) and not _is_taken_back(standing):
        return None
    if isinstance(move, TakeBackTo) and (
        standing is None or (standing.replicas, standing.cause) != (move.target, move.cause)
    ):
        return None
    if not move.replicas:
        if standing is None:
            raise NoReassignmentInProgress(
                f"{move.name}: no reassignment is under way, so none is taken back"
            )
        return None if standing.reverting else replace(standing, reverting=True, deadline=None)
    if isinstance(move, MoveFrom) and (standing is not None or now.assigned != move.before):
        raise InvalidReplicaAssignment(f"{move.name} is not as it was when this move was planned")
    if isinstance(move, MoveFrom) and (drained := context.brokers.emptied & _added(move)):
        raise InvalidReplicaAssignment(f"{move.name}: the replicas of broker {listed(drained)} are drained")
    replicas = _check(move, now, context)
    if standing is None:
        if replicas == now.assigned:
            return None
        return Reassignment(
            context.topic_id,
            replicas,
            now.assigned,
            asked.throttle_bytes_per_s,
            request_id=asked.request_id,
            at_ms=asked.at_ms,
            by=asked.by,
            deadline=asked.deadline,
            cause=asked.cause,
        )
    wanted = replace(standing, throttle_bytes_per_s=asked.throttle_bytes_per_s)
    if replicas == standing.target:
        if asked.renews and not standing.reverting:
            wanted = replace(wanted, deadline=asked.deadline)
        return None if wanted == standing else wanted
    before = Replaced(standing.request_id, standing.replicas, standing.at_ms, asked.at_ms, standing.by)
    return replace(
        wanted,
        replicas=replicas,
        reverting=False,
        request_id=asked.request_id,
        at_ms=asked.at_ms,
        by=asked.by,
        deadline=asked.deadline,
        cause=asked.cause,
        replaced=(*standing.replaced, before)[-REPLACED_MAX:],
    )


def _added(move: MoveFrom) -> set[BrokerId]:
    return {BrokerId(broker) for broker in move.replicas if broker not in move.before}


def _is_taken_back(standing: Reassignment | None) -> bool:
    deadline = None if standing is None else standing.deadline
    return deadline is not None and deadline.passed and deadline.cancels


def _with_throttle(
    move: PartitionReassignment, standing: Reassignment | None, bytes_per_s: int
) -> Reassignment | None:
    if move.replicas:
        raise InvalidReplicaAssignment(
            f"{move.name}: replicas {list(move.replicas)} with only_throttle: give none"
        )
    if standing is None:
        raise NoReassignmentInProgress(f"{move.name}: no reassignment is under way that could be throttled")
    wanted = replace(standing, throttle_bytes_per_s=bytes_per_s)
    return None if wanted == standing else wanted


def forgotten(standing: Reassignment | None, wanted: Reassignment) -> int:
    """How many earlier targets of `standing`, its first ones, have no room in the one that replaces it."""
    return 0 if standing is None else sum(each not in wanted.replaced for each in standing.replaced)


def grown(assigned: ReplicaAssignment, wanted: Reassignment) -> ReplicaAssignment:
    """AR during a reassignment: as it was, then the new replicas. So leaders stay until the end."""
    return assigned + tuple(broker for broker in wanted.replicas if broker not in assigned)


def _check(move: PartitionReassignment, now: Placed, context: MoveContext) -> ReplicaAssignment:
    where = f"{move.name}: replicas {list(move.replicas)}"
    replicas = check_replicas(where, move.replicas, context.brokers)
    if move.keep_size and len(replicas) != (size := len(now.settled)):
        raise InvalidReplicationFactor(
            f"{where} are not {size}, which the request may not change", limit=size
        )
    for broker in replicas:
        total = context.replicas.get(broker, 0) + (broker not in now.assigned)
        if total > REPLICAS_PER_BROKER_MAX:
            raise InvalidReplicaAssignment(
                f"{where}: broker {broker} would have {total} replicas; at most {REPLICAS_PER_BROKER_MAX} "
                "are allowed",
                limit=REPLICAS_PER_BROKER_MAX,
            )
    return replicas
