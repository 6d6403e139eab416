"""Brokers that come back with an empty disk: nothing that was acknowledged is lost, and they refill."""

from __future__ import annotations

import shutil

import pytest

from strandline import Admin
from strandline.ids import BrokerId, TopicPartition
from strandline.vocabulary.log import DescribedReplicas, known
from strandline.vocabulary.metadata import IsrMember
from tests.integration.support.copies import NEAR, RATE, TAKEN_S_MIN, bytes_max, fill, on_disk
from tests.integration.support.harness import FAULT_SETTINGS, Harness, Topic
from tests.integration.support.simulated_harness import SimulatedHarness
from tests.integration.support.workload import workload
from tests.strandline.cli.support.cli_process import strandline
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

SPREAD = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
REFILL = {**FAULT_SETTINGS, "refill_bytes_per_s": RATE, "reassignment_near_bytes": NEAR}


@pytest.mark.strandline(broker_settings=REFILL)
@pytest.mark.timeout(120)
@on_virtual_time
async def test_a_leader_with_an_empty_disk_does_not_lead_until_it_has_everything_again(
    simulated: SimulatedHarness,
) -> None:
    """CORRECTNESS E18: it was the preferred leader and in sync. Another leads at once, under load, and it
    refills no faster than its leader may send (I10)."""
    topic, traffic = await simulated.create_topic([(1, 2, 3)]), await simulated.create_topic([(1, 2, 3)])
    await fill(topic)
    cluster = simulated.cluster
    async with workload(traffic) as load:
        await load.progress()
        epoch, life = (await topic.state()).leader_epoch, (await simulated.live())[BrokerId(1)].epoch
        await cluster.kill_broker(1)
        cluster.lose_disk(1)
        await cluster.start_broker(1, wait_s=None)
        began = cluster.host.clock.monotonic()
        times_left: list[int] = []

        async def refilled() -> bool:
            if (ms_left := await _ms_left(simulated, topic)) is not None:
                times_left.append(ms_left)
            state, live = await topic.state(), await simulated.live()
            now = live[BrokerId(1)].epoch if 1 in live else life
            present = now != life and IsrMember(BrokerId(1), now) in state.isr
            assert on_disk(topic, 1) <= bytes_max(cluster.host.clock.monotonic() - began)
            assert present or state.leader != 1 or state.leader_epoch == epoch, "it leads with an empty disk"
            return present

        await eventually(refilled, deadline_s=60, what="broker 1 is in sync")
        assert cluster.host.clock.monotonic() - began >= TAKEN_S_MIN
        # None is left once it has everything, also while its return to the ISR is being written.
        assert 0 <= min(times_left) < max(times_left) < 10_000, "six MiB at one MiB a second"
        await load.progress()
        await load.judge()
    await topic.agreed()


async def _ms_left(simulated: SimulatedHarness, topic: Topic) -> int | None:
    """The time until broker 1 has everything again, as the leader of partition 0 says."""
    cluster, name = simulated.cluster, TopicPartition(topic.name, 0)
    async with Admin(cluster.bootstrap, host=cluster.host) as admin:
        found = (await admin.describe_replicas([name]))[name]
    if not isinstance(found, DescribedReplicas):
        return None
    return next((known(each.ms_left) for each in found.replicas if each.broker == 1), None)


@pytest.mark.slow
@pytest.mark.timeout(300)
@on_virtual_time
async def test_all_disks_are_replaced_one_after_the_other_on_virtual_time(
    simulated: SimulatedHarness,
) -> None:
    """Twice, so that each broker is at its second empty disk what the others refilled from."""
    topic = await simulated.create_topic(SPREAD)
    async with workload(topic) as load:
        for broker in (1, 2, 3, 1, 2, 3):
            await load.progress()
            await simulated.cluster.kill_broker(broker)
            simulated.cluster.lose_disk(broker)
            await load.progress()
            await simulated.cluster.start_broker(broker)
            for number in range(len(SPREAD)):
                await topic.isr_is(1, 2, 3, partition=number, deadline_s=60)
        history = await load.judge()
    assert not history.failed
    await topic.agreed()


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_all_disks_are_replaced_one_after_the_other(own: Harness) -> None:
    """With real processes, as docs/run/brokers.md has it. Every acknowledged record is there afterwards, on
    three disks that did not have it before."""
    topic = await own.create_topic(SPREAD)
    async with workload(topic) as load:
        for broker in own.cluster.broker_ids:
            await load.progress(deadline_s=60)
            await own.cluster.kill_broker(broker)
            shutil.rmtree(own.cluster.data_dir(broker))
            await load.progress(deadline_s=60)
            await own.cluster.start_broker(broker)
            ready = await strandline(
                *("broker", "ready", str(broker), "--wait", "120", "--bootstrap", own.cluster.bootstrap)
            )
            assert ready.status == 0, ready.err
        history = await load.judge()
    assert not history.failed
    await topic.agreed(deadline_s=60)
