"""Brokers die by kill -9 and by SIGTERM under load, and nothing that was acknowledged is lost or moved."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from strandline.adapters.system.clock import SystemClock
from tests.integration.support.harness import Harness
from tests.integration.support.simulated_harness import SimulatedHarness
from tests.integration.support.workload import workload
from tests.virtual_time import on_virtual_time

KILL_ROUNDS = 4
SPREAD: Sequence[Sequence[int]] = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
"""Three partitions; each broker is the preferred leader of one."""


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_nothing_is_lost_in_rounds_of_kill_9(harness: Harness) -> None:
    """Random victims, one or two of three at a time, come back at once, after a while, or after the next
    round: every acknowledged record is read once, at its offset, in its producer's order; the replicas'
    files are byte-equal below the HW; no reader saw the HW go back (CORRECTNESS T1, T3, T4, T5, H1, H2,
    I1, I6, E2, E4)."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    cluster = harness.cluster
    topic = await harness.create_topic(SPREAD)
    async with workload(topic) as load:
        await load.progress()
        for number in range(KILL_ROUNDS):
            victims = chance.sample(cluster.broker_ids, chance.choice((1, 1, 1, 2)))
            prompt = chance.random() < 0.4
            print(f"round {number}: kill -9 of {victims}, {'bounced' if prompt else 'left dead a while'}")
            for victim in victims:
                await cluster.kill_broker(victim)
            if not prompt and len(victims) == 1:
                await load.progress(5)  # two of three are enough to acknowledge
            for victim in victims:
                await cluster.start_broker(victim)
            await load.progress(5)
            if chance.random() < 0.6:
                await topic.isr_is(1, 2, 3)
        history = await load.judge()
    print(f"{len(history.acknowledged)} acknowledged, {len(history.failed)} failed")
    assert len(history.acknowledged) > KILL_ROUNDS * 10


@pytest.mark.slow
@on_virtual_time
async def test_a_rolling_restart_costs_no_client_an_error(simulated: SimulatedHarness) -> None:
    """SIGTERM hands every leadership over first: no record fails, and none is lost."""
    cluster = simulated.cluster
    topic = await simulated.create_topic(SPREAD)
    async with workload(topic) as load:
        await load.progress()
        for broker in cluster.broker_ids:
            await cluster.stop_broker(broker)
            await load.progress(5)
            await cluster.start_broker(broker)
            await topic.isr_is(1, 2, 3)
        history = await load.judge()
    print(f"longest time without an acknowledgement: {load.gap.longest_s * 1000:.0f} ms")
    assert history.failed == []


@pytest.mark.timeout(120)
async def test_all_brokers_killed_at_once_lose_nothing(harness: Harness) -> None:
    """Written data survives the processes: the page cache is the kernel's. Members of the ISR that come
    back with it whole may lead again (CORRECTNESS E2, H7, T4)."""
    cluster = harness.cluster
    topic = await harness.create_topic(SPREAD)
    clock = SystemClock()
    async with workload(topic) as load:
        for _ in range(2):
            await load.progress()
            began = clock.monotonic()
            for broker in cluster.broker_ids:
                await cluster.kill_broker(broker)
            for broker in cluster.broker_ids:
                await cluster.start_broker(broker, wait_s=None)
            await cluster.wait_serving()
            await load.progress()
            print(f"serving again after {clock.monotonic() - began:.1f} s")
        await load.judge()


@pytest.mark.slow
@on_virtual_time
async def test_a_cluster_stopped_cleanly_has_everything_when_it_starts_again(
    simulated: SimulatedHarness,
) -> None:
    """A clean stop leaves logs that need no recovery, and lives that count (CORRECTNESS E2, H7)."""
    cluster = simulated.cluster
    topic = await simulated.create_topic(SPREAD)
    async with workload(topic) as load:
        await load.progress()
        for broker in cluster.broker_ids:
            await cluster.stop_broker(broker)
        for broker in cluster.broker_ids:
            await cluster.start_broker(broker, wait_s=None)
        await cluster.wait_serving()
        await load.progress()
        await load.judge()
