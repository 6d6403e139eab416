"""Members whose coordinator assigns (KIP-848): hands their heartbeats to the core of these groups, starts
timers, and holds each answer back until the log has all that it follows from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from strandline.broker.core.consumer_groups.beats import Arrived, beat
from strandline.broker.core.consumer_groups.change import Change
from strandline.broker.core.consumer_groups.checks import check_beat
from strandline.broker.core.consumer_groups.departures import leave, take_out
from strandline.broker.core.consumer_groups.describing import described
from strandline.broker.core.consumer_groups.loading import load as load_record
from strandline.broker.core.consumer_groups.loading import loaded
from strandline.broker.core.consumer_groups.member import MEMBER_BYTES, ConsumerMember, MemberState
from strandline.broker.core.consumer_groups.records import EPOCH, ConsumerKey, ConsumerRecord
from strandline.broker.core.consumer_groups.topics import Topic
from strandline.broker.core.coordinators.effects import Call
from strandline.broker.core.coordinators.unwritten import unwritten
from strandline.broker.core.groups.assigned import held_beats
from strandline.broker.core.groups.assigned.sessions import restart_session
from strandline.broker.core.groups.effects import EventKind
from strandline.broker.core.groups.requests import ConsumerBeats
from strandline.broker.core.groups.state.consumers import Consumers, Waiting
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.owners import owner_after
from strandline.broker.core.groups.state.turn import Turn
from strandline.broker.core.groups.stored import GroupRecord, StoredRecord
from strandline.broker.core.groups.timers import Timer, TimerKind
from strandline.errors import GroupIdNotFound, InconsistentGroupProtocol, StrandlineError
from strandline.vocabulary.groups import JOINS, ConsumerBeat, DescribedConsumerGroup

UNREVOKED: Final = MemberState.UNREVOKED_PARTITIONS


def heartbeat(turn: Turn, group: Group, call: Call[ConsumerBeat], asked: ConsumerBeats) -> None:
    """Raises the refusals of `check_beat`, `beat` and `leave`. An empty group of the classic protocol
    becomes one of this one when a member joins."""
    request, limits = asked.request, turn.limits
    check_beat(
        request,
        member_bytes_max=limits.group_member_bytes_max,
        timeout_ms_max=limits.group_rebalance_timeout_ms_max,
    )
    what = f"member {request.member!r} of group {group.name!r}"
    consumers = group.consumers or Consumers()
    owner = owner_after(consumers.principals.get(request.member), turn.by, what)
    if request.epoch == JOINS:
        turn.state_bytes.check(MEMBER_BYTES, what)
    change = Change(group.name, consumers.core, turn.now.wall_ms)
    if request.epoch < JOINS:
        answer = leave(change, request)
    else:
        arrived = Arrived(
            request,
            asked.host,
            asked.topics,
            limits.group_members_max,
            turn.times(group.name).heartbeat_interval_ms,
            asked.chosen,
        )
        answer = beat(change, arrived)
        if group.consumers is None:
            _begin(turn, group, consumers)
        consumers.principals[request.member] = owner
        restart_session(turn, group, request.member)
    says_nothing = answer.assignment is None and answer.epoch == request.epoch >= JOINS
    if request.max_wait_ms > 0 and says_nothing and not change.records():
        held_beats.hold(turn, group, consumers, call, request)
    else:
        write(turn, group, consumers, change, [(call, answer)])


# --- what happens without a member ---------------------------------------------------------------


def session_due(turn: Turn, group: Group, member_id: str) -> None:
    """Removes a member that was silent for its session timeout."""
    timeout_ms = turn.times(group.name).session_timeout_ms
    _take_out(turn, group, member_id, f"was silent for {timeout_ms} ms")


def heartbeat_due(turn: Turn, group: Group, member_id: str) -> None:
    """A held heartbeat is to be answered."""
    held_beats.due(turn, group, _consumers(group), member_id)


def revocation_due(turn: Turn, group: Group, member_id: str) -> None:
    """Removes a member that did not give its partitions up in time: others wait for them."""
    member = _consumers(group).core.members[member_id]
    why = f"did not give {len(member.revoking)} partitions up within {member.rebalance_timeout_ms} ms"
    _take_out(turn, group, member_id, why)


def _consumers(group: Group) -> Consumers:
    assert group.consumers is not None, f"group {group.name} has a timer of the consumer protocol"
    return group.consumers


def _take_out(turn: Turn, group: Group, member_id: str, why: str) -> None:
    consumers = _consumers(group)
    change = Change(group.name, consumers.core, turn.now.wall_ms)
    take_out(change, consumers.core.members[member_id], why)
    write(turn, group, consumers, change)


def see_topics(turn: Turn, group: Group, consumers: Consumers, topics: Mapping[str, Topic | None]) -> None:
    """Subscribed topics as they are now."""
    core = consumers.core
    wanted = dict.fromkeys(core.subscribed())
    change = Change(group.name, core, turn.now.wall_ms)
    change.see({name: topic for name, topic in topics.items() if name in wanted})
    change.settle()
    write(turn, group, consumers, change)


def resume(turn: Turn, group: Group, consumers: Consumers) -> None:
    """The log is read to its end: every member has its full time again."""
    loaded(consumers.core)
    if not consumers.core.epoch:
        group.set_consumers(None)  # all of it is gone but tombstones
        return
    _count_bytes(group, consumers)
    for member in consumers.core.members.values():
        restart_session(turn, group, member.member)
        _follow_revocation(turn, group, None, member)


def describe(group: Group) -> DescribedConsumerGroup:
    """Raises GroupIdNotFound for a group of the classic protocol, as Kafka does."""
    if group.consumers is None:
        raise GroupIdNotFound(f"group {group.name} is not of the consumer protocol")
    return described(group.name, group.consumers.core)


def end(turn: Turn, group: Group, consumers: Consumers) -> None:
    """A client joins by the classic protocol: a group without members becomes one of that. Raises
    InconsistentGroupProtocol if it has members."""
    if consumers.core.members:
        raise InconsistentGroupProtocol(
            f"group {group.name} has {len(consumers.core.members)} members of the consumer protocol"
        )
    change = Change(group.name, consumers.core, turn.now.wall_ms)
    change.end()
    group.set_consumers(None)
    turn.append(group, change.records(), lambda _, __: None)


def _begin(turn: Turn, group: Group, consumers: Consumers) -> None:
    """The group, which has no members, becomes one of the consumer protocol."""
    group.set_consumers(consumers)
    if group.generation:
        group.forget_generations()
        turn.append(group, (GroupRecord(group.name, None),), lambda _, __: None)


def load(group: Group, record: ConsumerRecord) -> None:
    """Replays one record of the log."""
    if record.key.type == EPOCH and record.value is None:
        group.set_consumers(None)
        return
    if group.consumers is None:
        group.set_consumers(Consumers())
    assert group.consumers is not None
    load_record(group.consumers.core, record)


# --- writing -------------------------------------------------------------------------------------


def write(
    turn: Turn, group: Group, consumers: Consumers, change: Change, answers: Waiting | None = None
) -> None:
    """Have a change written. The calls are answered once the log has it and all changes before it."""
    change.again(consumers.unsure)
    consumers.unsure.clear()
    _follow(turn, group, consumers, change)
    held_beats.follow(turn, group, consumers, change)
    answers, records = answers or [], change.records()
    if records:
        keys = tuple(record.key for record in records)
        stored: tuple[StoredRecord, ...] = records
        write_id = turn.append(
            group, stored, lambda settled, error: _settled(turn, group, consumers, keys, settled, error)
        )
        consumers.writes[write_id] = answers
    elif consumers.writes:
        consumers.writes[next(reversed(consumers.writes))] += answers
    else:
        _answer(turn, answers)


def _settled(
    turn: Turn,
    group: Group,
    consumers: Consumers,
    keys: tuple[ConsumerKey, ...],
    write_id: int,
    error: StrandlineError | None,
) -> None:
    answers = consumers.writes.pop(write_id)
    if error is not None:
        # Later changes follow from this one: their calls ask again, too.
        consumers.unsure |= dict.fromkeys(keys)
        refusal = unwritten(f"a change of group {group.name}", error)
        later = [answer for waiting in consumers.writes.values() for answer in waiting]
        for waiting in consumers.writes.values():
            waiting.clear()
        for call, _ in answers + later:
            turn.answer(call, refusal)
        return
    before = [earlier for earlier in consumers.writes if earlier < write_id]
    if before:
        consumers.writes[before[-1]] += answers
    else:
        _answer(turn, answers)


def _answer(turn: Turn, answers: Waiting) -> None:
    answer: Any
    for call, answer in answers:
        turn.answer(call, answer)


def _follow(turn: Turn, group: Group, consumers: Consumers, change: Change) -> None:
    """Timers, events and bytes, as members have changed."""
    core = consumers.core
    for member_id, before in change.before.items():
        member = core.members.get(member_id)
        if member is None:
            for kind in (TimerKind.CONSUMER_SESSION, TimerKind.REVOCATION):
                turn.timers.cancel(Timer(kind, group.name, member_id))
            consumers.principals.pop(member_id, None)
        elif before is not member:
            _follow_revocation(turn, group, before, member)
        if (before is None) != (member is None):
            kind_of_event = EventKind.MEMBER_LEFT if member is None else EventKind.MEMBER_JOINED
            turn.publish(kind_of_event, group.name, core.epoch, member=member_id)
    if change.bumped:
        turn.publish(
            EventKind.REBALANCE_STARTED, group.name, core.epoch, reason=core.reason, caused_by=core.caused_by
        )
    if change.before:
        group.empty_since_ms = turn.now.wall_ms
        _count_bytes(group, consumers)


def _count_bytes(group: Group, consumers: Consumers) -> None:
    group.add_bytes(consumers.core.state_bytes - consumers.bytes)
    consumers.bytes = consumers.core.state_bytes


def _follow_revocation(
    turn: Turn, group: Group, before: ConsumerMember | None, member: ConsumerMember
) -> None:
    """A member has its rebalance timeout from when it is to give partitions up to when it has."""
    timer = Timer(TimerKind.REVOCATION, group.name, member.member)
    if member.state is not UNREVOKED:
        turn.timers.cancel(timer)
    elif before is None or before.state is not UNREVOKED:
        turn.start(timer, member.rebalance_timeout_ms)
