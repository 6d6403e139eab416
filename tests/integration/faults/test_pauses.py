"""Brokers that hang (SIGSTOP) and wake again: as slow as a machine that swaps, and as convinced of their
leadership as before (CORRECTNESS E1, H2, H6)."""

from __future__ import annotations

import pytest

from strandline.adapters.codecs.log import PRODUCE
from strandline.errors import ErrorCode, StrandlineError
from strandline.records import decode, encode_values
from strandline.vocabulary.log import ProduceEntry
from tests.integration.support.harness import KEEP_IN_SYNC_MS, Harness
from tests.integration.support.raw import Ended
from tests.integration.support.simulated_harness import SimulatedHarness
from tests.integration.support.workload import workload
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

REPLACED_S = 1.0
"""`leader_silence_ms`, with the beats and ticks that it is counted by, and an election."""


@on_virtual_time
async def test_a_paused_follower_leaves_the_isr_and_returns_when_it_wakes(
    simulated: SimulatedHarness,
) -> None:
    """It answers nothing, so producers wait for less than KeepInSyncTime, and no record fails
    (CORRECTNESS E19, I1, H10)."""
    topic = await simulated.create_topic([(1, 2, 3)])
    async with workload(topic) as load:
        await load.progress()
        load.gap.longest_s = 0.0
        simulated.cluster.pause_broker(3)
        await topic.isr_is(1, 2)
        await load.progress()
        stall_s = load.gap.longest_s
        simulated.cluster.resume_broker(3)
        await topic.isr_is(1, 2, 3)
        await load.progress()
        history = await load.judge()
    print(f"longest time without an acknowledgement: {stall_s * 1000:.0f} ms")
    assert history.failed == []
    assert KEEP_IN_SYNC_MS / 2000 < stall_s < KEEP_IN_SYNC_MS / 1000


@on_virtual_time
async def test_a_leader_that_hangs_is_replaced_within_its_session(simulated: SimulatedHarness) -> None:
    """Both followers agree that it is silent. Woken, it follows in the same life (CORRECTNESS E19, E1)."""
    topic = await simulated.create_topic([(1, 2, 3)])
    async with workload(topic) as load:
        await load.progress()
        for _ in range(2):
            before = await topic.state()
            life = await simulated.broker_epoch(before.leader)
            load.gap.longest_s = 0.0
            simulated.cluster.pause_broker(before.leader)
            after = await topic.led_above(before.leader_epoch)
            await load.progress()
            print(f"longest time without an acknowledgement: {load.gap.longest_s * 1000:.0f} ms")
            assert load.gap.longest_s < REPLACED_S
            simulated.cluster.resume_broker(before.leader)
            await topic.isr_is(1, 2, 3)
            assert await simulated.broker_epoch(before.leader) == life
            assert (await topic.state()).leader == after.leader
        history = await load.judge()
    assert history.failed == []


@on_virtual_time
async def test_a_leader_that_its_followers_do_not_hear_is_replaced_and_acknowledges_nothing(
    simulated: SimulatedHarness,
) -> None:
    """It reaches ZooKeeper and its clients, so its session lives and its lease stands. It does not take its
    followers from the ISR, which lets one of them be elected; then nothing that it says can be a success
    (CORRECTNESS E19, E1, H2, H5)."""
    topic = await simulated.create_topic([(1, 2, 3)])
    before, life = await topic.state(), await simulated.broker_epoch(1)
    transport = simulated.cluster.host.transport(None)
    address = simulated.cluster.bootstrap.split(",")[0]
    stream = await transport.open(address, PRODUCE, timeout_s=1.0)

    async def error_of(value: bytes, acks: int) -> StrandlineError | None:
        await stream.write([ProduceEntry(topic.partitions[0], encode_values([value], 0), acks, 3_000)])
        (result,) = await stream.read()
        return result.error

    assert await error_of(b"before", -1) is None
    simulated.cluster.cut_off_broker(1)
    after = await topic.led_above(before.leader_epoch)
    assert (after.leader, 1 in after.isr_ids) == (2, False)
    assert await simulated.broker_epoch(1) == life
    for acks in (1, -1):
        assert await error_of(b"late", acks) is not None
    stream.close()
    await transport.close()
    await simulated.cluster.start_zookeeper()
    await topic.isr_is(1, 2, 3)
    await topic.agreed()
    assert await simulated.broker_epoch(1) == life


@pytest.mark.timeout(120)
async def test_a_woken_leader_acknowledges_nothing_that_its_successor_lacks(harness: Harness) -> None:
    """Requests wait in the socket of a leader that hangs until another one leads. Woken, it may refuse them
    or not know what became of them, and says success of nothing that is not in the new leader's log; then
    it follows (CORRECTNESS E1, E19, H2, H6, T1)."""
    topic = await harness.create_topic([(1, 2, 3)])
    name = topic.partitions[0]
    before = await topic.state()
    assert before.leader == 1
    stream = harness.brokers.produce(1, name)
    assert (await stream.one(b"before", acks=-1)).error.code == 0
    harness.cluster.pause_broker(1)
    buffered: dict[int, tuple[int, bytes]] = {}
    for number, acks in enumerate((-1, 1, 0, -1, 1, 0), start=1):
        value = b"late %d" % number
        buffered[await stream.write(value, acks=acks)] = (acks, value)
    after = await topic.led_above(before.leader_epoch)
    assert after.leader == 2
    successor = harness.brokers.produce(2, name)
    assert (await successor.one(b"after", acks=-1)).error.code == 0
    harness.cluster.resume_broker(1)
    claimed: dict[bytes, int] = {}
    for correlation_id, (acks, value) in buffered.items():
        if acks == 0:
            continue  # is never answered
        try:
            result = await stream.result(correlation_id)
        except Ended:
            break  # the stream may break instead: nothing is said then
        if result.error.code == ErrorCode.NONE:
            claimed[value] = result.base_offset
    await topic.isr_is(1, 2, 3)
    await topic.agreed()
    reader = harness.brokers.fetch((await topic.state()).leader, name)
    fetched = await reader.fetch(0)
    assert fetched is not None
    stored = {record.value: record.offset for record in decode(fetched.records)}
    assert {value: stored.get(value) for value in claimed} == claimed
    assert stored.keys() >= {b"before", b"after"}
    for opened in (stream, successor, reader):
        opened.close()


@pytest.mark.slow
@pytest.mark.timeout(120)
@on_virtual_time
async def test_leaders_paused_under_load_lose_nothing(simulated: SimulatedHarness) -> None:
    """Each broker in turn hangs until its session has expired and its partitions have other leaders; the
    load continues, and all of it is judged (CORRECTNESS E1, H2, T1, T5)."""
    topic = await simulated.create_topic([(1, 2, 3), (2, 3, 1), (3, 1, 2)])
    async with workload(topic) as load:
        await load.progress()
        for broker in (1, 2, 3):
            epoch = await simulated.broker_epoch(broker)
            simulated.cluster.pause_broker(broker)

            async def gone(broker: int = broker) -> bool:
                return await simulated.broker_epoch(broker) == -1

            await eventually(gone, what=f"the session of broker {broker} expires")
            await load.progress()
            simulated.cluster.resume_broker(broker)

            async def back(broker: int = broker, epoch: int = epoch) -> bool:
                return await simulated.broker_epoch(broker) > epoch

            await eventually(back, deadline_s=20, what=f"broker {broker} has another life")
            await topic.isr_is(1, 2, 3)
        await load.judge()
