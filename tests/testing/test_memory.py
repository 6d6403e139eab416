"""A cluster on real time: where it may be used, and what a forgotten host leads to."""

from __future__ import annotations

import asyncio

import pytest

from strandline import Producer
from strandline.errors import BrokerNotAvailable
from strandline.host import Host
from strandline.testing import MemberFailed, MemoryCluster, NotPossible


async def test_it_is_refused_in_another_event_loop_and_within_an_application() -> None:
    async with MemoryCluster(brokers=1) as cluster:

        def elsewhere() -> None:
            asyncio.run(cluster.run_until(lambda: True))

        with pytest.raises(NotPossible, match="possible only in the event loop of `async with`, but another"):
            await asyncio.to_thread(elsewhere)

        async def main(host: Host) -> None:
            cluster.producer()

        with pytest.raises(NotPossible, match="makes its clients with the host that it was given"):
            await cluster.finished(cluster.application("billing", main))
        with pytest.raises(NotPossible, match="this MemoryCluster runs already"):
            await cluster.__aenter__()
    with pytest.raises(NotPossible, match="this MemoryCluster does not run"):
        cluster.leader("topic")


async def test_a_client_without_the_clusters_host_reaches_nothing() -> None:
    async with MemoryCluster(brokers=1) as cluster:
        await cluster.create_topic("topic")
        with pytest.raises(BrokerNotAvailable, match=r"machine-1\.invalid:9092 is unreachable"):
            async with Producer(cluster.bootstrap, request_timeout_ms=200) as producer:
                _ = await producer.send_and_wait("topic", b"x")


async def test_a_broker_that_cannot_start_is_reported_at_once() -> None:
    with pytest.raises(MemberFailed, match="broker 1 could not start: setting crash_points"):
        async with MemoryCluster(brokers=1, broker_settings={"crash_points": "produce.append:often"}):
            pytest.fail("it does not start")


async def test_nothing_of_it_runs_after_its_end() -> None:
    before = asyncio.all_tasks()
    async with MemoryCluster() as cluster:
        await cluster.create_topic("topic")
    assert asyncio.all_tasks() == before
