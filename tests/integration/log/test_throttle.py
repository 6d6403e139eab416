"""A replica that a reassignment adds is copied at the requested rate; no other replica waits for it."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from strandline import Admin, Producer
from strandline.adapters.zookeeper import znodes
from strandline.config.limits import KIB, MIB
from strandline.ids import TopicPartition
from tests.integration.support.copies import COPIED, NEAR, RATE, TAKEN_S_MIN, bytes_max, fill, on_disk
from tests.integration.support.harness import FAULT_SETTINGS, Topic
from tests.integration.support.simulated_harness import SimulatedHarness
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

pytestmark = pytest.mark.strandline(broker_settings={**FAULT_SETTINGS, "reassignment_near_bytes": NEAR})
"""Three brokers that call a replica near the end a little sooner than by default."""


@pytest.mark.slow
@on_virtual_time
async def test_a_new_replica_is_copied_at_the_pace_that_was_asked_for(simulated: SimulatedHarness) -> None:
    """CORRECTNESS I10: what it has on its disk never runs ahead of the rate; near the end it is let go, and
    joins while records are written; members of the ISR acknowledge all the while."""
    topic = await simulated.create_topic([(1, 2)])
    await fill(topic)
    cluster = simulated.cluster
    monotonic = cluster.host.clock.monotonic
    seen: list[tuple[float, int]] = []
    acked: list[float] = []

    async def done() -> bool:
        seen.append((monotonic(), on_disk(topic, 3)))
        return 3 in await topic.state()

    async with (
        Admin(cluster.bootstrap, host=cluster.host) as admin,
        Producer(cluster.bootstrap, host=cluster.host) as producer,
    ):
        stop = asyncio.Event()

        async def write() -> None:
            while not stop.is_set():
                await producer.send_and_wait(topic.name, b"v", partition=0)
                acked.append(monotonic())

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(write())
            await eventually(lambda: acked)
            began = monotonic()
            name = TopicPartition(topic.name, 0)
            await admin.reassign({name: [1, 2, 3]}, throttle_bytes_per_s=RATE)
            await eventually(done, deadline_s=60, what="broker 3 is in sync")
            joined = monotonic()
            stop.set()
        gaps = [after - before for before, after in pairwise(acked)]
        await eventually(lambda: _over(simulated, topic), what="the reassignment is over")
    for moment, size in seen:
        bound = bytes_max(moment - began)
        assert size <= bound, f"{size} bytes after {moment - began:.2f} s, at most {bound:.0f} were expected"
    assert joined - began >= TAKEN_S_MIN
    print(f"{COPIED / (joined - began) / MIB:.2f} MiB/s; longest gap meanwhile {max(gaps) * 1000:.0f} ms")
    assert len(acked) >= 100 * (joined - began) / 10, "acknowledgements waited for the copy"
    await Topic(simulated, topic.name, [(1, 2, 3)]).agreed()


async def _over(simulated: SimulatedHarness, topic: Topic) -> bool:
    return await simulated.session.exists(znodes.reassigned(topic.name, 0)) is None


@on_virtual_time
async def test_a_member_that_fell_behind_comes_back_as_fast_as_it_can(simulated: SimulatedHarness) -> None:
    """CORRECTNESS I10: the bound is for what a reassignment adds; an original replica that was away while it
    stands is not in its way."""
    topic = await simulated.create_topic([(1, 2)])
    await simulated.cluster.kill_broker(2)
    await topic.isr_is(1)
    await fill(topic)
    async with Admin(simulated.cluster.bootstrap, host=simulated.cluster.host) as admin:
        await admin.reassign({TopicPartition(topic.name, 0): [1, 2, 3]}, throttle_bytes_per_s=KIB)
        await simulated.cluster.start_broker(2)
        await topic.isr_is(1, 2)
        assert on_disk(topic, 3) < COPIED / 2
        await admin.cancel_reassignment([TopicPartition(topic.name, 0)])
    await eventually(lambda: _over(simulated, topic), deadline_s=30, what="it is taken back")
    assert set((await topic.state()).isr_ids) == {1, 2}
