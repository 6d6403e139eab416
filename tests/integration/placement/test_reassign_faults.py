"""Replicas move while brokers and controllers with a part in it die, at named steps and at any moment: the
partitions end where they were requested and nowhere else, and no acknowledged record is lost, doubled or
reordered."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from strandline import Admin
from strandline.adapters.zookeeper import znodes
from strandline.errors import NoReassignmentInProgress, OutcomeUnknown
from strandline.ports import ConnectionLost
from tests.integration.support.controllers import active_controller, armed_controller
from tests.integration.support.ensemble import EnsembleCluster
from tests.integration.support.harness import FAULT_SETTINGS, Topic
from tests.integration.support.lives import judged
from tests.integration.support.placements import expect, led_by, moved, reassign, standing
from tests.integration.support.simulated_harness import SimulatedHarness
from tests.integration.support.workload import workload
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.strandline(brokers=5, controllers=2, controller_settings={"reconcile_ms": 1_000}),
]
"""Five brokers, so that all replicas of a partition may move, and a controller to take over."""

SPREAD = [(1, 2, 3), (2, 3, 4), (3, 4, 5), (4, 1, 2)]
FACTORS = (4, 2)
"""How many replicas each partition of a topic has after each round: they are as many in all of them."""


@asynccontextmanager
async def topic_of(harness: SimulatedHarness, assignment: Sequence[tuple[int, ...]]) -> AsyncIterator[Topic]:
    """Deleted at the end: what dies in the next test has no part in this one's."""
    topic = await harness.create_topic(assignment)
    yield topic
    async with Admin(harness.cluster.bootstrap, host=harness.cluster.host) as admin:
        await admin.delete_topics([topic.name])


async def reassign_all(topic: Topic, targets: Sequence[tuple[int, ...]]) -> None:
    """All partitions at once. A controller that dies may take the answer along; the test then expects that
    it was done."""
    wanted = dict(zip(topic.partitions, targets, strict=True))
    for number, replicas in enumerate(targets):
        expect(topic, *replicas, partition=number)
    async with Admin(topic.harness.cluster.bootstrap, host=topic.harness.cluster.host) as admin:
        try:
            await admin.reassign(wanted)
        except OutcomeUnknown:
            await admin.reassign(wanted)


async def is_over(topic: Topic) -> bool:
    try:
        return await topic.harness.session.exists(znodes.reassigned_topic(topic.name)) is None
    except ConnectionLost:
        return False


# --- at any moment ------------------------------------------------------------------------------


@on_virtual_time
@pytest.mark.parametrize("seed", [11])
async def test_partitions_move_again_and_again_while_members_die_at_random(
    harness: SimulatedHarness, seed: int
) -> None:
    """Two to four replicas before and after, in any order, so leaders stay or go; in each round two members
    die at any moment of it (CORRECTNESS E13, E16, Q2)."""
    draw = random.Random(seed)
    brokers = list(harness.cluster.broker_ids)
    async with topic_of(harness, SPREAD) as topic, workload(topic, producers=1) as load:
        await load.progress()
        for factor in FACTORS:
            targets = [tuple(draw.sample(brokers, factor)) for _ in topic.partitions]
            leader = (await topic.state(draw.randrange(len(SPREAD)))).leader
            victims = draw.sample(
                list[int | str]([leader, draw.choice(brokers), "controller", "zookeeper"]), 2
            )
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(reassign_all(topic, targets))
                for victim in victims:
                    await any_moment(topic, draw)
                    await die(harness, victim)
                    await harness.heal()
            await moved(topic)
            await load.progress()
        await load.judge()
        await eventually(lambda: is_over(topic), what="no trace of a reassignment")


async def any_moment(topic: Topic, draw: random.Random) -> None:
    """Measured in looks at ZooKeeper, which are its own work and not a time."""
    for _ in range(draw.randrange(400)):
        if await is_over(topic):
            break


async def die(harness: SimulatedHarness, victim: int | str) -> None:
    """Killed with kill -9."""
    cluster = harness.cluster
    match victim:
        case "zookeeper":
            await cluster.kill_zookeeper()
        case "controller":
            await cluster.kill_controller(await active_controller(cluster))
        case int(broker) if harness.running(broker):
            await cluster.kill_broker(broker)


# --- the controller -----------------------------------------------------------------------------


@on_virtual_time
@pytest.mark.parametrize("point", ["controller.reassign.before", "controller.reassign.written"])
async def test_the_controller_dies_before_it_has_answered(harness: SimulatedHarness, point: str) -> None:
    """The caller does not know the outcome, asks the next controller, and gets one reassignment
    (CORRECTNESS E7, E16)."""
    async with topic_of(harness, [(1, 2, 3), (2, 3, 1)]) as topic, workload(topic) as load:
        await load.progress()
        async with armed_controller(harness, point):
            await reassign_all(topic, [(4, 5), (2, 1)])
        await moved(topic)
        await load.progress()
        history = await load.judge()
    assert history.failed == []


# --- named steps --------------------------------------------------------------------------------

STEPS = [
    "reassign.before_close",
    "reassign.after_close",
    "reassign.before_complete",
    "reassign.after_complete",
]


@on_virtual_time
@pytest.mark.parametrize("point", STEPS)
async def test_a_reassignment_is_cancelled_when_its_leader_has_died_at(
    harness: SimulatedHarness, point: str
) -> None:
    """Either everything that was done is undone, or it was complete: never half of each (CORRECTNESS E16)."""
    before, after = (1, 2, 3), (3, 4, 5)
    async with topic_of(harness, [before]) as topic, workload(topic) as load:
        await load.progress()
        await armed(harness, 1, point)
        await topic.isr_is(*before)
        async with Admin(harness.cluster.bootstrap, host=harness.cluster.host) as admin:
            await admin.elect_preferred(topic.partitions)
            await led_by(topic, 1)
            await reassign(topic, *after)
            await died(harness, 1, point)
            with suppress(NoReassignmentInProgress):
                await admin.cancel_reassignment(topic.partitions)
                expect(topic, *before)
        if point == "reassign.after_complete":
            assert topic.assignment == [after]
        await harness.heal()
        await moved(topic)
        await load.progress()
        await load.judge()


@on_virtual_time
@pytest.mark.parametrize(
    ("broker", "point"),
    [
        pytest.param(4, "state_change.before_execute", id="a-new-one-before-it-starts"),
        pytest.param(2, "state_change.after_execute:2", id="an-old-one-that-has-closed"),
        pytest.param(2, "state_change.after_execute:3", id="an-old-one-that-has-deleted"),
    ],
)
async def test_a_replica_dies_while_it_does_its_part(
    harness: SimulatedHarness, broker: int, point: str
) -> None:
    """It executes its requests when it lives again, and each ends once (CORRECTNESS Q2, Q6). An old
    replica gets three requests: to read again, to close, to delete."""
    async with topic_of(harness, [(1, 2, 3)]) as topic, workload(topic) as load:
        await load.progress()
        await armed(harness, broker, point)
        await topic.isr_is(1, 2, 3)
        await reassign(topic, 1, 3, 4)
        await died(harness, broker, point)
        await load.progress()
        await harness.heal()
        await moved(topic)
        await load.progress()
        await load.judge()


@on_virtual_time
async def test_dead_brokers_delay_nothing_and_lose_their_data_when_they_return(
    harness: SimulatedHarness,
) -> None:
    """Two of three old replicas are dead all the while; the one that is left moves the partition away
    (CORRECTNESS Q2, E16)."""
    async with topic_of(harness, [(1, 2, 3)]) as topic:
        for dead in (2, 3):
            await harness.cluster.kill_broker(dead)
        await topic.isr_is(1)
        await reassign(topic, 4, 5)

        async def over() -> bool:
            return await standing(topic) is None

        await eventually(over, deadline_s=30, what="it is complete without them")
        async with workload(topic) as load:
            await load.progress()
            left = [f for dead in (2, 3) for f in harness.folders(dead, f"{topic.name}-")]
            assert len(left) == 2
            await harness.heal()
            await moved(topic)
            await load.judge()


async def armed(harness: SimulatedHarness, broker: int, point: str) -> None:
    """Have the broker die at the point the next time that it comes there. It leads nothing then, and nothing
    waits for it: it was bounced before, unarmed."""
    for points in ("", point):
        await harness.cluster.kill_broker(broker)
        await harness.cluster.start_broker(broker, crash_points=points)
        await nothing_waits_for(harness, broker)


async def nothing_waits_for(harness: SimulatedHarness, broker: int) -> None:
    async def empty() -> bool:
        return await harness.session.children(znodes.state_queue(broker)) == []

    await eventually(empty, deadline_s=30, what=f"nothing waits for broker {broker}")


async def died(harness: SimulatedHarness, broker: int, point: str) -> None:
    await eventually(
        lambda: not harness.running(broker), deadline_s=30, what=f"broker {broker} dies at {point}"
    )


# --- three ZooKeeper servers --------------------------------------------------------------------


@pytest.mark.timeout(180)
async def test_the_leader_of_three_zookeepers_dies_while_replicas_move(tmp_path: Path) -> None:
    """Sessions continue at the other two: no leader is deposed for good, nothing is lost, and the replicas
    end where they were requested (CORRECTNESS E8, E9, E16)."""
    cluster = EnsembleCluster(4, directory=tmp_path / "cluster", broker_settings=FAULT_SETTINGS)
    async with cluster, judged(cluster) as harness:
        topic = await harness.create_topic([(1, 2, 3), (2, 3, 1)])
        async with workload(topic) as load:
            await load.progress()
            for targets in ([(4, 1), (3, 4)], [(2, 3, 4), (1, 2, 4)]):
                await reassign_all(topic, targets)
                await (await cluster.ensemble.leader()).kill()
                await moved(topic)
                await load.progress()
                await cluster.start_zookeeper()
            await load.judge()
