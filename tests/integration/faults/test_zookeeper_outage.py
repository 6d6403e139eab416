"""ZooKeeper dies, hangs and comes back: safe operations continue, others are refused, and no leader is
deposed without need (CORRECTNESS E1, E8, E10, E11, E12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from strandline.adapters.codecs.log import PARTITION_COUNTS
from strandline.adapters.rpc.transport import GrpcTransport
from strandline.adapters.system.clock import SystemClock
from strandline.errors import ErrorCode, LeaderNotAvailable
from strandline.ids import LeaderEpoch
from tests.conftest import ClusterFactory
from tests.integration.support.harness import FAULT_SETTINGS, SESSION_TIMEOUT_MS, Harness, Topic
from tests.integration.support.lives import judged
from tests.integration.support.simulated_harness import SimulatedHarness
from tests.integration.support.workload import workload
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

LONG_OUTAGE_S = 3 * SESSION_TIMEOUT_MS / 1000
SPREAD = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]

_CLOCK = SystemClock()


@pytest.fixture(scope="module")
async def shared(make_module_cluster: ClusterFactory) -> AsyncIterator[Harness]:
    """Three brokers with a ZooKeeper of their own."""
    cluster = await make_module_cluster(brokers=3, broker_settings=FAULT_SETTINGS, zookeeper=None)
    async with judged(cluster) as harness:
        yield harness


async def epochs(topic: Topic) -> list[LeaderEpoch]:
    return [(await topic.state(name.partition)).leader_epoch for name in topic.partitions]


@pytest.mark.slow
@pytest.mark.timeout(150)
async def test_in_a_long_zookeeper_outage_safe_writes_continue_and_unsafe_ones_are_refused(
    harness: Harness,
) -> None:
    """For several session timeouts. acks=all needs no ZooKeeper while the ISR is whole. acks=1 is refused
    from the moment that the session may have expired, and accepted again afterwards. No leader changes,
    and no record fails (CORRECTNESS E1, E11)."""
    topic = await harness.create_topic(SPREAD)
    before = await epochs(topic)
    probe = await harness.create_topic([(1, 2, 3)])
    stream = harness.brokers.produce(1, probe.partitions[0])
    numbers = iter(range(1_000_000))

    async def alone() -> int:
        return (await stream.one(b"%d" % next(numbers), acks=1)).error.code

    async with workload(topic) as load:
        await load.progress()
        assert await alone() == ErrorCode.NONE
        await harness.cluster.kill_zookeeper()
        began = _CLOCK.monotonic()

        async def refused() -> bool:
            return await alone() == ErrorCode.NOT_LEADER_OR_FOLLOWER

        await eventually(refused, deadline_s=SESSION_TIMEOUT_MS / 1000, what="acks=1 is refused")
        while _CLOCK.monotonic() - began < LONG_OUTAGE_S:
            await load.progress()
            assert await refused()
        await harness.cluster.start_zookeeper()

        async def taken() -> bool:
            return await alone() == ErrorCode.NONE

        await eventually(taken, deadline_s=20, what="acks=1 is taken again")
        await load.progress()
        history = await load.judge()
    stream.close()
    assert history.failed == []
    assert await epochs(topic) == before


@pytest.mark.timeout(120)
async def test_an_election_waits_for_zookeeper(harness: Harness) -> None:
    """A leader dies while elections are impossible: its partitions are refused, the others continue as far
    as their ISR is whole, and all is well when ZooKeeper is back (CORRECTNESS E8, E12)."""
    topic = await harness.create_topic([(1, 2, 3)])
    async with workload(topic) as load:
        await load.progress()
        before = await topic.state()
        await harness.cluster.kill_zookeeper()
        await harness.cluster.kill_broker(before.leader)
        others = [broker for broker in (1, 2, 3) if broker != before.leader]
        asked = [harness.brokers.produce(broker, topic.partitions[0]) for broker in others]
        for stream in asked:
            result = await stream.one(b"nobody may take this", acks=-1)
            assert result.error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            stream.close()
        await harness.cluster.start_zookeeper()
        assert (await topic.led_above(before.leader_epoch)).leader in others
        await harness.cluster.start_broker(before.leader)
        await load.progress()
        await load.judge()


@pytest.mark.slow
@pytest.mark.timeout(120)
@on_virtual_time
async def test_a_zookeeper_that_hangs_costs_sessions_and_no_record(simulated: SimulatedHarness) -> None:
    """It answers nothing and closes nothing for longer than every session's timeout. Brokers may have to
    begin anew with other lives; nothing that was acknowledged is lost (CORRECTNESS E1, E10, E11)."""
    topic = await simulated.create_topic(SPREAD)
    async with workload(topic) as load:
        await load.progress()
        await simulated.cluster.kill_zookeeper()
        clock = simulated.cluster.host.clock
        began = clock.monotonic()
        while clock.monotonic() - began < 2 * SESSION_TIMEOUT_MS / 1000:
            await load.progress()
        await simulated.cluster.start_zookeeper()
        await topic.isr_is(1, 2, 3)
        await load.progress()
        await load.judge()


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_short_outages_are_not_noticed_by_clients(harness: Harness) -> None:
    """Shorter than a session: ZooKeeper bounces three times under load, and no record fails (E11)."""
    topic = await harness.create_topic(SPREAD)
    async with workload(topic) as load:
        for _ in range(3):
            await load.progress()
            await harness.cluster.kill_zookeeper()
            await harness.cluster.start_zookeeper()
        await load.progress()
        history = await load.judge()
    assert history.failed == []


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_broker_that_starts_without_zookeeper_logs_it_and_waits(harness: Harness) -> None:
    """It is not killed by what will pass, and it serves once ZooKeeper does."""
    topic = await harness.create_topic([(3, 1, 2)])
    await harness.cluster.kill_broker(3)
    await harness.cluster.kill_zookeeper()
    printed = len(harness.log_text(3))
    await harness.cluster.start_broker(3, wait_s=None)
    await eventually(
        lambda: "waiting for ZooKeeper" in harness.log_text(3)[printed:],
        deadline_s=20,
        what="broker 3 says that it waits",
    )
    assert harness.running(3)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(harness.cluster.start_zookeeper())
        tasks.create_task(harness.cluster.wait_serving())
    await topic.agreed()


@pytest.mark.slow
async def test_the_number_of_partitions_of_a_topic_is_still_known(harness: Harness) -> None:
    """A group continues to rebalance without ZooKeeper; an unknown topic is refused with a retriable error
    (E8)."""
    topic = await harness.create_topic(SPREAD)
    address, transport = harness.cluster.address(1), GrpcTransport()
    try:
        known = await transport.call(address, PARTITION_COUNTS, [topic.name, "nowhere"], timeout_s=10)
        assert known == {topic.name: 3}
        everything = await transport.call(address, PARTITION_COUNTS, [], timeout_s=10)
        assert everything[topic.name] == 3
        await harness.cluster.kill_zookeeper()
        assert await transport.call(address, PARTITION_COUNTS, [topic.name], timeout_s=10) == known
        with pytest.raises(LeaderNotAvailable):
            await transport.call(address, PARTITION_COUNTS, ["unasked"], timeout_s=10)
    finally:
        await transport.close()


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_brokers_and_controllers_that_are_stopped_without_zookeeper_end_cleanly(
    harness: Harness,
) -> None:
    """CORRECTNESS E2: a handover that ZooKeeper cannot record takes at most `handover_ms`. The logs are
    closed as after any clean shutdown, so the tail of none is in doubt if the machine reboots then."""
    topic = await harness.create_topic(SPREAD)
    async with workload(topic) as load:
        await load.progress()
        await load.judge()
    leader = (await topic.state()).leader
    await harness.cluster.kill_broker(leader)
    await harness.cluster.start_broker(leader, handover_ms=1_000)
    await topic.settled()
    await harness.cluster.kill_zookeeper()
    members = harness.cluster._members
    stopped = [members.broker(leader).process, members.controller(1).process]
    await harness.cluster.stop_broker(leader)
    await harness.cluster.stop_controller(1)
    assert [each.exit_status for each in stopped if each] == [0, 0], "it was killed at last"
    assert (harness.cluster.data_dir(leader) / "clean_shutdown").exists()
    await harness.cluster.start_zookeeper()
    await harness.cluster.start_broker(leader)
    await topic.agreed()
