"""From one generation of a group to the next: the barrier, the leader's assignment, and interruptions.

A generation is written twice: when it begins, before any member is notified of it, so that no generation is
ever announced with two different sets of members; and with its assignment, before any member gets that. A
coordinator that takes over finds either, and continues from there. A member that leaves is answered once the
log says so: otherwise a coordinator that takes over would wait for it, for its whole session timeout.
"""

from __future__ import annotations

from collections.abc import Mapping

from strandline.broker.core.coordinators.unwritten import unwritten
from strandline.broker.core.groups.effects import EventKind
from strandline.broker.core.groups.state.group import Barrier, Group, Leaves, next_generation
from strandline.broker.core.groups.state.member import Member
from strandline.broker.core.groups.state.states import GroupState
from strandline.broker.core.groups.state.turn import Turn
from strandline.broker.core.groups.timers import Timer, TimerKind
from strandline.errors import InvalidRequest, StrandlineError, UnknownMemberId

PREPARING = GroupState.PREPARING_REBALANCE
COMPLETING = GroupState.COMPLETING_REBALANCE


# --- the barrier -------------------------------------------------------------------------


def begin(turn: Turn, group: Group, reason: str, caused_by: str) -> None:
    """Have the members gather for a new generation, unless they already do."""
    if group.state is not PREPARING:
        _gather(turn, group, reason, caused_by)
    maybe_complete(turn, group)


def _gather(turn: Turn, group: Group, reason: str, caused_by: str) -> None:
    was = group.state
    group.reason, group.caused_by = reason, caused_by
    group.become(PREPARING)
    group.unsynced.clear()
    group.recovered = False
    turn.timers.cancel(Timer(TimerKind.SYNC, group.name))
    timeout_ms, delay_ms = group.rebalance_timeout_ms, turn.limits.group_initial_rebalance_delay_ms
    initial = was is GroupState.EMPTY and delay_ms > 0
    group.barrier = Barrier(turn.now.monotonic_s + timeout_ms / 1000, initial)
    turn.start(Timer(TimerKind.BARRIER, group.name), min(delay_ms, timeout_ms) if initial else timeout_ms)
    turn.publish(
        EventKind.REBALANCE_STARTED, group.name, group.generation, reason=reason, caused_by=caused_by
    )
    for member in group.members.values():
        if was is COMPLETING:
            group.set_assignment(member, b"")
        _break_off(turn, group, member)


def _break_off(turn: Turn, group: Group, member: Member) -> None:
    """Interrupt the calls for which the member waits; its join counts for the next generation."""
    for call in member.calls():
        if call is not member.joining:
            turn.answer(call, group.rebalances())
            restart_session(turn, group, member)
    member.syncing = member.heartbeat = None
    turn.timers.cancel(Timer(TimerKind.HEARTBEAT, group.name, member.member))


def maybe_complete(turn: Turn, group: Group) -> None:
    """Begin the generation once all that it waits for is there."""
    barrier = group.barrier
    if barrier is None:
        return
    if not group.members:
        _complete(turn, group)
    elif group.start_write is None and (barrier.timed_out or (group.complete and not barrier.initial)):
        # One start at a time: members that join while one is written start another generation together.
        _complete(turn, group)


def barrier_due(turn: Turn, group: Group) -> None:
    """Removes members that did not join in time."""
    barrier, now_s = group.barrier, turn.now.monotonic_s
    assert barrier is not None, f"group {group.name} is {group.state.value} and has a barrier's timer"
    if barrier.initial and barrier.newcomers and now_s < barrier.until_s:
        barrier.newcomers = False
        left_ms = (barrier.until_s - now_s) * 1000
        delay_ms = turn.limits.group_initial_rebalance_delay_ms
        turn.start(Timer(TimerKind.BARRIER, group.name), min(delay_ms, left_ms))
        return
    timeout_ms = group.rebalance_timeout_ms
    for member in [member for member in group.members.values() if member.joining is None]:
        dismiss(turn, group, member, f"did not join again within {timeout_ms} ms")
    barrier.timed_out = True
    maybe_complete(turn, group)


# --- a generation begins -----------------------------------------------------------------


def _complete(turn: Turn, group: Group) -> None:
    turn.timers.cancel(Timer(TimerKind.BARRIER, group.name))
    if group.announced:
        _publish(turn, EventKind.GENERATION_ENDED, group)
        group.announced = False
    group.generation = next_generation(group.generation)
    if not group.members:
        group.become(GroupState.EMPTY)
        group.protocol = ""
        group.empty_since_ms = turn.now.wall_ms
        leaves, group.leaves = group.leaves, []
        # If this is not written, its last members expire on the coordinator that loads the group.
        turn.append(
            group,
            (group.record(None, turn.now.wall_ms),),
            lambda _, error: _answer_leaves(turn, group, leaves, error),
        )
        return
    group.become(COMPLETING)
    group.leader = group.elect_leader()
    group.protocol = group.choose_protocol()
    for member in group.members.values():
        group.unassign(member)
    record = group.record(None, turn.now.wall_ms)
    group.start_write = turn.append(group, (record,), lambda _, error: _start_settled(turn, group, error))


def _publish(turn: Turn, kind: EventKind, group: Group) -> None:
    """Publish an event of the present generation, with the reason for it."""
    turn.publish(kind, group.name, group.generation, reason=group.reason, caused_by=group.caused_by)


def _start_settled(turn: Turn, group: Group, error: StrandlineError | None) -> None:
    _started(turn, group, error)
    write_leaves(turn, group)


def _started(turn: Turn, group: Group, error: StrandlineError | None) -> None:
    """The start of a generation is in the log: its members are notified."""
    group.start_write = None
    if group.state is not COMPLETING:
        maybe_complete(turn, group)  # interrupted meanwhile: waiting joins count for the next one
        return
    if error is not None:
        refusal = unwritten(f"generation {group.generation} of group {group.name}", error)
        for member in group.members.values():
            call = group.take_joining(member)
            if call is not None:
                turn.answer(call, refusal)
                restart_session(turn, group, member)
        begin(turn, group, refusal.message, "")
        return
    _publish(turn, EventKind.GENERATION_STARTED, group)
    group.announced = True
    for member in group.members.values():
        call = group.take_joining(member)
        assert call is not None, f"{member.member} is in a generation that it did not join"
        turn.answer(call, group.joined(member))
    await_syncs(turn, group)


def await_syncs(turn: Turn, group: Group) -> None:
    """The generation is in the log, without an assignment: its members are to ask for theirs."""
    for member in group.members.values():
        group.unsynced.add(member.member)
        restart_session(turn, group, member)
    turn.start(Timer(TimerKind.SYNC, group.name), group.rebalance_timeout_ms)


# --- the assignment ----------------------------------------------------------------------


def assign(turn: Turn, group: Group, assignments: Mapping[str, bytes]) -> None:
    """Write the leader's assignments; a member without one gets an empty one. An assignment of a client
    that is no member is ignored, as in Kafka: it may have left in the meantime. Raises InvalidRequest."""
    most = turn.limits.group_member_bytes_max
    copied = {member: found for member, found in assignments.items() if member in group.members}
    for member, assignment in copied.items():
        if len(assignment) > most:
            raise InvalidRequest(
                f"the assignment of member {member} has {len(assignment)} bytes, more than {most}",
                limit=most,
            )
    group.check_room(sum(map(len, copied.values())))
    record, generation = group.record(copied, turn.now.wall_ms), group.generation
    group.assign_write = turn.append(
        group, (record,), lambda _, error: _assigned(turn, group, generation, error)
    )


def _assigned(turn: Turn, group: Group, generation: int, error: StrandlineError | None) -> None:
    """The assignment of this generation is in force (`replay`), or was not written."""
    expected = GroupState.STABLE if error is None else COMPLETING
    if (group.state, group.generation) != (expected, generation):
        return  # interrupted meanwhile: no call waits for it
    group.assign_write = None
    if error is None:
        turn.publish(EventKind.GENERATION_STABLE, group.name, group.generation)
    refusal = error and unwritten(f"the assignment of generation {group.generation} of {group.name}", error)
    for member in group.members.values():
        if member.syncing is not None:
            turn.answer(member.syncing, refusal or member.assignment)
            member.syncing = None
            restart_session(turn, group, member)
    if refusal is not None:
        begin(turn, group, refusal.message, "")


def sync_due(turn: Turn, group: Group) -> None:
    """Removes members that never sent SyncGroup.

    Members of a generation that began under another coordinator were not notified by this one: they are
    only asked to join again.
    """
    timeout_ms = group.rebalance_timeout_ms
    late = [group.members[member] for member in sorted(group.unsynced)]
    if not late:
        return
    reason = f"{len(late)} members did not sync within {timeout_ms} ms"
    caused_by = late[0].member
    if not group.recovered:
        for member in late:
            dismiss(turn, group, member, f"did not sync within {timeout_ms} ms")
    begin(turn, group, reason, caused_by)


# --- members -----------------------------------------------------------------------------


def write_leaves(turn: Turn, group: Group) -> None:
    """Have the log say which members are left, for the calls that wait for that. One write is under way
    at a time, so that a group whose members all leave is not written once for each."""
    if not group.leaves or group.leave_write is not None or group.state is GroupState.DEAD:
        return
    if group.state is not PREPARING and group.start_write is not None:
        return  # the start of the next generation says so once it is written
    leaves, group.leaves = group.leaves, []
    if group.state is not PREPARING:
        _answer_leaves(turn, group, leaves, None)
        return
    record = group.record(None, turn.now.wall_ms, gathers=True)
    group.leave_write = turn.append(
        group, (record,), lambda _, error: _leaves_settled(turn, group, leaves, error)
    )


def _leaves_settled(turn: Turn, group: Group, leaves: Leaves, error: StrandlineError | None) -> None:
    group.leave_write = None
    _answer_leaves(turn, group, leaves, error)
    write_leaves(turn, group)


def _answer_leaves(turn: Turn, group: Group, leaves: Leaves, error: StrandlineError | None) -> None:
    refusal = error and unwritten(f"that members left group {group.name}", error)
    for call, left in leaves:
        turn.answer(call, refusal or left)


def restart_session(turn: Turn, group: Group, member: Member) -> None:
    """Restart the member's session timeout."""
    turn.start(Timer(TimerKind.SESSION, group.name, member.member), member.session_timeout_ms)


def dismiss(
    turn: Turn,
    group: Group,
    member: Member,
    reason: str,
    error: StrandlineError | None = None,
) -> None:
    """Remove the member; its waiting calls are answered, and the partitions that it owned are lost."""
    for kind in (TimerKind.SESSION, TimerKind.HEARTBEAT):
        turn.timers.cancel(Timer(kind, group.name, member.member))
    error = error or UnknownMemberId(f"member {member.member!r} is out of group {group.name}: {reason}")
    for call in member.calls():
        turn.answer(call, error)
    group.remove(member)
    if member.owned:
        turn.publish(
            EventKind.LOST,
            group.name,
            group.generation,
            member=member.member,
            reason=reason,
            partitions=tuple(member.owned),
        )
    turn.publish(EventKind.MEMBER_LEFT, group.name, group.generation, member=member.member, reason=reason)
