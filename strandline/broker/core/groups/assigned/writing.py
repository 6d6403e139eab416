"""Has changes of groups of the consumer protocol written, and answers what waits for them."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from strandline.broker.core.consumer_groups.change import Change
from strandline.broker.core.consumer_groups.member import ConsumerMember, MemberState
from strandline.broker.core.consumer_groups.records import ConsumerKey
from strandline.broker.core.coordinators.unwritten import unwritten
from strandline.broker.core.groups.assigned import held_beats, migration, news
from strandline.broker.core.groups.assigned.sessions import cancel
from strandline.broker.core.groups.state.consumers import Consumers, Waiting
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.turn import Turn
from strandline.broker.core.groups.stored import StoredRecord
from strandline.broker.core.groups.timers import Timer, TimerKind
from strandline.errors import StrandlineError

UNREVOKED: Final = MemberState.UNREVOKED_PARTITIONS


def write(
    turn: Turn, group: Group, consumers: Consumers, change: Change, answers: Waiting | None = None
) -> None:
    """Have a change written. The calls are answered once the log has it and all changes before it. If it
    leaves members of the classic protocol alone, the group becomes a classic one in the same write."""
    downgrades = migration.is_left_to_classic(turn, consumers.core)
    if not downgrades:
        change.again(consumers.unsure)
        consumers.unsure.clear()
    _follow(turn, group, consumers, change)
    held_beats.follow(turn, group, consumers, change)
    records: tuple[StoredRecord, ...] = change.records()
    keys = tuple(record.key for record in change.records())
    if downgrades:
        records, keys = migration.downgrade(turn, group, consumers, change), ()
    settled = partial(_settled, turn, group, consumers, keys)
    if records:
        consumers.writes[turn.append(group, records, settled)] = answers or []
    elif consumers.writes:
        consumers.writes[next(reversed(consumers.writes))] += answers or []
    else:
        _answer(turn, answers or [])
    if downgrades:
        migration.begin_rebalance(turn, group, consumers)


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
            cancel(turn, group, member_id)
            consumers.principals.pop(member_id, None)
        elif before is not member:
            follow_revocation(turn, group, before, member)
    news.publish(turn, group, consumers, change)
    if change.before:
        group.empty_since_ms = turn.now.wall_ms
        count_bytes(group, consumers)


def count_bytes(group: Group, consumers: Consumers) -> None:
    group.add_bytes(consumers.core.state_bytes - consumers.bytes)
    consumers.bytes = consumers.core.state_bytes


def follow_revocation(
    turn: Turn, group: Group, before: ConsumerMember | None, member: ConsumerMember
) -> None:
    """A member has its rebalance timeout from when it is to give partitions up to when it has. One of the
    classic protocol has it for each of its requests instead (`sessions`)."""
    timer = Timer(TimerKind.REVOCATION, group.name, member.member)
    if member.state is not UNREVOKED or member.classic is not None:
        turn.timers.cancel(timer)
    elif before is None or before.state is not UNREVOKED:
        turn.start(timer, member.rebalance_timeout_ms)
