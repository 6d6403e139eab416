"""From one generation of a group to the next: the barrier, the leader's assignment, and what breaks them off.

A generation is written down twice: when it begins, before anybody is told of it, so that no generation
is ever told twice with other members; and with its assignment, before anybody gets that. A coordinator
that takes over finds either, and goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic

from strandline.broker.core.groups.effects import EventKind, Token
from strandline.broker.core.groups.state.group import Barrier, Group, following
from strandline.broker.core.groups.state.member import Member
from strandline.broker.core.groups.state.states import GroupState
from strandline.broker.core.groups.timers import Timer, TimerKind
from strandline.broker.core.groups.turn import Desk, unwritten
from strandline.errors import InvalidRequest, StrandlineError, UnknownMemberId

PREPARING = GroupState.PREPARING_REBALANCE
COMPLETING = GroupState.COMPLETING_REBALANCE


class Rebalance(Generic[Token]):
    """Carries groups from generation to generation."""

    __slots__ = ("_desk",)

    def __init__(self, desk: Desk[Token]) -> None:
        self._desk = desk

    # --- the barrier -------------------------------------------------------------------------

    def begin(self, group: Group[Token], reason: str, caused_by: str) -> None:
        """Have the members gather for a new generation, unless they do already."""
        if group.state is not PREPARING:
            self._gather(group, reason, caused_by)
        self.maybe_complete(group)

    def _gather(self, group: Group[Token], reason: str, caused_by: str) -> None:
        desk, was = self._desk, group.state
        group.reason, group.caused_by = reason, caused_by
        group.become(PREPARING)
        group.unsynced.clear()
        group.recovered = False
        desk.timers.cancel(Timer(TimerKind.SYNC, group.name))
        timeout_ms, delay_ms = group.rebalance_timeout_ms, desk.limits.group_initial_rebalance_delay_ms
        initial = was is GroupState.EMPTY and delay_ms > 0
        group.barrier = Barrier(desk.now.monotonic_s + timeout_ms / 1000, initial)
        desk.start(Timer(TimerKind.BARRIER, group.name), min(delay_ms, timeout_ms) if initial else timeout_ms)
        desk.publish(
            EventKind.REBALANCE_STARTED, group.name, group.generation, reason=reason, caused_by=caused_by
        )
        for member in group.members.values():
            if was is COMPLETING:
                group.give(member, b"")
            self._break_off(group, member)

    def _break_off(self, group: Group[Token], member: Member[Token]) -> None:
        """What the member waits for will not come; its join counts for the next generation."""
        for token in (member.syncing, member.heartbeat):
            if token is not None:
                self._desk.answer(token, group.rebalances())
                self.heard_of(group, member)
        member.syncing = member.heartbeat = None
        self._desk.timers.cancel(Timer(TimerKind.HEARTBEAT, group.name, member.member))

    def maybe_complete(self, group: Group[Token]) -> None:
        """Begin the generation once all that it waits for is there."""
        barrier = group.barrier
        if barrier is None:
            return
        if not group.members:
            self._complete(group)
        elif group.start_write is None and (barrier.over or (group.complete and not barrier.initial)):
            # One beginning at a time: who joins while one is written makes one more generation together.
            self._complete(group)

    def barrier_due(self, group: Group[Token]) -> None:
        """Who has not come by now is not waited for any longer."""
        barrier, now_s = group.barrier, self._desk.now.monotonic_s
        assert barrier is not None, f"group {group.name} is {group.state.value} and has a barrier's timer"
        if barrier.initial and barrier.newcomers and now_s < barrier.until_s:
            barrier.newcomers = False
            left_ms = (barrier.until_s - now_s) * 1000
            delay_ms = self._desk.limits.group_initial_rebalance_delay_ms
            self._desk.start(Timer(TimerKind.BARRIER, group.name), min(delay_ms, left_ms))
            return
        timeout_ms = group.rebalance_timeout_ms
        for member in [member for member in group.members.values() if member.joining is None]:
            self.dismiss(group, member, f"did not join again within {timeout_ms} ms")
        barrier.over = True
        self.maybe_complete(group)

    # --- a generation begins -----------------------------------------------------------------

    def _complete(self, group: Group[Token]) -> None:
        desk = self._desk
        desk.timers.cancel(Timer(TimerKind.BARRIER, group.name))
        if group.announced:
            desk.publish(
                EventKind.GENERATION_ENDED,
                group.name,
                group.generation,
                reason=group.reason,
                caused_by=group.caused_by,
            )
            group.announced = False
        group.generation = following(group.generation)
        if not group.members:
            group.become(GroupState.EMPTY)
            group.protocol = ""
            group.empty_since_ms = desk.now.wall_ms
            desk.append((group.record({}, desk.now.wall_ms),), _nobody_waits)
            return
        group.become(COMPLETING)
        group.leader = group.elect()
        group.protocol = group.chosen()
        for member in group.members.values():
            group.unassign(member)
        record = group.record({}, desk.now.wall_ms)
        group.start_write = desk.append((record,), lambda _, error: self._started(group, error))

    def _started(self, group: Group[Token], error: StrandlineError | None) -> None:
        """The beginning of a generation is written down: its members are told."""
        desk = self._desk
        group.start_write = None
        if group.state is not COMPLETING:
            self.maybe_complete(group)  # broken off meanwhile: who waits to join waits for the next one
            return
        if error is not None:
            refusal = unwritten(f"generation {group.generation} of group {group.name}", error)
            for member in group.members.values():
                token = group.take_joining(member)
                if token is not None:
                    desk.answer(token, refusal)
                    self.heard_of(group, member)
            self.begin(group, refusal.message, "")
            return
        desk.publish(
            EventKind.GENERATION_STARTED,
            group.name,
            group.generation,
            reason=group.reason,
            caused_by=group.caused_by,
        )
        group.announced = True
        for member in group.members.values():
            token = group.take_joining(member)
            assert token is not None, f"{member.member} is in a generation that it did not join"
            desk.answer(token, group.joined(member))
            group.unsynced.add(member.member)
            self.heard_of(group, member)
        self.await_syncs(group)

    def await_syncs(self, group: Group[Token]) -> None:
        self._desk.start(Timer(TimerKind.SYNC, group.name), group.rebalance_timeout_ms)

    # --- the assignment ----------------------------------------------------------------------

    def assign(self, group: Group[Token], assignments: Mapping[str, bytes]) -> None:
        """Write down what the leader assigned; whom it forgot gets nothing. Raises InvalidRequest."""
        strangers = sorted(set(assignments) - set(group.members))
        if strangers:
            raise InvalidRequest(
                f"{len(strangers)} of the assignments of group {group.name} are for strangers: "
                f"{', '.join(strangers[:5])}{' …' if len(strangers) > 5 else ''}"
            )
        most = self._desk.limits.group_member_bytes_max
        for member, assignment in assignments.items():
            if len(assignment) > most:
                raise InvalidRequest(
                    f"the assignment of member {member} has {len(assignment)} bytes, more than {most}",
                    limit=most,
                )
        kept = dict(assignments)
        group.check_room(sum(map(len, kept.values())))
        record = group.record(kept, self._desk.now.wall_ms)
        group.assign_write = self._desk.append(
            (record,), lambda write_id, error: self._assigned(group, kept, write_id, error)
        )

    def _assigned(
        self,
        group: Group[Token],
        assignments: dict[str, bytes],
        write_id: int,
        error: StrandlineError | None,
    ) -> None:
        desk = self._desk
        if group.assign_write != write_id:
            return  # broken off meanwhile: nobody waits for it
        group.assign_write = None
        if error is None:
            group.become(GroupState.STABLE)
            group.recovered = False
            desk.publish(EventKind.GENERATION_STABLE, group.name, group.generation)
            for member in group.members.values():
                group.give(member, assignments.get(member.member, b""))
        refusal = error and unwritten(
            f"the assignment of generation {group.generation} of {group.name}", error
        )
        for member in group.members.values():
            if member.syncing is not None:
                desk.answer(member.syncing, refusal or member.assignment)
                member.syncing = None
                self.heard_of(group, member)
        if refusal is not None:
            self.begin(group, refusal.message, "")

    def sync_due(self, group: Group[Token]) -> None:
        """Who was told of the generation and never asked for its assignment is out.

        In a generation that began under another coordinator nobody was told by this one: they are only
        asked to join again.
        """
        timeout_ms = group.rebalance_timeout_ms
        late = [group.members[member] for member in sorted(group.unsynced)]
        if not late:
            return
        reason = f"{len(late)} members did not sync within {timeout_ms} ms"
        caused_by = late[0].member
        if not group.recovered:
            for member in late:
                self.dismiss(group, member, f"did not sync within {timeout_ms} ms")
        self.begin(group, reason, caused_by)

    # --- members -----------------------------------------------------------------------------

    def heard_of(self, group: Group[Token], member: Member[Token]) -> None:
        """Its session begins anew."""
        self._desk.start(Timer(TimerKind.SESSION, group.name, member.member), member.session_timeout_ms)

    def dismiss(
        self, group: Group[Token], member: Member[Token], reason: str, error: StrandlineError | None = None
    ) -> None:
        """The member is out; all it waits for is answered, and what it still owned is lost."""
        desk = self._desk
        for kind in (TimerKind.SESSION, TimerKind.HEARTBEAT):
            desk.timers.cancel(Timer(kind, group.name, member.member))
        error = error or UnknownMemberId(f"member {member.member!r} is out of group {group.name}: {reason}")
        for token in (member.joining, member.syncing, member.heartbeat):
            if token is not None:
                desk.answer(token, error)
        group.remove(member)
        if member.owned:
            desk.publish(
                EventKind.LOST,
                group.name,
                group.generation,
                member=member.member,
                reason=reason,
                partitions=tuple(member.owned),
            )
        desk.publish(EventKind.MEMBER_LEFT, group.name, group.generation, member=member.member, reason=reason)


def _nobody_waits(write_id: int, error: StrandlineError | None) -> None:
    """If an empty group was not written down, its last members expire where it is loaded."""
