"""Requests of the classic protocol to a group whose coordinator assigns (KIP-848, online migration).

A join is a step of the member, and is answered with its epoch as the generation. A sync is answered with what
it may read. A heartbeat says when it is to join again.
"""

from __future__ import annotations

from strandline.broker.core.consumer_groups.change import Change
from strandline.broker.core.consumer_groups.classic import joining
from strandline.broker.core.consumer_groups.classic.joining import ClassicJoin, must_join
from strandline.broker.core.consumer_groups.classic.speech import assignment_for, names_said
from strandline.broker.core.consumer_groups.fence import check_generation
from strandline.broker.core.consumer_groups.member import (
    MEMBER_BYTES,
    ClassicWords,
    ConsumerMember,
    MemberState,
)
from strandline.broker.core.coordinators.effects import Call
from strandline.broker.core.groups.assigned import held_beats
from strandline.broker.core.groups.assigned.migration import joined
from strandline.broker.core.groups.assigned.sessions import await_join, await_sync, restart_session, synced
from strandline.broker.core.groups.assigned.writing import write
from strandline.broker.core.groups.requests import Join
from strandline.broker.core.groups.state.consumers import Consumers
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.owners import check_instance, owner_after
from strandline.broker.core.groups.state.ownership_reports import publish_changes
from strandline.broker.core.groups.state.subscriptions import CONSUMERS
from strandline.broker.core.groups.state.turn import Turn
from strandline.errors import (
    IllegalGeneration,
    InconsistentGroupProtocol,
    RebalanceInProgress,
    StrandlineError,
    UnknownMemberId,
)
from strandline.vocabulary.groups import (
    Heartbeat,
    JoinAnswer,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    LeftMember,
    MemberIdGiven,
    ReportOwnership,
    SyncGroup,
)


def needed_for(consumers: Consumers, request: JoinGroup) -> list[str]:
    """The topics that have to be looked at before this join. Those that the group knows are looked at
    again and again anyway: a member that joins again for another does not depend on ZooKeeper."""
    core = consumers.core
    said = (name for name in names_said(request.protocols) if name not in core.topics)
    return list(dict.fromkeys((*said, *core.unseen())))


def join(
    turn: Turn, group: Group, consumers: Consumers, call: Call[JoinAnswer], asked: Join, host: str
) -> None:
    """Raises the refusals of `joining.join`, GroupAuthorizationFailed, InvalidRequest."""
    request, core = asked.request, consumers.core
    if request.protocol_type != CONSUMERS:
        raise InconsistentGroupProtocol(
            f"a member of type {request.protocol_type!r}, and group {group.name} is of type {CONSUMERS}"
        )
    joins = ClassicJoin(
        request.member or asked.new_member_id,
        bool(request.member),
        request.instance,
        request.client_id,
        host,
        request.rebalance_timeout_ms,
        ClassicWords(request.session_timeout_ms, request.protocols),
        asked.topics,
        turn.limits.group_members_max,
    )
    old = joining.check(core, joins)
    if old is None and not request.member and request.instance is None:
        turn.answer(call, MemberIdGiven(asked.new_member_id))
        return
    what = f"member {joins.member!r} of group {group.name!r}"
    owner = None if old is None else consumers.principals.get(old.member)
    owner = owner_after(owner, turn.by, what) if old is not None else turn.by
    turn.state_bytes.check(joins.words.size + (MEMBER_BYTES if old is None else 0), what)
    change = Change(group.name, core, turn.now.wall_ms)
    member = joining.join(change, joins, old)
    consumers.principals[member.member] = owner
    held_beats.interrupt(turn, group, consumers, member.member)
    restart_session(turn, group, member.member)
    await_sync(turn, group, member)
    write(turn, group, consumers, change, [(call, joined(core, member))])


def sync(turn: Turn, group: Group, consumers: Consumers, call: Call[bytes], request: SyncGroup) -> None:
    """Answered once the log has all that the assignment follows from. Raises UnknownMemberId,
    FencedInstanceId, IllegalGeneration, InconsistentGroupProtocol, RebalanceInProgress."""
    core = consumers.core
    member = _member(turn, group, consumers, request.member, request.instance)
    check_generation(member, request.generation)
    assert member.classic is not None, f"{member.member} is no member of the classic protocol"
    chosen = member.classic.protocols[0].name
    for named, wanted in ((request.protocol_type, CONSUMERS), (request.protocol, chosen)):
        if named and named != wanted:
            raise InconsistentGroupProtocol(
                f"member {member.member!r} syncs with {named!r}, and joined with {wanted!r}"
            )
    if core.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        await_join(turn, group, member)
        raise rebalances(group, consumers)
    restart_session(turn, group, member.member)
    synced(turn, group, member)
    change = Change(group.name, core, turn.now.wall_ms)
    write(turn, group, consumers, change, [(call, assignment_for(core, member))])


def heartbeat(turn: Turn, group: Group, consumers: Consumers, call: Call[None], request: Heartbeat) -> None:
    """Held as in a classic group. Raises UnknownMemberId, FencedInstanceId, IllegalGeneration;
    RebalanceInProgress if the member is to join again."""
    core = consumers.core
    member = _member(turn, group, consumers, request.member, request.instance)
    check_generation(member, request.generation)
    restart_session(turn, group, member.member)
    if must_join(core, member):
        await_join(turn, group, member)
        raise rebalances(group, consumers)
    held_beats.hold_classic(turn, group, consumers, call, member, request.max_wait_ms)


def leave(
    turn: Turn,
    group: Group,
    consumers: Consumers,
    call: Call[tuple[LeftMember, ...]],
    request: LeaveGroup,
) -> None:
    """All members that leave in one request begin one epoch. As in Kafka, a request may name members of the
    consumer protocol, too: an administrator removes members of either."""
    change = Change(group.name, consumers.core, turn.now.wall_ms)
    left, reasons = list[LeftMember](), list[tuple[str, str]]()
    for one in request.members:
        try:
            member = _leaving(turn, group, consumers, one)
        except StrandlineError as error:
            left.append(LeftMember(one.member, error))
            continue
        left.append(LeftMember(member.member))
        if member.instance is None or one.instance is not None:
            change.remove(member.member)
            reasons.append((f"member {member.instance or member.member} left", member.member))
    if reasons:
        others = f", and {len(reasons) - 1} more" if len(reasons) > 1 else ""
        change.bump(reasons[0][0] + others, reasons[0][1])
        change.settle()
    write(turn, group, consumers, change, [(call, tuple(left))])


def report(
    turn: Turn, group: Group, consumers: Consumers, call: Call[None], request: ReportOwnership
) -> None:
    """What a member of the classic protocol owns is known here: its report is only published. Raises
    UnknownMemberId, IllegalGeneration."""
    member = _member(turn, group, consumers, request.member, None)
    later = [each.generation for each in request.changes if each.generation > consumers.core.epoch]
    if later:
        raise IllegalGeneration(
            f"member {member.member!r} reports of generation {later[0]}, and group {group.name} is in epoch "
            f"{consumers.core.epoch}"
        )
    publish_changes(turn, group, member.member, request.changes)
    turn.answer(call, None)


def rebalances(group: Group, consumers: Consumers) -> StrandlineError:
    """The error that makes a member join again."""
    core = consumers.core
    caused_by = f" (caused by {core.caused_by})" if core.caused_by else ""
    return RebalanceInProgress(f"group {group.name} is in epoch {core.epoch}: {core.reason}{caused_by}")


def _leaving(turn: Turn, group: Group, consumers: Consumers, one: LeavingMember) -> ConsumerMember:
    member_id = one.member
    if one.instance is not None and not member_id:
        member_id = consumers.core.statics.get(one.instance, "")
    return _any_member(turn, group, consumers, member_id, one.instance)


def _member(
    turn: Turn, group: Group, consumers: Consumers, member_id: str, instance: str | None
) -> ConsumerMember:
    """The member of the classic protocol that sent a request. Raises as `_any_member` does."""
    member = _any_member(turn, group, consumers, member_id, instance)
    if member.classic is None:
        raise UnknownMemberId(f"member {member_id!r} of group {group.name} is not of the classic protocol")
    return member


def _any_member(
    turn: Turn, group: Group, consumers: Consumers, member_id: str, instance: str | None
) -> ConsumerMember:
    """Raises UnknownMemberId, FencedInstanceId, GroupAuthorizationFailed."""
    core = consumers.core
    check_instance(core.statics, group.name, member_id, instance)
    member = core.members.get(member_id)
    if member is None:
        raise UnknownMemberId(f"group {group.name} has no member {member_id!r}")
    what = f"member {member_id!r} of group {group.name!r}"
    owner = owner_after(consumers.principals.get(member_id), turn.by, what)
    consumers.principals[member_id] = owner
    return member
