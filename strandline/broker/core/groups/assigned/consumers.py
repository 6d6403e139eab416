"""Members whose coordinator assigns (KIP-848): hands their heartbeats to the core of these groups, starts
timers, and holds each answer back until the log has all that it follows from."""

from __future__ import annotations

from collections.abc import Mapping

from strandline.broker.core.consumer_groups.beats import Arrived, beat
from strandline.broker.core.consumer_groups.change import Change
from strandline.broker.core.consumer_groups.checks import check_beat
from strandline.broker.core.consumer_groups.departures import leave, take_out
from strandline.broker.core.consumer_groups.describing import described
from strandline.broker.core.consumer_groups.loading import load as load_record
from strandline.broker.core.consumer_groups.loading import loaded
from strandline.broker.core.consumer_groups.member import MEMBER_BYTES
from strandline.broker.core.consumer_groups.records import EPOCH, ConsumerRecord
from strandline.broker.core.consumer_groups.topics import Topic
from strandline.broker.core.coordinators.effects import Call
from strandline.broker.core.groups.assigned import held_beats, migration, news
from strandline.broker.core.groups.assigned.kinds import end_classic
from strandline.broker.core.groups.assigned.sessions import restart_session, session_ms
from strandline.broker.core.groups.assigned.writing import count_bytes, follow_revocation, write
from strandline.broker.core.groups.records import GroupKey
from strandline.broker.core.groups.requests import ConsumerBeats
from strandline.broker.core.groups.state.consumers import Consumers, Waiting
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.owners import owner_after
from strandline.broker.core.groups.state.turn import Turn
from strandline.errors import GroupIdNotFound
from strandline.vocabulary.groups import JOINS, ConsumerBeat, DescribedConsumerGroup


def heartbeat(turn: Turn, group: Group, call: Call[ConsumerBeat], asked: ConsumerBeats) -> None:
    """A group of the classic protocol becomes one of this one when a member joins. Raises the refusals of
    `check_beat`, `beat` and `leave`, and of conversions."""
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
    answers: Waiting = []
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
        if group.members:
            migration.upgrade(group, change, asked.topics, request.member)
        answer = beat(change, arrived)
        if group.members:
            migration.check_size(group, change)
        if group.consumers is None:
            answers = migration.begin(turn, group, consumers, change)
        consumers.principals[request.member] = owner
        restart_session(turn, group, request.member)
    says_nothing = answer.assignment is None and answer.epoch == request.epoch >= JOINS
    if request.max_wait_ms > 0 and says_nothing and not change.records():
        held_beats.hold(turn, group, consumers, call, request)
    else:
        write(turn, group, consumers, change, [*answers, (call, answer)])


# --- what happens without a member ---------------------------------------------------------------


def session_due(turn: Turn, group: Group, member_id: str) -> None:
    """Removes a member that was silent for its session timeout."""
    timeout_ms = session_ms(turn, group, _consumers(group).core.members[member_id])
    _take_out(turn, group, member_id, f"was silent for {timeout_ms} ms")


def heartbeat_due(turn: Turn, group: Group, member_id: str) -> None:
    """A held heartbeat is to be answered."""
    held_beats.due(turn, group, _consumers(group), member_id)


def revocation_due(turn: Turn, group: Group, member_id: str) -> None:
    """Removes a member that did not give its partitions up in time: others wait for them."""
    member = _consumers(group).core.members[member_id]
    why = f"did not give {len(member.revoking)} partitions up within {member.rebalance_timeout_ms} ms"
    _take_out(turn, group, member_id, why)


def join_due(turn: Turn, group: Group, member_id: str) -> None:
    """Removes a member of the classic protocol that did not join again in time."""
    timeout_ms = _consumers(group).core.members[member_id].rebalance_timeout_ms
    _take_out(turn, group, member_id, f"did not join again within {timeout_ms} ms")


def sync_due(turn: Turn, group: Group, member_id: str) -> None:
    """Removes a member of the classic protocol that did not ask for its assignment in time."""
    timeout_ms = _consumers(group).core.members[member_id].rebalance_timeout_ms
    _take_out(turn, group, member_id, f"did not sync within {timeout_ms} ms")


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
    news.resume(consumers)
    count_bytes(group, consumers)
    for member in consumers.core.members.values():
        restart_session(turn, group, member.member)
        follow_revocation(turn, group, None, member)


def describe(group: Group) -> DescribedConsumerGroup:
    """Raises GroupIdNotFound for a group of the classic protocol, as Kafka does."""
    if group.consumers is None:
        raise GroupIdNotFound(f"group {group.name} is not of the consumer protocol")
    return described(group.name, group.consumers.core)


def end(turn: Turn, group: Group, consumers: Consumers) -> None:
    """A client joins by the classic protocol: a group without members becomes one of that."""
    change = Change(group.name, consumers.core, turn.now.wall_ms)
    for key in (*change.keys(), *consumers.unsure):
        group.leftover[key] = turn.last_write
    group.set_consumers(None)


def choose_kind(turn: Turn, group: Group) -> None:
    """The log is read to its end. If it has records of both kinds of groups, those of the group's last one
    count, and the others are ended with the group's next write.

    While a log is compacted, a reader may have passed the place of a tombstone before it was there, and miss
    it where it was (KAFKA-20254, KAFKA-21117). So nothing is concluded from the order of records of different
    kinds but this.
    """
    consumers = group.consumers
    if consumers is None or (consumers.core.epoch and not group.generation):
        return
    if not consumers.core.epoch:
        group.set_consumers(None)  # all of it is gone but tombstones
    elif consumers.latest:
        group.leftover[GroupKey(group.name)] = turn.last_write
        end_classic(group)
    else:
        end(turn, group, consumers)


def load(group: Group, record: ConsumerRecord) -> None:
    """Replays one record of the log."""
    if record.key.type == EPOCH and record.value is None:
        group.set_consumers(None)
        return
    if group.consumers is None:
        group.set_consumers(Consumers())
    assert group.consumers is not None
    group.consumers.latest |= record.key.type == EPOCH
    load_record(group.consumers.core, record)
