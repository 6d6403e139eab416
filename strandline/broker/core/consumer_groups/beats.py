"""Decides a heartbeat of a member that stays or joins.

The member is made or found; what it says anew may begin an epoch of the group; then the group has a target
for that epoch, and the member goes one step towards it. A heartbeat is refused by raising, before any
change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from strandline.broker.core.consumer_groups.change import Change
from strandline.broker.core.consumer_groups.group import ConsumerGroup
from strandline.broker.core.consumer_groups.member import ConsumerMember
from strandline.broker.core.consumer_groups.presence import check_instance, check_room
from strandline.broker.core.consumer_groups.topics import Topic
from strandline.errors import (
    FencedMemberEpoch,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from strandline.vocabulary.groups import AS_BEFORE, JOINS, ConsumerBeat, ConsumerHeartbeat


@dataclass(frozen=True, slots=True)
class Arrived:
    """A heartbeat with what the coordinator knows besides. `topics`: those that it subscribes to, as they are
    now, with None for each that does not exist."""

    request: ConsumerHeartbeat
    host: str
    topics: Mapping[str, Topic | None]
    members_max: int
    interval_ms: int
    chosen: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The topics of patterns that were evaluated anew."""


def beat(change: Change, arrived: Arrived) -> ConsumerBeat:
    """Raises UnknownMemberId, FencedMemberEpoch, FencedInstanceId, UnreleasedInstanceId,
    GroupMaxSizeReached."""
    group, request = change.group, arrived.request
    old = _present(group, request)
    if old is None:
        check_room(group, arrived.members_max)
    before = old or ConsumerMember(request.member)
    if old is not None and (old.member != request.member or old.away or old.classic is not None):
        before = replace(old, member=request.member, epoch=JOINS, previous_epoch=JOINS, classic=None)
        change.replace(old, before)
    member = _updated(before, arrived)
    if member is not old:
        change.put(member)
    for pattern, chosen in arrived.chosen.items():
        change.resolve(pattern, chosen)
    change.see(arrived.topics, member.member)
    changed = (member.topics, member.pattern) != (before.topics, before.pattern)
    _bump(change, before if old is not None else None, member)
    change.settle()
    change.reconcile(member.member, request.owned, changed=changed)
    after = group.members[member.member]
    news = request.epoch == JOINS or request.full or after.assigned.keys() != before.assigned.keys()
    assignment = tuple(sorted(after.assigned)) if news else None
    names = group.names() if news else {}
    return ConsumerBeat(after.member, after.epoch, arrived.interval_ms, assignment, names)


def _present(group: ConsumerGroup, request: ConsumerHeartbeat) -> ConsumerMember | None:
    """The member as it is, or the one whose place it takes; None for a new one."""
    joins = request.epoch == JOINS
    if request.instance is None:
        member = group.members.get(request.member)
        if member is None and not joins:
            raise UnknownMemberId(f"the group has no member {request.member!r}")
    else:
        member = _present_instance(group, request, request.instance)
    if member is not None and not joins:
        if member.classic is not None:
            raise UnknownMemberId(f"member {request.member!r} is of the classic protocol")
        _check_epoch(member, request)
    return member


def _present_instance(
    group: ConsumerGroup, request: ConsumerHeartbeat, instance: str
) -> ConsumerMember | None:
    if request.epoch != JOINS:
        check_instance(group, instance, request.member)
    current = group.statics.get(instance)
    if current is None:
        return None
    member = group.members[current]
    if current == request.member:
        return member
    if not member.away and member.classic is None:
        raise UnreleasedInstanceId(
            f"instance {instance!r} is member {current!r}, which has not left: {request.member!r} can "
            "join when that has left, or was silent for its session timeout"
        )
    return member


def _check_epoch(member: ConsumerMember, request: ConsumerHeartbeat) -> None:
    """A member may come with its previous epoch, if its answer was lost: then it has no partition more than
    it may have by now."""
    if request.epoch == member.epoch:
        return
    repeats = request.epoch < member.epoch and request.epoch == member.previous_epoch
    if repeats and request.owned is not None and all(key in member.assigned for key in request.owned):
        return
    raise FencedMemberEpoch(
        f"member {member.member!r} comes with epoch {request.epoch} and has {member.epoch}: give all "
        "partitions up, and join again"
    )


def _updated(member: ConsumerMember, arrived: Arrived) -> ConsumerMember:
    """The member with what it says anew."""
    request = arrived.request
    timeout_ms = request.rebalance_timeout_ms
    topics = member.topics if request.topics is None else tuple(sorted(dict.fromkeys(request.topics)))
    said = replace(
        member,
        instance=request.instance or member.instance,
        rack=request.rack or member.rack,
        client_id=request.client_id,
        host=arrived.host,
        topics=topics,
        pattern=member.pattern if request.pattern is None else request.pattern,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == AS_BEFORE else timeout_ms,
        assignor=request.assignor or member.assignor,
    )
    return member if said == member else said


def _bump(change: Change, before: ConsumerMember | None, member: ConsumerMember) -> None:
    """What the member says may begin an epoch. A new group begins at 1, as in Kafka, and its first
    subscription is news already."""
    name, group = member.instance or member.member, change.group
    if before is None:
        if not group.epoch and member.topics:
            group.epoch = 1
        if not group.epoch or member.topics or member.pattern:
            change.bump(f"member {name} joined", member.member)
    elif before.topics != member.topics or before.pattern != member.pattern:
        change.bump(f"member {name} subscribes to other topics", member.member)
    elif before.assignor != member.assignor:
        change.bump(f"member {name} asks for assignor {member.assignor}", member.member)
