"""Groups that change their protocol while they have members (KIP-848, online migration).

A classic group becomes one whose coordinator assigns when a member of the consumer protocol joins it, and a
classic one again when the last such member is out. Either is one write: it has tombstones for the records of
the other kind (`Group.leftover`), so that a coordinator that takes over finds one of the two.
"""

from __future__ import annotations

from strandline.broker.core.consumer_groups.change import Change
from strandline.broker.core.consumer_groups.classic.conversion import Converted, convert, names_in
from strandline.broker.core.consumer_groups.classic.joining import step
from strandline.broker.core.consumer_groups.classic.speech import Seen, assignment_of
from strandline.broker.core.consumer_groups.group import ConsumerGroup
from strandline.broker.core.consumer_groups.member import ClassicWords, ConsumerMember
from strandline.broker.core.groups import rebalance
from strandline.broker.core.groups.assigned.kinds import begin_classic, end_classic
from strandline.broker.core.groups.assigned.sessions import await_sync, cancel, restart_session
from strandline.broker.core.groups.effects import EventKind
from strandline.broker.core.groups.limits import GROUP_BYTES_MAX
from strandline.broker.core.groups.records import GroupKey
from strandline.broker.core.groups.state.consumers import Consumers, Waiting
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.member import Member
from strandline.broker.core.groups.state.states import GroupState
from strandline.broker.core.groups.state.subscriptions import CONSUMERS
from strandline.broker.core.groups.state.turn import Turn
from strandline.broker.core.groups.stored import StoredRecord
from strandline.errors import (
    FencedInstanceId,
    GroupIdNotFound,
    InconsistentGroupProtocol,
    InvalidRequest,
    UnknownMemberId,
)
from strandline.vocabulary.groups import JOINS, ConsumerHeartbeat, Joined

# --- up -------------------------------------------------------------------------------------------


def may_upgrade(turn: Turn, group: Group) -> bool:
    """True for a classic group with members of consumers, if this coordinator may convert it."""
    return turn.limits.upgrades and bool(group.members) and group.protocol_type == CONSUMERS


def check_converts(turn: Turn, group: Group, request: ConsumerHeartbeat) -> None:
    """A classic group becomes one of the consumer protocol when a member joins it, if it has no members, or
    may be converted with them. A member that was in it before it became a classic one is to join anew. Raises
    GroupIdNotFound, UnknownMemberId."""
    upgrades = may_upgrade(turn, group)
    if request.epoch == JOINS and (upgrades or group.vacant):
        return
    if upgrades:
        raise UnknownMemberId(f"group {request.group} is a classic one now: join it again")
    raise GroupIdNotFound(f"group {request.group} is not of the consumer protocol")


def unseen(turn: Turn, group: Group) -> list[str]:
    """The topics that have to be looked at before a member joins the group, or goes on in it: those that it
    does not know, after its coordinator took over; those of a classic group that may be converted."""
    if group.consumers is not None:
        return group.consumers.core.unseen()
    if not may_upgrade(turn, group):
        return []
    try:
        return names_in(_converted(group))
    except InconsistentGroupProtocol:
        return []


def upgrade(group: Group, change: Change, topics: Seen, joins: str) -> None:
    """Fills the group of the change with the classic members; nothing else changes yet. An assignment that is
    not complete begins an epoch; else a member that takes the place of its instance needs none. `joins`: the
    member of the consumer protocol. Raises
    GroupIdNotFound, as Kafka does, if a member says what no consumer says; CoordinatorNotAvailable if a topic
    of the members is not known."""
    try:
        convert(change, _converted(group), max(1, group.generation), topics)
    except InconsistentGroupProtocol as error:
        raise GroupIdNotFound(
            f"group {group.name} cannot become one of the consumer protocol: {error.message}"
        ) from error
    change.moved |= dict.fromkeys(group.members)
    if group.state is not GroupState.STABLE or not change.group.all_targeted():
        change.bump(f"member {joins} joined by the consumer protocol", joins)


def check_size(group: Group, change: Change) -> None:
    """Raises InvalidRequest if the conversion is larger than the record of a classic group may be: it is one
    write, and would never be in the log."""
    encoded = (record.encoded() for record in change.records())
    size = sum(len(key) + len(value or b"") for key, value, _ in encoded)
    if size > GROUP_BYTES_MAX:
        raise InvalidRequest(
            f"group {group.name} as one of the consumer protocol has {size} bytes, more than "
            f"{GROUP_BYTES_MAX}: it changes its protocol once it has no members",
            limit=GROUP_BYTES_MAX,
        )


def _converted(group: Group) -> list[Converted]:
    """Each member with its protocols, the chosen one first: its assignment was made for that."""
    return [
        Converted(
            member.member,
            member.instance,
            member.client_id,
            member.host,
            member.rebalance_timeout_ms,
            ClassicWords(
                member.session_timeout_ms,
                tuple(sorted(member.protocols, key=lambda each: each.name != group.protocol)),
            ),
            member.assignment,
            member.joining is not None,
            max(1, member.epoch or group.generation),
        )
        for member in group.members.values()
    ]


def begin(turn: Turn, group: Group, consumers: Consumers, change: Change) -> Waiting:
    """The classic group becomes one of the consumer protocol. Returns the calls that are to be answered once
    the log has that: joins that wait take part as they are."""
    answers: Waiting = [(call, left) for call, left in group.leaves]
    if group.announced:
        turn.publish(EventKind.GENERATION_ENDED, group.name, group.generation)
    refusal = group.rebalances()
    joining = {}
    for member in group.members.values():
        if (join := group.take_joining(member)) is not None:
            joining[member.member] = join
        for call in member.calls():
            turn.answer(call, refusal)
        consumers.principals[member.member] = member.principal
    turn.timers.cancel_all(lambda timer: timer.group == group.name)
    if group.generation:
        group.leftover[GroupKey(group.name)] = turn.last_write
    end_classic(group)
    group.set_consumers(consumers)
    for member_id, call in joining.items():
        if member_id not in consumers.core.members:
            # The member that joined is the same instance.
            turn.answer(call, FencedInstanceId(f"member {member_id!r} of group {group.name} is replaced"))
            continue
        member_now = step(change, member_id)
        await_sync(turn, group, member_now)
        answers.append((call, joined(consumers.core, member_now)))
    for member_id in consumers.core.members:
        restart_session(turn, group, member_id)
    return answers


def joined(core: ConsumerGroup, member: ConsumerMember) -> Joined:
    """The answer to a join: no member leads, so it asks for its assignment."""
    assert member.classic is not None, f"{member.member} is no member of the classic protocol"
    protocol = member.classic.protocols[0].name
    return Joined(member.member, member.epoch, protocol, "", reason=core.reason, caused_by=core.caused_by)


# --- down -----------------------------------------------------------------------------------------


def is_left_to_classic(turn: Turn, core: ConsumerGroup) -> bool:
    """True if the group has members, all of the classic protocol, and this coordinator may convert it. It has
    to know the topics: what a classic member has is written by names."""
    members = core.members.values()
    classic = bool(members) and all(member.classic for member in members)
    return turn.limits.downgrades and classic and not core.unseen()


def downgrade(turn: Turn, group: Group, consumers: Consumers, change: Change) -> tuple[StoredRecord, ...]:
    """The group becomes a classic one. Returns what is to be written.

    Its generation is the group's last epoch that a member may have heard of, and its members are to gather
    for the next one: they are not at the same point, so none may take its target as assigned. The record says
    so too.
    """
    core = consumers.core
    for key in (*change.keys(), *consumers.unsure):
        group.leftover[key] = turn.last_write
    consumers.unsure.clear()
    for member_id in core.members:
        cancel(turn, group, member_id)
    members = [_classic(core, consumers, member) for member in core.members.values()]
    begin_classic(group, members, CONSUMERS, core.epoch - change.bumped)
    return (group.record(None, turn.now.wall_ms, gathers=True),)


def _classic(core: ConsumerGroup, consumers: Consumers, member: ConsumerMember) -> Member:
    """It still has what it is to give up."""
    words = member.classic
    assert words is not None, f"{member.member} is no member of the classic protocol"
    return Member(
        member.member,
        member.instance,
        member.client_id,
        member.host,
        words.session_timeout_ms,
        member.rebalance_timeout_ms,
        words.protocols,
        assignment_of(core, member, (*member.assigned, *member.revoking)),
        principal=consumers.principals.get(member.member),
        epoch=member.epoch,
    )


def begin_rebalance(turn: Turn, group: Group, consumers: Consumers) -> None:
    """The members of the group, which is a classic one now, are to join again."""
    core = consumers.core
    for member in group.members.values():
        rebalance.restart_session(turn, group, member)
    rebalance.begin(turn, group, f"{core.reason}: the group is a classic one again", core.caused_by)
    for call in consumers.classic_held.values():
        turn.answer(call, group.rebalances())
    consumers.classic_held.clear()
