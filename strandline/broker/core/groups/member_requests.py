"""Handles the requests of members: join, sync, heartbeat and leave.

A request is refused by raising, before anything has changed; else its token waits with its member, or is
answered.
"""

from __future__ import annotations

from typing import Final, Generic

from strandline.broker.core.groups.effects import EventKind, Token
from strandline.broker.core.groups.limits import cut
from strandline.broker.core.groups.rebalance import COMPLETING, PREPARING, Rebalance
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.member import Member
from strandline.broker.core.groups.state.states import GroupState
from strandline.broker.core.groups.state_bytes import PendingMember
from strandline.broker.core.groups.timers import Timer, TimerKind
from strandline.broker.core.groups.turn import Turn, unwritten
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
    JoinGroup,
    LeavingMember,
    LeftMember,
    MemberIdGiven,
    SyncGroup,
)

HELD_SHARE_MAX: Final = 0.5
"""The largest share of its session timeout for which a heartbeat is held, even if it asks for more: otherwise
an answer could come after the session's end."""


class MemberRequests(Generic[Token]):
    """Decides on the requests of members."""

    __slots__ = ("_rebalance", "_turn")

    def __init__(self, turn: Turn[Token], rebalance: Rebalance[Token]) -> None:
        self._turn = turn
        self._rebalance = rebalance

    # --- join --------------------------------------------------------------------------------

    def join(
        self, group: Group[Token], token: Token, request: JoinGroup, new_member_id: str, host: str
    ) -> None:
        """Admit a new member, or one that takes part in the next generation."""
        if request.member:
            self._join_again(group, token, request, host)
        elif request.instance is not None and request.instance in group.statics:
            old = group.find(group.statics[request.instance], request.instance, self._turn.by)
            self._check_agrees(group, request, old.member)
            self._replace(group, token, old, request, new_member_id, host)
        elif request.instance is not None:
            self._check_newcomer(group, request, new_member_id, host)
            self._add(group, token, request, new_member_id, host)
        else:
            self._check_newcomer(group, request, new_member_id, host)
            group.add_pending(new_member_id, PendingMember(self._turn.by, host))
            self._turn.start(Timer(TimerKind.PENDING, group.name, new_member_id), request.session_timeout_ms)
            self._turn.answer(token, MemberIdGiven(new_member_id))

    def _join_again(self, group: Group[Token], token: Token, request: JoinGroup, host: str) -> None:
        if request.member in group.pending:
            if request.instance is not None:
                raise InvalidRequest(
                    f"member id {request.member!r} was given without an instance, not to {request.instance!r}"
                )
            group.check_pending(request.member, self._turn.by)
            self._check_agrees(group, request, request.member)
            group.check_room(self._new(request, request.member, host).stored_bytes)
            self.forget_pending(group, request.member)
            self._add(group, token, request, request.member, host)
            return
        member = group.find(request.member, request.instance, self._turn.by)
        self._check_agrees(group, request, member.member)
        group.check_room(self._new(request, member.member, host).stored_bytes - member.stored_bytes)
        self._rejoin(group, token, member, request)

    def _check_newcomer(self, group: Group[Token], request: JoinGroup, new_member_id: str, host: str) -> None:
        self._check_agrees(group, request, "")
        most = self._turn.limits.group_members_max
        if len(group.members) >= most:
            raise GroupMaxSizeReached(
                f"group {group.name} has {len(group.members)} members; it may have {most}", limit=most
            )
        group.check_room(self._new(request, new_member_id, host).stored_bytes)
        if len(group.members) + len(group.pending) >= most:
            # Ids cost their callers nothing: those with which no member joins keep no other caller out.
            asking = PendingMember(self._turn.by, host)
            taken = ((member, each.caller) for member, each in group.pending.items())
            self.forget_pending(group, first_of_most(taken, asking.caller))

    def _check_agrees(self, group: Group[Token], request: JoinGroup, member: str) -> None:
        if not group.agrees(request.protocol_type, request.protocols, member):
            wanted = ", ".join(protocol.name for protocol in request.protocols)
            raise InconsistentGroupProtocol(
                f"member {member or request.instance or request.client_id!r} supports {wanted} "
                f"of type {request.protocol_type}; group {group.name} of type {group.protocol_type} "
                f"supports {', '.join(group.supported()) or 'nothing'}"
            )

    def _new(self, request: JoinGroup, member: str, host: str) -> Member[Token]:
        return Member(
            member,
            request.instance,
            request.client_id,
            host,
            request.session_timeout_ms,
            request.rebalance_timeout_ms,
            request.protocols,
            principal=self._turn.by,
            pattern=request.pattern,
        )

    def _add(self, group: Group[Token], token: Token, request: JoinGroup, member_id: str, host: str) -> None:
        member: Member[Token] = self._new(request, member_id, host)
        if not group.members:
            group.protocol_type = request.protocol_type
        group.add(member)
        group.wait_to_join(member, token)
        self._rebalance.restart_session(group, member)
        if group.barrier is not None:
            group.barrier.newcomers = True
        reason = _because(f"member {member_id} joined", request.reason)
        self._turn.publish(
            EventKind.MEMBER_JOINED,
            group.name,
            group.generation,
            member=member_id,
            reason=cut(request.reason),
        )
        self._rebalance.begin(group, reason, member_id)

    def _rejoin(self, group: Group[Token], token: Token, member: Member[Token], request: JoinGroup) -> None:
        """A known member joins. Without news in the middle of a generation, it gets that generation's answer
        again, as the first may have got lost; a leader that joins a stable group starts a rebalance."""
        same = member.is_assigned_for(request.protocols, group.protocol)
        same = same and (member.recovered or member.pattern == request.pattern)
        group.update(member, request)
        self._rebalance.restart_session(group, member)
        leads = member.member == group.leader
        if same and (group.state is COMPLETING or (group.state is GroupState.STABLE and not leads)):
            if group.starting:
                self._wait_to_join(group, member, token)
            else:
                self._turn.answer(token, group.joined(member))
            return
        self._wait_to_join(group, member, token)
        what = (
            f"leader {member.member} joined again" if same else f"member {member.member} joined with changes"
        )
        self._rebalance.begin(group, _because(what, request.reason), member.member)

    def _wait_to_join(self, group: Group[Token], member: Member[Token], token: Token) -> None:
        before = group.wait_to_join(member, token)
        if before is not None:
            self._turn.answer(before, _superseded(member, "join"))

    # --- static members ----------------------------------------------------------------------

    def _replace(
        self,
        group: Group[Token],
        token: Token,
        old: Member[Token],
        request: JoinGroup,
        member_id: str,
        host: str,
    ) -> None:
        """An instance returns as another process: it takes the old one's place, which is fenced (KIP-345).

        If the group is stable and would choose the same protocol again, its generation and assignment stand,
        and the other members do not notice. The new process's metadata may still differ, and always does
        if the old process owned something. The new process checks by itself whether the assignment fits, and
        joins again if not. A leader that returns must not assign again (KIP-814, G13).
        """
        turn = self._turn
        leads = group.leader == old.member
        member: Member[Token] = self._new(request, member_id, host)
        member.take_over(old, group.protocol)
        group.check_room(member.stored_bytes - old.stored_bytes)
        reason = f"member {member_id} took the place of instance {old.instance}"
        fenced = FencedInstanceId(
            f"instance {old.instance!r} of group {group.name} is member {member_id!r} now, not {old.member!r}"
        )
        self._rebalance.dismiss(group, old, reason, fenced)
        group.add(member)
        if leads:
            group.leader = member_id
        group.wait_to_join(member, token)
        self._rebalance.restart_session(group, member)
        turn.publish(
            EventKind.MEMBER_JOINED,
            group.name,
            group.generation,
            member=member_id,
            reason=cut(request.reason),
        )
        if group.state is not GroupState.STABLE or group.choose_protocol() != group.protocol:
            self._rebalance.begin(group, _because(reason, request.reason), member_id)
            return
        assignments = {m.member: m.assignment for m in group.members.values()}
        turn.append(
            (group.record(assignments, turn.now.wall_ms),),
            lambda _, error: self._replaced(group, member, error),
            group.headers,
        )

    def _replaced(self, group: Group[Token], member: Member[Token], error: StrandlineError | None) -> None:
        """The new member of an instance is in the log. If a rebalance began meanwhile, it joined that."""
        if group.state is not GroupState.STABLE or group.members.get(member.member) is not member:
            return
        token = group.take_joining(member)
        if token is None:
            return
        self._rebalance.restart_session(group, member)
        if error is not None:
            self._turn.answer(token, unwritten(f"member {member.member} of group {group.name}", error))
        else:
            leads = group.leader == member.member
            self._turn.answer(token, group.joined(member, skip_assignment=leads))

    # --- sync --------------------------------------------------------------------------------

    def sync(self, group: Group[Token], token: Token, request: SyncGroup) -> None:
        """The leader hands in the assignment; the others wait for theirs."""
        member = group.current(request.member, request.instance, request.generation, self._turn.by)
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
            self._rebalance.assign(group, request.assignments)
        self._rebalance.restart_session(group, member)
        group.unsynced.discard(member.member)
        if group.state is GroupState.STABLE:
            self._turn.answer(token, member.assignment)
            return
        if member.syncing is not None:
            self._turn.answer(member.syncing, _superseded(member, "sync"))
        member.syncing = token

    # --- heartbeat ---------------------------------------------------------------------------

    def heartbeat(self, group: Group[Token], token: Token, request: Heartbeat) -> None:
        """Held until a rebalance begins or the member has waited long enough; its session restarts at the
        arrival and at the answer."""
        turn = self._turn
        member = group.current(request.member, request.instance, request.generation, self._turn.by)
        self._rebalance.restart_session(group, member)
        if group.state is PREPARING:
            raise group.rebalances()
        if member.heartbeat is not None:
            turn.answer(member.heartbeat, None)
            member.heartbeat = None
        if request.max_wait_ms <= 0:
            turn.timers.cancel(Timer(TimerKind.HEARTBEAT, group.name, member.member))
            turn.answer(token, None)
            return
        member.heartbeat = token
        held_ms = min(request.max_wait_ms, member.session_timeout_ms * HELD_SHARE_MAX)
        turn.start(Timer(TimerKind.HEARTBEAT, group.name, member.member), held_ms)

    def heartbeat_due(self, group: Group[Token], member: Member[Token]) -> None:
        assert member.heartbeat is not None, f"a timer for a heartbeat of {member.member}, which has none"
        self._turn.answer(member.heartbeat, None)
        member.heartbeat = None
        self._rebalance.restart_session(group, member)

    # --- leave -------------------------------------------------------------------------------

    def leave(self, group: Group[Token], token: Token, leaving: tuple[LeavingMember, ...]) -> None:
        """All members that leave in one request cause one rebalance. The answer waits until the log says so,
        if it knows of members at all."""
        logged = group.logged
        left: list[LeftMember] = []
        reasons: list[tuple[str, str]] = []
        for one in leaving:
            try:
                gone = self._leave(group, one)
            except StrandlineError as error:
                left.append(LeftMember(one.member, error))
                continue
            left.append(LeftMember(gone or one.member))
            if gone is not None:
                reasons.append((_because(f"member {gone} left", one.reason), gone))
        if not (reasons and logged):
            self._turn.answer(token, tuple(left))
        if reasons:
            if logged:
                group.leaves.append((token, tuple(left)))
            reason, caused_by = reasons[0]
            others = f", and {len(reasons) - 1} more" if len(reasons) > 1 else ""
            self._rebalance.begin(group, reason + others, caused_by)
            self._rebalance.write_leaves(group)
        elif group.barrier is not None:
            self._rebalance.maybe_complete(group)  # it may have waited for an id that was about to join

    def _leave(self, group: Group[Token], one: LeavingMember) -> str | None:
        """The member that left; None if it had not joined yet, or is static and stays: a process that ends
        does not end its instance, only a request that names the instance does (KIP-345)."""
        if one.instance is None and one.member in group.pending:
            group.check_pending(one.member, self._turn.by)
            self.forget_pending(group, one.member)
            return None
        member_id = one.member
        if one.instance is not None and not member_id:
            member_id = group.statics.get(one.instance, "")
        member = group.find(member_id, one.instance, self._turn.by)
        if member.instance is not None and one.instance is None:
            return None
        self._rebalance.dismiss(group, member, _because("left", one.reason))
        return member.member

    # --- timers ------------------------------------------------------------------------------

    def session_due(self, group: Group[Token], member: Member[Token]) -> None:
        """Removes a silent member, unless it waits for an answer of this coordinator."""
        if member.joining is not None or member.syncing is not None:
            self._rebalance.restart_session(group, member)
            return
        reason = f"not heard of for {member.session_timeout_ms} ms"
        self._rebalance.dismiss(group, member, reason)
        self._rebalance.begin(group, f"member {member.member} was {reason}", member.member)

    def pending_due(self, group: Group[Token], member_id: str) -> None:
        group.remove_pending(member_id)
        self._rebalance.maybe_complete(group)

    def forget_pending(self, group: Group[Token], member_id: str) -> None:
        group.remove_pending(member_id)
        self._turn.timers.cancel(Timer(TimerKind.PENDING, group.name, member_id))


def _because(what: str, reason: str) -> str:
    reason = cut(reason)
    return f"{what}: {reason}" if reason else what


def _superseded(member: Member[Token], what: str) -> StrandlineError:
    return RebalanceInProgress(f"a later {what} of member {member.member!r} took the place of this one")
