"""The ISR shrinks to min.insync.replicas and below it, and grows again (CORRECTNESS H5, H10)."""

from __future__ import annotations

import pytest

from tests.integration.support.simulated_harness import SimulatedHarness
from tests.integration.support.workload import workload
from tests.virtual_time import on_virtual_time


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
