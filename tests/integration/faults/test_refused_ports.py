"""A port refuses connections for a moment, as something between two brokers may, and its process is well."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.conftest import ClusterFactory
from tests.integration.support.harness import FAULT_SETTINGS, Harness, watching
from tests.integration.support.workload import workload
from tests.proxy import Proxy
from tests.waiting import eventually

pytestmark = pytest.mark.slow

SPREAD = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
PREFERRED_CHECK_MS = 500
SETTINGS: Mapping[str, Any] = {**FAULT_SETTINGS, "preferred_leader_check_ms": PREFERRED_CHECK_MS}


@pytest.fixture
async def behind_proxies(make_cluster: ClusterFactory) -> AsyncIterator[tuple[Harness, dict[int, Proxy]]]:
    """Three brokers; the third one is reached by a proxy."""
    async with AsyncExitStack() as stack:
        cluster = await make_cluster(brokers=3, broker_settings=SETTINGS)
        port = int(cluster.address(3).rpartition(":")[2])
        proxy = await stack.enter_async_context(Proxy(port))
        await cluster.kill_broker(3)
        await cluster.start_broker(3, advertised_port=proxy.port)
        yield await stack.enter_async_context(watching(cluster)), {3: proxy}


@pytest.mark.timeout(120)
async def test_a_port_that_refuses_for_a_moment_costs_one_leadership_and_comes_back(
    behind_proxies: tuple[Harness, dict[int, Proxy]],
) -> None:
    """CORRECTNESS H10, E1: the broker behind it lost what it led, rightly or not. It stayed out of the ISR of
    leaders that it never stopped following, and leadership went back and forth, until it was restarted."""
    harness, proxies = behind_proxies
    topic = await harness.create_topic(SPREAD)
    async with workload(topic) as load:
        await load.progress()
        before = await topic.led_above(-1, 2)
        await proxies[3].refuse()
        taken = await topic.led_above(before.leader_epoch, 2)
        assert taken.leader in (1, 2)
        await proxies[3].listen()
        for number in range(len(SPREAD)):
            await topic.isr_is(1, 2, 3, partition=number, deadline_s=20)

        async def preferred() -> bool:
            return (await topic.state(2)).leader == 3

        await eventually(preferred, deadline_s=20, what="its leadership is given back")
        epochs = [(await topic.state(number)).leader_epoch for number in range(len(SPREAD))]
        for _ in range(3):
            await load.progress(200)
        assert [(await topic.state(number)).leader_epoch for number in range(len(SPREAD))] == epochs
        history = await load.judge()
    assert history.failed == []
