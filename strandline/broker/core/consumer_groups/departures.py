"""Decides what follows when a member leaves, or is taken out because it was silent or slow."""

from __future__ import annotations

from dataclasses import replace

from strandline.broker.core.consumer_groups.change import Change
from strandline.broker.core.consumer_groups.group import ConsumerGroup
from strandline.broker.core.consumer_groups.member import ConsumerMember, MemberState
from strandline.broker.core.consumer_groups.presence import check_instance
from strandline.errors import UnknownMemberId
from strandline.vocabulary.groups import LEAVES_FOR_A_WHILE, ConsumerBeat, ConsumerHeartbeat


def leave(change: Change, request: ConsumerHeartbeat) -> ConsumerBeat:
    """A member leaves for good, or its process ends and its instance returns. Raises UnknownMemberId,
    FencedInstanceId."""
    member = _leaving(change.group, request)
    if request.epoch == LEAVES_FOR_A_WHILE:
        # What it had yet to give up is free: the process has ended.
        change.put(replace(member, epoch=LEAVES_FOR_A_WHILE, state=MemberState.STABLE, revoking={}))
    else:
        take_out(change, member, "left")
    return ConsumerBeat(request.member, request.epoch)


def take_out(change: Change, member: ConsumerMember, why: str) -> None:
    """`why` goes on after the member's name."""
    change.remove(member.member)
    change.gone[member.member] = why
    change.bump(f"member {member.instance or member.member} {why}", member.member)
    change.settle()


def _leaving(group: ConsumerGroup, request: ConsumerHeartbeat) -> ConsumerMember:
    if request.instance is not None:
        check_instance(group, request.instance, request.member)
    member = group.members.get(request.member)
    if member is None or member.classic is not None:
        raise UnknownMemberId(f"the group has no member {request.member!r} of the consumer protocol")
    return member
