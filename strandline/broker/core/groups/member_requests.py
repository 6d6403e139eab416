"""Handles the requests of members: join, sync, heartbeat and leave.

A request is refused by raising, before anything has changed; else its call waits with its member, or is
answered.
"""

from __future__ import annotations

from typing import Final

from strandline.broker.core.coordinators.effects import Call
from strandline.broker.core.coordinators.unwritten import unwritten
from strandline.broker.core.groups import rebalance
from strandline.broker.core.groups.effects import EventKind
from strandline.broker.core.groups.limits import cut
from strandline.broker.core.groups.rebalance import COMPLETING, PREPARING
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.member import Member
from strandline.broker.core.groups.state.states import GroupState
from strandline.broker.core.groups.state.turn import Turn
from strandline.broker.core.groups.state_bytes import PendingMember
from strandline.broker.core.groups.timers import Timer, TimerKind
from strandline.errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidRequest,
    RebalanceInProgress,
    StrandlineError,
)
from strandline.room import first_of_most
from strandline.vocabulary.groups import (
    Heartbeat,
    JoinAnswer,
    JoinGroup,
    LeavingMember,
    LeftMember,
    MemberIdGiven,
    SyncGroup,
)

HELD_SHARE_MAX: Final = 0.5
"""The largest share of its session timeout for which a heartbeat is held, even if it asks for more: otherwise
an answer could come after the session's end."""


# --- join --------------------------------------------------------------------------------


def join(
    turn: Turn, group: Group, call: Call[JoinAnswer], request: JoinGroup, new_member_id: str, host: str
) -> None:
    """Admit a new member, or one that takes part in the next generation."""
    if request.member:
        _join_again(turn, group, call, request, host)
    elif request.instance is not None and request.instance in group.statics:
        old = group.find(group.statics[request.instance], request.instance, turn.by)
        _check_agrees(turn, group, request, old.member)
        _replace(turn, group, call, old, request, new_member_id, host)
    elif request.instance is not None:
        _check_newcomer(turn, group, request, new_member_id, host)
        _add(turn, group, call, request, new_member_id, host)
    else:
        _check_newcomer(turn, group, request, new_member_id, host)
        group.add_pending(new_member_id, PendingMember(turn.by, host))
        turn.start(Timer(TimerKind.PENDING, group.name, new_member_id), request.session_timeout_ms)
        turn.answer(call, MemberIdGiven(new_member_id))


def _join_again(turn: Turn, group: Group, call: Call[JoinAnswer], request: JoinGroup, host: str) -> None:
    if request.member in group.pending:
        if request.instance is not None:
            raise InvalidRequest(
                f"member id {request.member!r} was given without an instance, not to {request.instance!r}"
            )
        group.check_pending(request.member, turn.by)
        _check_agrees(turn, group, request, request.member)
        group.check_room(_new(turn, request, request.member, host).stored_bytes)
        forget_pending(turn, group, request.member)
        _add(turn, group, call, request, request.member, host)
        return
    member = group.find(request.member, request.instance, turn.by)
    _check_agrees(turn, group, request, member.member)
    group.check_room(_new(turn, request, member.member, host).stored_bytes - member.stored_bytes)
    _rejoin(turn, group, call, member, request)


def _check_newcomer(turn: Turn, group: Group, request: JoinGroup, new_member_id: str, host: str) -> None:
    _check_agrees(turn, group, request, "")
    most = turn.limits.group_members_max
    if len(group.members) >= most:
        raise GroupMaxSizeReached(
            f"group {group.name} has {len(group.members)} members; it may have {most}", limit=most
        )
    group.check_room(_new(turn, request, new_member_id, host).stored_bytes)
    if len(group.members) + len(group.pending) >= most:
        # Ids cost their callers nothing: those with which no member joins keep no other caller out.
        asking = PendingMember(turn.by, host)
        taken = ((member, each.caller) for member, each in group.pending.items())
        forget_pending(turn, group, first_of_most(taken, asking.caller))


def _check_agrees(turn: Turn, group: Group, request: JoinGroup, member: str) -> None:
    if not group.agrees(request.protocol_type, request.protocols, member):
        wanted = ", ".join(protocol.name for protocol in request.protocols)
        raise InconsistentGroupProtocol(
            f"member {member or request.instance or request.client_id!r} supports {wanted} "
            f"of type {request.protocol_type}; group {group.name} of type {group.protocol_type} "
            f"supports {', '.join(group.supported()) or 'nothing'}"
        )


def _new(turn: Turn, request: JoinGroup, member: str, host: str) -> Member:
    return Member(
        member,
        request.instance,
        request.client_id,
        host,
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
        request.protocols,
        principal=turn.by,
        pattern=request.pattern,
    )


def _add(
    turn: Turn, group: Group, call: Call[JoinAnswer], request: JoinGroup, member_id: str, host: str
) -> None:
    member: Member = _new(turn, request, member_id, host)
    if not group.members:
        group.protocol_type = request.protocol_type
    group.add(member)
    group.wait_to_join(member, call)
    rebalance.restart_session(turn, group, member)
    if group.barrier is not None:
        group.barrier.newcomers = True
    reason = _because(f"member {member_id} joined", request.reason)
    turn.publish(
        EventKind.MEMBER_JOINED,
        group.name,
        group.generation,
        member=member_id,
        reason=cut(request.reason),
    )
    rebalance.begin(turn, group, reason, member_id)


def _rejoin(turn: Turn, group: Group, call: Call[JoinAnswer], member: Member, request: JoinGroup) -> None:
    """A known member joins. Without news in the middle of a generation, it gets that generation's answer
    again, as the first may have got lost; a leader that joins a stable group starts a rebalance."""
    same = member.is_assigned_for(request.protocols, group.protocol)
    same = same and (member.recovered or member.pattern == request.pattern)
    group.update(member, request)
    rebalance.restart_session(turn, group, member)
    leads = member.member == group.leader
    if same and (group.state is COMPLETING or (group.state is GroupState.STABLE and not leads)):
        if group.starting:
            _wait_to_join(turn, group, member, call)
        else:
            turn.answer(call, group.joined(member))
        return
    _wait_to_join(turn, group, member, call)
    what = f"leader {member.member} joined again" if same else f"member {member.member} joined with changes"
    rebalance.begin(turn, group, _because(what, request.reason), member.member)


def _wait_to_join(turn: Turn, group: Group, member: Member, call: Call[JoinAnswer]) -> None:
    before = group.wait_to_join(member, call)
    if before is not None:
        turn.answer(before, _superseded(member, "join"))


# --- static members ----------------------------------------------------------------------


def _replace(
    turn: Turn,
    group: Group,
    call: Call[JoinAnswer],
    old: Member,
    request: JoinGroup,
    member_id: str,
    host: str,
) -> None:
    """An instance returns as another process: it takes the old one's place, which is fenced (KIP-345).

    If the group is stable and would choose the same protocol again, its generation and assignment stand,
    and the other members do not notice. The new process's metadata may still differ, and always does
    if the old process owned something. The new process checks whether the assignment fits, and
    joins again if not. A leader that returns must not assign again (KIP-814, G13).
    """
    leads = group.leader == old.member
    member: Member = _new(turn, request, member_id, host)
    member.take_over(old, group.protocol)
    group.check_room(member.stored_bytes - old.stored_bytes)
    reason = f"member {member_id} took the place of instance {old.instance}"
    fenced = FencedInstanceId(
        f"instance {old.instance!r} of group {group.name} is member {member_id!r} now, not {old.member!r}"
    )
    rebalance.dismiss(turn, group, old, reason, fenced)
    group.add(member)
    if leads:
        group.leader = member_id
    group.wait_to_join(member, call)
    rebalance.restart_session(turn, group, member)
    turn.publish(
        EventKind.MEMBER_JOINED,
        group.name,
        group.generation,
        member=member_id,
        reason=cut(request.reason),
    )
    if group.state is not GroupState.STABLE or group.choose_protocol() != group.protocol:
        rebalance.begin(turn, group, _because(reason, request.reason), member_id)
        return
    assignments = {m.member: m.assignment for m in group.members.values()}
    turn.append(
        group,
        (group.record(assignments, turn.now.wall_ms),),
        lambda _, error: _replaced(turn, group, member, error),
    )


def _replaced(turn: Turn, group: Group, member: Member, error: StrandlineError | None) -> None:
    """The new member of an instance is in the log. If a rebalance began meanwhile, it joined that."""
    if group.state is not GroupState.STABLE or group.members.get(member.member) is not member:
        return
    call = group.take_joining(member)
    if call is None:
        return
    rebalance.restart_session(turn, group, member)
    if error is not None:
        turn.answer(call, unwritten(f"member {member.member} of group {group.name}", error))
    else:
        leads = group.leader == member.member
        turn.answer(call, group.joined(member, skip_assignment=leads))


# --- sync --------------------------------------------------------------------------------


def sync(turn: Turn, group: Group, call: Call[bytes], request: SyncGroup) -> None:
    """The leader hands in the assignment; the others wait for theirs."""
    member = group.current(request.member, request.instance, request.generation, turn.by)
    for named, chosen in (
        (request.protocol_type, group.protocol_type),
        (request.protocol, group.protocol),
    ):
        if named and named != chosen:
            raise InconsistentGroupProtocol(
                f"member {member.member!r} syncs with {named!r}; generation {group.generation} "
                f"of group {group.name} goes by {chosen!r}"
            )
    if group.state is PREPARING:
        raise group.rebalances()
    if group.starting:
        raise RebalanceInProgress(f"generation {group.generation} of group {group.name} has yet to begin")
    if group.state is COMPLETING and member.member == group.leader and group.assign_write is None:
        rebalance.assign(turn, group, request.assignments)
    rebalance.restart_session(turn, group, member)
    group.unsynced.discard(member.member)
    if group.state is GroupState.STABLE:
        turn.answer(call, member.assignment)
        return
    if member.syncing is not None:
        turn.answer(member.syncing, _superseded(member, "sync"))
    member.syncing = call


# --- heartbeat ---------------------------------------------------------------------------


def heartbeat(turn: Turn, group: Group, call: Call[None], request: Heartbeat) -> None:
    """Held until a rebalance begins or the member has waited long enough; its session restarts at the
    arrival and at the answer."""
    member = group.current(request.member, request.instance, request.generation, turn.by)
    rebalance.restart_session(turn, group, member)
    if group.state is PREPARING:
        raise group.rebalances()
    if member.heartbeat is not None:
        turn.answer(member.heartbeat, None)
        member.heartbeat = None
    if request.max_wait_ms <= 0:
        turn.timers.cancel(Timer(TimerKind.HEARTBEAT, group.name, member.member))
        turn.answer(call, None)
        return
    member.heartbeat = call
    held_ms = min(request.max_wait_ms, member.session_timeout_ms * HELD_SHARE_MAX)
    turn.start(Timer(TimerKind.HEARTBEAT, group.name, member.member), held_ms)


def heartbeat_due(turn: Turn, group: Group, member: Member) -> None:
    assert member.heartbeat is not None, f"a timer for a heartbeat of {member.member}, which has none"
    turn.answer(member.heartbeat, None)
    member.heartbeat = None
    rebalance.restart_session(turn, group, member)


# --- leave -------------------------------------------------------------------------------


def leave(
    turn: Turn, group: Group, call: Call[tuple[LeftMember, ...]], leaving: tuple[LeavingMember, ...]
) -> None:
    """All members that leave in one request cause one rebalance. The answer waits until the log says so,
    if it knows of members at all."""
    logged = group.logged
    left: list[LeftMember] = []
    reasons: list[tuple[str, str]] = []
    for one in leaving:
        try:
            gone = _leave(turn, group, one)
        except StrandlineError as error:
            left.append(LeftMember(one.member, error))
            continue
        left.append(LeftMember(gone or one.member))
        if gone is not None:
            reasons.append((_because(f"member {gone} left", one.reason), gone))
    if not (reasons and logged):
        turn.answer(call, tuple(left))
    if reasons:
        if logged:
            group.leaves.append((call, tuple(left)))
        reason, caused_by = reasons[0]
        others = f", and {len(reasons) - 1} more" if len(reasons) > 1 else ""
        rebalance.begin(turn, group, reason + others, caused_by)
        rebalance.write_leaves(turn, group)
    elif group.barrier is not None:
        rebalance.maybe_complete(turn, group)  # it may have waited for an id that was about to join


def _leave(turn: Turn, group: Group, one: LeavingMember) -> str | None:
    """The member that left; None if it had not joined yet, or is static and stays: a process that ends
    does not end its instance, only a request that names the instance does (KIP-345)."""
    if one.instance is None and one.member in group.pending:
        group.check_pending(one.member, turn.by)
        forget_pending(turn, group, one.member)
        return None
    member_id = one.member
    if one.instance is not None and not member_id:
        member_id = group.statics.get(one.instance, "")
    member = group.find(member_id, one.instance, turn.by)
    if member.instance is not None and one.instance is None:
        return None
    rebalance.dismiss(turn, group, member, _because("left", one.reason))
    return member.member


# --- timers ------------------------------------------------------------------------------


def session_due(turn: Turn, group: Group, member: Member) -> None:
    """Removes a silent member, unless it waits for an answer of this coordinator."""
    if member.joining is not None or member.syncing is not None:
        rebalance.restart_session(turn, group, member)
        return
    reason = f"not heard of for {member.session_timeout_ms} ms"
    rebalance.dismiss(turn, group, member, reason)
    rebalance.begin(turn, group, f"member {member.member} was {reason}", member.member)


def pending_due(turn: Turn, group: Group, member_id: str) -> None:
    group.remove_pending(member_id)
    rebalance.maybe_complete(turn, group)


def forget_pending(turn: Turn, group: Group, member_id: str) -> None:
    group.remove_pending(member_id)
    turn.timers.cancel(Timer(TimerKind.PENDING, group.name, member_id))


def _because(what: str, reason: str) -> str:
    reason = cut(reason)
    return f"{what}: {reason}" if reason else what


def _superseded(member: Member, what: str) -> StrandlineError:
    return RebalanceInProgress(f"a later {what} of member {member.member!r} took the place of this one")
