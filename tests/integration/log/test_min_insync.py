"""The ISR shrinks to min.insync.replicas and below it, and grows again (CORRECTNESS H5, H10, I11)."""

from __future__ import annotations

import pytest

from strandline.errors import ErrorCode
from tests.integration.support.harness import Harness
from tests.integration.support.simulated_harness import SimulatedHarness
from tests.integration.support.workload import workload
from tests.virtual_time import on_virtual_time


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_below_min_insync_the_watermark_is_frozen_and_acks_all_refused(harness: Harness) -> None:
    """Members die one by one. Down to the bound acks=all is accepted; below it, it is refused at once and
    appends nothing, and acks=1 appends stay above a HW that does not move, until a member is back
    (CORRECTNESS H5, H10)."""
    topic = await harness.create_topic([(1, 2, 3)], {"min.insync.replicas": "2"})
    stream = harness.brokers.produce(1, topic.partitions[0])
    numbers = iter(range(100))

    async def produce(acks: int) -> int:
        result = await stream.one(b"%d" % next(numbers), acks=acks)
        return result.error.code

    assert await produce(-1) == 0
    await harness.cluster.kill_broker(3)
    assert await produce(-1) == 0
    await topic.isr_is(1, 2)
    await harness.cluster.kill_broker(2)
    await topic.isr_is(1)
    watermark, log_end = await topic.end()
    assert watermark == log_end
    assert await produce(-1) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert await topic.end() == (watermark, log_end)
    assert await produce(1) == 0
    assert await topic.end() == (watermark, log_end + 1)
    reader = harness.brokers.fetch(1, topic.partitions[0])
    fetched = await reader.fetch(watermark)
    assert fetched is None or not fetched.records
    reader.close()
    await harness.cluster.start_broker(2)
    await topic.isr_is(1, 2)
    assert await produce(-1) == 0
    assert await topic.end() == (log_end + 2, log_end + 2)
    stream.close()
    await harness.cluster.start_broker(3)
    await topic.agreed()


@pytest.mark.slow
@on_virtual_time
async def test_a_client_waits_out_an_isr_that_is_too_small(simulated: SimulatedHarness) -> None:
    """NOT_ENOUGH_REPLICAS is retriable: with time enough no record fails, and none is lost (H5)."""
    topic = await simulated.create_topic([(1, 2, 3), (2, 3, 1)])
    async with workload(topic) as load:
        await load.progress()
        for broker in (2, 3):
            await simulated.cluster.kill_broker(broker)
        await topic.isr_is(1)
        for broker in (2, 3):
            await simulated.cluster.start_broker(broker)
        await load.progress()
        history = await load.judge()
    assert history.failed == []
