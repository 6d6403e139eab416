"""Handovers of leadership against a ZooKeeper in memory: their writes, their targets, and their failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes, queue_znodes
from strandline.adapters.zookeeper.layout.queue_znodes import ElectionNotice
from strandline.broker.core.replication.produce_ticket import Produced
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.broker.election.handover import DRAIN_S_MAX
from strandline.broker.election.resignations import RESIGNATIONS_PER_MULTI_MAX
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.local_replica import LocalReplica
from strandline.broker.state_changes.notices import NoticeReceiver
from strandline.errors import NotLeaderOrFollower
from strandline.ids import (
    NO_BROKER,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
)
from strandline.ports import Check, Delete, Operation, SessionEnded, SetData
from strandline.vocabulary.metadata import Drain
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.election.handover_bench import FIRST, THIRD, HandoverBench, handover_bench
from tests.broker.support.replicas import ASSIGNED, CLOCK, LIVE, NAME, batch
from tests.broker.support.seat import ME, led_by
from tests.waiting import eventually


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[HandoverBench]:
    async with handover_bench(tmp_path) as bench:
        yield bench


# --- all of them --------------------------------------------------------------------------------------


async def test_a_thousand_leaderships_are_given_up_in_few_writes(bench: HandoverBench) -> None:
    """A shutdown of a broker that leads a lot: a notice names many partitions, a multi writes many."""
    led = [bench.lead(number) for number in range(1, 201)]
    await bench.handover.leave_all()
    assert all(leadership.ended() for leadership in led)
    assert {bench.leader(leadership.replica.key.partition) for leadership in led} == {NO_BROKER}
    assert bench.named(FIRST) == set(range(1, 201))
    assert len(bench.multis) <= 4 * 200 / RESIGNATIONS_PER_MULTI_MAX
    assert sum(len(notices) for notices in bench.notices(FIRST)) == 200


async def test_a_partition_with_another_leader_does_not_block_the_others(bench: HandoverBench) -> None:
    """CORRECTNESS E7: its compare-and-set fails, and with it the multi of all; then each is written
    separately."""
    led = [bench.lead(number) for number in range(1, 6)]
    disturbed = znodes.isr(NAME.topic, 3)
    tree = bench.seat.tree
    calls = 0

    def depose(_: Sequence[Operation]) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:  # between the read and the write
            tree.apply(SetData(disturbed, isr_znodes.dump_isr(led_by(3, 1, 3, epoch=9))), owner=0)

    tree.meanwhile = depose
    await bench.handover.leave_all()
    assert [bench.leader(n) for n in range(1, 6)] == [NO_BROKER, NO_BROKER, THIRD, NO_BROKER, NO_BROKER]
    assert bench.named(FIRST) == {1, 2, 4, 5}
    assert all(leadership.ended() for leadership in led)


async def test_a_broker_that_just_began_to_shut_down_is_not_named(bench: HandoverBench) -> None:
    """CORRECTNESS I7: what was read is checked in the same multi."""
    bench.lead(1)
    calls = 0

    def leave(_: Sequence[Operation]) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            bench.register(replace(LIVE[FIRST], shutting_down=True), version=1)

    bench.seat.tree.meanwhile = leave
    await bench.handover.leave_all()
    assert (bench.named(FIRST), bench.named(THIRD)) == (set(), {1})


async def test_a_broker_that_is_drained_is_named_only_if_there_is_no_other(bench: HandoverBench) -> None:
    """A drain is a wish, and a partition without a leader is worse."""
    bench.drain(FIRST, Drain(LIVE[FIRST].epoch, replicas=False))
    bench.lead(1)
    bench.seat.write(led_by(ME, 1, 2, epoch=5))
    await bench.handover.leave_all()
    assert bench.named(THIRD) == {1}


async def test_a_drain_stands_in_every_life_of_its_broker(bench: HandoverBench) -> None:
    """A session that ends takes no drain with it."""
    bench.drain(FIRST, Drain(BrokerEpoch(LIVE[FIRST].epoch - 1), replicas=False))
    bench.lead(1)
    await bench.handover.leave_all()
    assert bench.named(THIRD) == {1}


async def test_a_handover_that_cannot_drain_ends_at_its_limit_and_blocks_no_other(
    bench: HandoverBench,
) -> None:
    """CORRECTNESS H6: what it accepted has an unknown outcome; the others are gone long before."""
    stuck, free = bench.lead(1), bench.lead(2)
    bench.produce(stuck)
    async with asyncio.TaskGroup() as tasks:
        leaving = tasks.create_task(bench.handover.leave_all())
        await eventually(free.ended)
        assert not stuck.ended()
        await leaving
    assert stuck.ended()
    assert [type(outcome).__name__ for outcome in bench.outcomes] == ["OutcomeUnknown"]
    assert bench.named(FIRST) == {1, 2}


# --- one of them --------------------------------------------------------------------------------------


async def given(bench: HandoverBench, leadership: Leadership, to: BrokerId = FIRST) -> bool:
    return await bench.handover.yield_to(leadership, to, "preferred leader")


async def test_a_leadership_that_is_yielded_is_drained_first_and_says_why(bench: HandoverBench) -> None:
    """Kafka's design V3, checkLoadBalancing, with a drain before it: no request is left without an answer."""
    leadership = bench.lead(1)
    bench.produce(leadership)
    async with asyncio.TaskGroup() as tasks:
        yielding = tasks.create_task(given(bench, leadership))
        await eventually(lambda: leadership.draining)
        with pytest.raises(NotLeaderOrFollower):
            bench.produce(leadership)
        assert bench.leader(1) == ME
        bench.fetched(leadership, FIRST, THIRD)
        assert await yielding
    assert bench.outcomes == [Produced(0, 0)]
    assert (bench.leader(1), bench.named(FIRST)) == (NO_BROKER, {1})
    (notice,) = bench.notices(FIRST)[0]
    assert (notice.leader_epoch, notice.reason, notice.give_to) == (5, "preferred leader", NO_BROKER)
    assert [event.reason for event in bench.seat.recorder.events] == ["preferred leader"]
    node = bench.seat.tree.nodes[znodes.isr(NAME.topic, 1)]
    assert isr_znodes.load_isr(NAME.topic, 1, node.data).isr_ids == (1, 2, 3)  # it follows from now on


async def test_a_partition_not_drained_in_time_keeps_its_leader_and_loses_nothing(
    bench: HandoverBench,
) -> None:
    """A follower is slow: producers wait for a moment, and then this leader continues."""
    leadership = bench.lead(1)
    bench.produce(leadership)
    began = CLOCK.monotonic()
    assert not await given(bench, leadership)
    assert CLOCK.monotonic() - began >= DRAIN_S_MAX
    bench.produce(leadership)
    bench.fetched(leadership, FIRST, THIRD)
    assert bench.outcomes == [Produced(0, 0), Produced(1, 0)]
    assert (bench.leader(1), bench.multis) == (ME, [])
    assert await given(bench, leadership)


@pytest.mark.parametrize("why", ["shutting down", "another life", "gone", "not in sync"])
async def test_leadership_is_not_given_to_a_broker_that_now_reports_it_cannot_lead(
    bench: HandoverBench, why: str
) -> None:
    """CORRECTNESS I6, I7: this broker's own picture of the living may be seconds old."""
    leadership = bench.lead(1)
    match why:
        case "shutting down":
            bench.register(replace(LIVE[FIRST], shutting_down=True), version=1)
        case "another life":
            bench.register(replace(LIVE[FIRST], epoch=BrokerEpoch(99)))
        case "gone":
            del bench.seat.tree.nodes[znodes.broker(FIRST)]
        case _:
            bench.seat.tree.apply(
                SetData(znodes.isr(NAME.topic, 1), isr_znodes.dump_isr(led_by(ME, 2, 3, epoch=5))), owner=0
            )
    assert not await given(bench, leadership)
    assert (bench.leader(1), bench.named(FIRST), leadership.draining) == (ME, set(), False)
    bench.produce(leadership)


@pytest.mark.parametrize("applied", [True, False])
async def test_nothing_is_accepted_until_the_outcome_of_the_write_is_known(
    bench: HandoverBench, applied: bool
) -> None:
    """CORRECTNESS E1: with acks=1 a former leader would acknowledge it."""
    leadership = bench.lead(1)
    bench.seat.coordination.lose(applied=applied)
    async with asyncio.TaskGroup() as tasks:
        yielding = tasks.create_task(given(bench, leadership))
        await eventually(lambda: bench.multis)
        while not leadership.ended():
            with pytest.raises(NotLeaderOrFollower):
                leadership.produce(batch("v"), acks=1, timeout_ms=1, done=bench.outcomes.append)
            await asyncio.sleep(0)
        assert await yielding
    assert (bench.leader(1), bench.named(FIRST)) == (NO_BROKER, {1})
    assert len(bench.multis) == (1 if applied else 2)


async def test_a_handover_that_fails_too_often_is_given_up(bench: HandoverBench) -> None:
    """CONTRIBUTING 7: an optional handover that loses too often ends, and writes nothing."""
    leadership = bench.lead(1)

    def meddle(operations: Sequence[Operation]) -> None:
        changed = next(o for o in operations if isinstance(o, SetData)).path
        bench.seat.tree.apply(SetData(changed, bench.seat.tree.nodes[changed].data), owner=0)

    bench.seat.tree.meanwhile = meddle
    assert not await given(bench, leadership)
    assert (bench.leader(1), leadership.draining, leadership.ended()) == (ME, False, False)


async def test_a_broker_that_handed_over_is_the_last_to_take_leadership_back(bench: HandoverBench) -> None:
    """The first of AR is asked to give way to another: without this it would be back at once, for it comes
    first in the order of succession."""
    seat = bench.seat
    replica = bench.replica(bench.lead(1))
    order = (ME, FIRST, THIRD)
    seat.tree.apply(SetData(znodes.replicas(NAME.topic, 1), znodes.dump_replicas(order)), owner=0)
    first_of_all = PartitionAssignment(order, version=1)
    seat.manager.reconfigure(replica, first_of_all, TopicConfig())
    assert replica.leadership is not None
    assert await given(bench, replica.leadership)
    noticed = CLOCK.monotonic()
    seat.elector.vacant(replica)
    await eventually(lambda: replica.leadership is not None)
    ranks_s = len(ASSIGNED) * seat.manager.settings.election_step_ms / 1000
    assert CLOCK.monotonic() - noticed >= ranks_s


async def test_a_shutdown_takes_over_ongoing_handovers(bench: HandoverBench) -> None:
    """After a yield that failed, the leader accepts no request again if the broker is shutting down."""
    leadership = bench.lead(1)
    bench.produce(leadership)
    async with asyncio.TaskGroup() as tasks:
        yielding = tasks.create_task(given(bench, leadership, THIRD))
        await eventually(lambda: leadership.draining)
        leaving = tasks.create_task(bench.handover.leave_all())
        await leaving
        assert not await yielding or bench.named(THIRD) == {1}
    assert leadership.ended()
    assert bench.leader(1) == NO_BROKER


async def test_a_session_that_ends_ends_every_handover_with_it(bench: HandoverBench) -> None:
    """CORRECTNESS E13: a handover that waits for the write of another one ends like that one."""
    led = [bench.lead(number) for number in range(1, 31)]
    notified: list[Leadership] = []
    reached, go_on = bench.seat.coordination.hold()
    async with asyncio.TaskGroup() as tasks:

        async def ended(leadership: Leadership) -> None:
            try:
                await given(bench, leadership)
            except* SessionEnded:
                notified.append(leadership)

        for leadership in led:
            tasks.create_task(ended(leadership))
        await reached.wait()
        bench.seat.coordination.expire()
        go_on.set()
    assert len(notified) == len(led)


# --- requested handovers ------------------------------------------------------------------------------


def of(replica: LocalReplica, *, give_to: int = NO_BROKER, epoch: int = 5) -> ElectionNotice:
    return ElectionNotice(
        NAME.topic, replica.key, LeaderEpoch(epoch), BrokerId(give_to), "asked for" if give_to >= 0 else ""
    )


async def test_a_notice_has_leadership_given_and_delays_no_other(bench: HandoverBench) -> None:
    """One partition does not drain; another is given away, and a third taken over, all from one znode."""
    seat, session = bench.seat, bench.seat.coordination
    stuck, free = bench.lead(1), bench.lead(2)
    vacant: list[LocalReplica] = []
    receiver = NoticeReceiver(seat.context, lambda r, _: vacant.append(r), bench.balancing.asked)
    bench.produce(stuck)
    asked = [of(stuck.replica, give_to=1), of(free.replica, give_to=3), of(seat.replica)]
    await receiver.open()
    await session.create(znodes.election_notice_prefix(ME), queue_znodes.dump_notices(asked), sequential=True)
    running = [seat.tasks.create_task(task) for task in (receiver.run(), bench.balancing.run())]
    await eventually(free.ended)
    assert (bench.named(THIRD), vacant, stuck.ended()) == ({2}, [seat.replica], False)
    await eventually(lambda: not stuck.draining)
    assert bench.notices(ME) == []
    for task in running:
        task.cancel()


@pytest.mark.parametrize(
    "late", [{"epoch": 4, "give_to": 1}, {"epoch": 6, "give_to": 1}, {"give_to": 2}, {"give_to": 7}]
)
async def test_a_notice_that_does_not_fit_changes_nothing(bench: HandoverBench, late: dict[str, int]) -> None:
    """CORRECTNESS E6: a notice for another epoch, for the broker itself, or for an unknown broker."""
    leadership = bench.lead(1)
    running = bench.seat.tasks.create_task(bench.balancing.run())
    bench.balancing.asked(of(leadership.replica, **late))
    other = bench.lead(2)
    bench.balancing.asked(of(other.replica, give_to=3))
    await eventually(other.ended)
    assert (leadership.draining, leadership.ended(), bench.leader(1)) == (False, False, ME)
    running.cancel()


async def test_a_request_that_ends_while_another_is_tried_leaves_it_alone(bench: HandoverBench) -> None:
    """CORRECTNESS E6: it has taken the place of the earlier one, which then has none to give up."""
    leadership, other = bench.lead(1), bench.lead(2)
    running = bench.seat.tasks.create_task(bench.balancing.run())
    reached, go_on = bench.seat.coordination.hold()
    bench.balancing.asked(of(leadership.replica, give_to=3))
    await reached.wait()
    bench.balancing.asked(of(leadership.replica, give_to=1))  # impossible: the leadership is being given away
    bench.balancing.asked(of(other.replica, give_to=3))
    await eventually(lambda: other.draining)
    go_on.set()
    await eventually(lambda: leadership.ended() and other.ended())
    for replica in (leadership.replica, other.replica):
        replica.learn_leader(THIRD, LeaderEpoch(6))
    last = bench.lead(3)
    bench.balancing.asked(of(last.replica, give_to=3))
    await eventually(last.ended)
    assert bench.named(THIRD) == {1, 2, 3}
    running.cancel()


async def test_preferred_replicas_get_the_leaderships_they_may_have(bench: HandoverBench) -> None:
    """Kafka's design V3, checkLoadBalancing, over all that this broker leads; a drained one is left in
    peace."""
    led = [bench.lead(number) for number in range(1, 61)]
    await bench.balancing.check()
    assert not any(leadership.draining or leadership.ended() for leadership in led)  # not in sync for long
    bench.drain(FIRST, Drain(LIVE[FIRST].epoch, replicas=True))
    for leadership in led:
        leadership.in_sync_since = dict.fromkeys(leadership.in_sync_since, CLOCK.monotonic() - 60)
    await bench.balancing.check()
    assert not any(leadership.ended() for leadership in led)
    bench.seat.tree.apply(Delete(znodes.drain(FIRST)), owner=0)
    checking = bench.seat.tasks.create_task(bench.balancing.check())
    taken: set[int] = set()
    while not checking.done():  # broker 1 takes over, as the notice asks
        for number in bench.named(FIRST) - taken:
            taken.add(number)
            replica = bench.replica(led[number - 1])
            bench.seat.manager.follow(replica, FIRST, LeaderEpoch(6))
        assert sum(leadership.ended() for leadership in led) - len(taken) <= 20
        await asyncio.sleep(0)
    assert bench.named(FIRST) == set(range(1, 61))
    assert any(isinstance(operation, Check) for operation in bench.multis[0])


@pytest.mark.parametrize("how", ["suspected", "silent"])
async def test_the_preferred_replica_gets_nothing_while_it_does_not_answer(
    bench: HandoverBench, how: str
) -> None:
    """CORRECTNESS E1: this broker could not follow it, and would take the leadership back. They handed it to
    each other thirteen times in 45 s."""
    leadership = bench.lead(1)
    leadership.in_sync_since = dict.fromkeys(leadership.in_sync_since, CLOCK.monotonic() - 60)
    if how == "suspected":
        bench.seat.manager.peers.refused(LIVE[FIRST].epoch)
    else:
        bench.seat.silent.add(FIRST)
    await bench.balancing.check()
    assert (bench.multis, leadership.ended(), leadership.draining) == ([], False, False)


async def test_a_suspect_is_named_only_if_there_is_no_other(bench: HandoverBench) -> None:
    """CORRECTNESS E1: what shuts down goes to a successor that this broker still hears of."""
    leadership = bench.lead(1)
    bench.seat.manager.peers.refused(LIVE[FIRST].epoch)
    await bench.handover.leave_all()
    assert leadership.ended()
    assert (bench.named(FIRST), bench.named(THIRD)) == (set(), {1})
