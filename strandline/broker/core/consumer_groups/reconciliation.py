"""The step of one member towards its target (KIP-848).

A member keeps its epoch until it has said that it gave up what the target takes from it. Only then it has the
target's epoch, with those partitions of the target that no member has. It gets the others as soon as their
members have given them up. So a partition never has two owners, and one that a member keeps never stops.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import replace
from typing import NamedTuple

from strandline.broker.core.consumer_groups.member import ConsumerMember, MemberState
from strandline.ids import PartitionKey, TopicId

STABLE, UNREVOKED, UNRELEASED = MemberState


class Target(NamedTuple):
    """Where a member is to go, and what that depends on."""

    epoch: int
    partitions: Set[PartitionKey]
    subscribed: Callable[[], Set[TopicId]]
    """Finds the topics that the member subscribes to; partitions of others are taken from it."""
    is_free: Callable[[PartitionKey], bool]
    """True for a partition that no member has."""


def reconciled(
    member: ConsumerMember, target: Target, owned: Collection[PartitionKey] | None, *, changed: bool
) -> ConsumerMember:
    """The member after one heartbeat; the same one if it cannot go on now. `owned`: the partitions that it
    says it has; None: it says nothing, and so gives nothing up. `changed`: its subscription is new."""
    if member.state is UNREVOKED and _has_any(owned, member.revoking):
        return _without_others(member, target, owned) if changed else member
    if member.state is STABLE and member.epoch == target.epoch:
        return _without_others(member, target, owned) if changed else member
    return _next(member, target, owned)


def _has_any(owned: Collection[PartitionKey] | None, revoking: Mapping[PartitionKey, int]) -> bool:
    return owned is None or any(name in revoking for name in owned)


def _without_others(
    member: ConsumerMember, target: Target, owned: Collection[PartitionKey] | None
) -> ConsumerMember:
    """The member without partitions of topics to which it no longer subscribes. Its target comes later."""
    subscribed = target.subscribed()
    taken = {key: epoch for key, epoch in member.assigned.items() if key.topic_id not in subscribed}
    if not taken:
        return member
    kept = {key: epoch for key, epoch in member.assigned.items() if key not in taken}
    revoking = {**member.revoking, **taken}
    if _has_any(owned, revoking):
        return _moved(member, member.epoch, UNREVOKED, kept, revoking)
    return _moved(member, member.epoch, member.state, kept, member.revoking)


def _next(member: ConsumerMember, target: Target, owned: Collection[PartitionKey] | None) -> ConsumerMember:
    subscribed = target.subscribed()
    wanted = {key for key in target.partitions if key.topic_id in subscribed}
    kept = {key: epoch for key, epoch in member.assigned.items() if key in wanted}
    revoking = {key: epoch for key, epoch in member.assigned.items() if key not in wanted}
    if revoking and _has_any(owned, revoking):
        return _moved(member, member.epoch, UNREVOKED, kept, revoking)
    missing = sorted(wanted - kept.keys())
    free = [key for key in missing if key in member.revoking or target.is_free(key)]
    state = STABLE if len(free) == len(missing) else UNRELEASED
    return _moved(member, target.epoch, state, kept | dict.fromkeys(free, target.epoch), {})


def _moved(
    member: ConsumerMember,
    epoch: int,
    state: MemberState,
    assigned: Mapping[PartitionKey, int],
    revoking: Mapping[PartitionKey, int],
) -> ConsumerMember:
    """The previous epoch is the one before: a member whose answer was lost comes with it again."""
    if (epoch, state, assigned, revoking) == (member.epoch, member.state, member.assigned, member.revoking):
        return member
    previous = member.epoch
    return replace(
        member, epoch=epoch, previous_epoch=previous, state=state, assigned=assigned, revoking=revoking
    )
