"""Replicas move while records are written: nothing acknowledged is lost, no producer sees an error unless
its leader is killed, and the replicas end where they were asked to be, and nowhere else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from strandline.adapters.zookeeper import znodes
from tests.integration.support.harness import Topic
from tests.integration.support.placements import cancel, moved, reassign, standing
from tests.integration.support.simulated_harness import SimulatedHarness
from tests.integration.support.workload import workload
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

pytestmark = pytest.mark.strandline(brokers=5)
"""Five brokers, so that all replicas of a partition may move."""


@on_virtual_time
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param((1, 2, 3), (1, 4, 5), id="leader-stays"),
        pytest.param((1, 2, 3), (4, 5, 2), id="leader-goes"),
        pytest.param((1, 2, 3), (4, 1, 2), id="another-is-preferred"),
        pytest.param((1, 2, 3), (3, 2, 1), id="another-order"),
        pytest.param((1, 2), (3, 4), id="all-leave"),
        pytest.param((1,), (3, 1, 2), id="more-replicas"),
        pytest.param((1, 2, 3), (5,), id="fewer-replicas"),
    ],
)
async def test_replicas_move_and_no_producer_notices(
    harness: SimulatedHarness, before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    """Kafka's design V3, checkReassignedReplicas, both branches, under load (CORRECTNESS E16, Q6): the
    handover at the end drains first."""
    topic = await harness.create_topic([before])
    async with workload(topic) as load:
        await load.progress()
        await reassign(topic, *after)
        await load.progress()
        await moved(topic)
        assert (await topic.state()).leader == after[0]
        await load.progress()
        history = await load.judge()
    print(f"longest time without an acknowledgement: {load.gap.longest_s * 1000:.0f} ms")
    assert history.failed == []
    assert await harness.session.exists(znodes.reassigned_topic(topic.name)) is None
    await topic.agreed()


@on_virtual_time
async def test_many_partitions_move_at_once(harness: SimulatedHarness) -> None:
    """Each goes at its own pace, and none is in another's way (CORRECTNESS Q6)."""
    topic = await harness.create_topic([(1, 2), (2, 3), (3, 1)])
    async with workload(topic, producers=1) as load:
        await load.progress()
        for partition, replicas in enumerate([(4, 5), (5, 4), (4, 1)]):
            await reassign(topic, *replicas, partition=partition)
        await moved(topic)
        await load.progress()
        history = await load.judge()
    assert history.failed == []


# --- deaths -------------------------------------------------------------------------------------


async def the_leader(harness: SimulatedHarness, topic: Topic) -> None:
    await harness.cluster.kill_broker((await topic.state()).leader)


async def a_new_replica(harness: SimulatedHarness, topic: Topic) -> None:
    await harness.cluster.kill_broker(4)


async def an_old_replica(harness: SimulatedHarness, topic: Topic) -> None:
    await harness.cluster.kill_broker(2)


async def the_controller(harness: SimulatedHarness, topic: Topic) -> None:
    (controller, *_) = harness.cluster.controller_ids
    await harness.cluster.kill_controller(controller)
    await harness.cluster.start_controller(controller)


async def zookeeper(harness: SimulatedHarness, topic: Topic) -> None:
    await harness.cluster.kill_zookeeper()
    await harness.cluster.start_zookeeper()


Harm = Callable[[SimulatedHarness, Topic], Awaitable[None]]


@on_virtual_time
@pytest.mark.parametrize(
    "harm", [the_leader, a_new_replica, an_old_replica, the_controller, zookeeper], ids=lambda h: h.__name__
)
async def test_a_reassignment_survives_the_death_of(harness: SimulatedHarness, harm: Harm) -> None:
    """CORRECTNESS E13, E16, Q2: the next leader continues the reassignment that it finds in ZooKeeper."""
    topic = await harness.create_topic([(1, 2, 3)])
    async with workload(topic) as load:
        await load.progress()
        await reassign(topic, 4, 5, 2)
        await harm(harness, topic)
        await harness.heal()
        await moved(topic)
        await load.progress()
        await load.judge()
    await topic.agreed()


@on_virtual_time
async def test_an_old_replica_that_is_dead_loses_its_replica_when_it_returns(
    harness: SimulatedHarness,
) -> None:
    """CORRECTNESS Q2: it holds nothing up; its request waits for it."""
    topic = await harness.create_topic([(1, 2, 3)])
    await harness.cluster.kill_broker(3)
    await reassign(topic, 1, 2, 4)

    async def over() -> bool:
        return await standing(topic) is None

    await eventually(over, deadline_s=30, what="it is complete without broker 3")
    assert harness.folders(3, f"{topic.name}-0-")
    await harness.cluster.start_broker(3)
    await moved(topic)


# --- another target, or none --------------------------------------------------------------------


@on_virtual_time
async def test_a_new_replica_that_is_dead_is_waited_for_until_it_is_cancelled(
    harness: SimulatedHarness,
) -> None:
    """CORRECTNESS E16: never early; and what it added goes, the dead one's too."""
    topic = await harness.create_topic([(1, 2, 3)])
    await harness.cluster.kill_broker(5)
    async with workload(topic) as load:
        await load.progress()
        await reassign(topic, 1, 4, 5)
        await topic.isr_is(1, 2, 3, 4)
        await load.progress()
        assert await standing(topic) is not None
        await cancel(topic, 1, 2, 3)
        await topic.isr_is(1, 2, 3)
        await harness.heal()
        await moved(topic)
        await load.progress()
        history = await load.judge()
    assert history.failed == []


@on_virtual_time
async def test_another_target_is_gone_to_instead(harness: SimulatedHarness) -> None:
    """Nothing of the first one stays (CORRECTNESS E16)."""
    topic = await harness.create_topic([(1, 2, 3)])
    await harness.cluster.kill_broker(5)
    async with workload(topic) as load:
        await load.progress()
        await reassign(topic, 1, 4, 5)
        await topic.isr_is(1, 2, 3, 4)
        await reassign(topic, 3, 2)
        await harness.heal()
        await moved(topic)
        await load.progress()
        history = await load.judge()
    assert history.failed == []
