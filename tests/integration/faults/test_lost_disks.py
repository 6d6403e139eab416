"""Brokers that come back with an empty disk: nothing that was acknowledged is lost, and they refill."""

from __future__ import annotations

import shutil

import pytest

from strandline import Producer
from strandline.config.limits import KIB, MIB
from strandline.ids import BrokerId
from strandline.vocabulary.metadata import IsrMember
from tests.integration.support.harness import FAULT_SETTINGS, Harness, Topic
from tests.integration.support.simulated_harness import SimulatedHarness
from tests.integration.support.workload import workload
from tests.strandline.cli.support.cli_process import strandline
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

SPREAD = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
RATE = 1 * MIB
NEAR = 256 * KIB
FILLED = 6 * MIB
RECORD = b"x" * 8 * KIB
BATCH_MAX = 512 * KIB
SLACK_S = 0.5
"""Between what a leader sends and what the test sees on a disk."""

REFILL = {**FAULT_SETTINGS, "refill_bytes_per_s": RATE, "reassignment_near_bytes": NEAR}


async def filled(topic: Topic) -> None:
    cluster = topic.harness.cluster
    async with Producer(cluster.bootstrap, host=cluster.host, compression="none") as producer:
        futures = [await producer.send(topic.name, RECORD, partition=0) for _ in range(FILLED // len(RECORD))]
        for future in futures:
            await future


def on_disk(topic: Topic, broker: int) -> int:
    """Bytes of records of partition 0 that this broker has by now."""
    files = topic.harness.files(broker)
    return sum(
        size
        for folder in topic.harness.folders(broker, f"{topic.name}-0-")
        for name, size in files.sizes(folder).items()
        if name.endswith(".log")
    )


@pytest.mark.strandline(broker_settings=REFILL)
@pytest.mark.timeout(120)
@on_virtual_time
async def test_a_leader_with_an_empty_disk_does_not_lead_until_it_has_everything_again(
    simulated: SimulatedHarness,
) -> None:
    """CORRECTNESS E18: it was the preferred leader and in sync. Another leads at once, under load, and it
    refills no faster than its leader may send (I10)."""
    topic, traffic = await simulated.create_topic([(1, 2, 3)]), await simulated.create_topic([(1, 2, 3)])
    await filled(topic)
    cluster = simulated.cluster
    async with workload(traffic) as load:
        await load.progress()
        epoch, life = (await topic.state()).leader_epoch, (await simulated.live())[BrokerId(1)].epoch
        await cluster.kill_broker(1)
        cluster.lose_disk(1)
        await cluster.start_broker(1, wait_s=None)
        began = cluster.host.clock.monotonic()

        async def refilled() -> bool:
            state, live = await topic.state(), await simulated.live()
            now = live[BrokerId(1)].epoch if 1 in live else life
            present = now != life and IsrMember(BrokerId(1), now) in state.isr
            bound = RATE * (cluster.host.clock.monotonic() - began + SLACK_S) + BATCH_MAX + NEAR
            assert on_disk(topic, 1) <= bound
            assert present or state.leader != 1 or state.leader_epoch == epoch, "it leads with an empty disk"
            return present

        await eventually(refilled, deadline_s=60, what="broker 1 is in sync")
        took_s = cluster.host.clock.monotonic() - began
        assert took_s >= (FILLED - NEAR - BATCH_MAX) / RATE - SLACK_S
        await load.progress()
        await load.judge()
    await topic.agreed()


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
