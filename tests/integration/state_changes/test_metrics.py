"""Metrics and health of a whole cluster of processes, through what goes wrong with it
(docs/run/metrics.md)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.integration.support.harness import Harness, present
from tests.scraping import Scrape, scrape, scraped
from tests.waiting import eventually

pytestmark = pytest.mark.slow

REPLICAS = "kafka_server_replicamanager_"
CONTROLLER = "kafka_controller_kafkacontroller_"
ELECTIONS = "kafka_controller_controllerstats_leaderelectionrateandtimems_count"
UNCLEAN = "kafka_controller_controllerstats_uncleanleaderelections_total"
EXPIRED = "kafka_server_sessionexpirelistener_zookeeperexpires_total"

ROUND_S_MAX = 40.0
"""The controller looks at the cluster every five seconds, or more rarely."""

WATCHES_MAX = 4
BROKER_SERVICES = ("", "strandline.v1.Log", "strandline.v1.Replication", "strandline.v1.Groups")
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def port_of(harness: Harness, broker: int) -> int:
    port = harness.cluster.metrics_port(broker)
    assert port is not None
    return port


async def broker_says(harness: Harness, broker: int, what: Callable[[Scrape], bool]) -> Scrape:
    return await scraped(port_of(harness, broker), what, deadline_s=30)


async def controller_says(harness: Harness, what: Callable[[Scrape], bool]) -> Scrape:
    port = harness.cluster.controller_metrics_port(1)
    assert port is not None
    return await scraped(port, what, deadline_s=ROUND_S_MAX)


@pytest.mark.timeout(180)
async def test_a_death_shows_in_the_metrics_of_brokers_and_controller_until_it_is_repaired(
    harness: Harness,
) -> None:
    """Under-replicated and offline partitions, ISR shrinks and expands, elections at the winners, and the
    queue of the dead broker with the age of its oldest request."""
    topic = await harness.create_topic([(1, 2, 3), (2, 3, 1), (3, 1, 2)])
    victim = (await topic.state()).leader
    others = tuple(sorted({1, 2, 3} - {victim}))
    await harness.create_topic([(victim,)])
    before = {
        broker: await broker_says(harness, broker, lambda s: s(f"{REPLICAS}underreplicatedpartitions") == 0)
        for broker in others
    }
    await harness.cluster.kill_broker(victim)
    await controller_says(
        harness,
        lambda s: (
            s(f"{CONTROLLER}offlinepartitionscount") >= 1
            and s("strandline_broker_alive", broker=str(victim)) == 0
        ),
    )
    left = await _sum(harness, others, lambda s: s(f"{REPLICAS}underreplicatedpartitions"), at_least=3)
    assert left >= 3
    await _sum(harness, others, lambda s: s(f"{REPLICAS}isrshrinks_total"), at_least=1)
    elections = sum(each(ELECTIONS) for each in before.values())
    await _sum(harness, others, lambda s: s(ELECTIONS), at_least=elections + 1)
    # The present leader asked the dead broker to follow.
    waiting = await controller_says(
        harness, lambda s: s("strandline_state_queue_requests", broker=str(victim)) > 0
    )
    assert waiting("strandline_state_queue_oldest_age_seconds", broker=str(victim)) > 0
    await harness.cluster.start_broker(victim)
    well = await controller_says(
        harness,
        lambda s: (
            s(f"{CONTROLLER}offlinepartitionscount") == 0
            and s("strandline_broker_alive", broker=str(victim)) == 1
            and s("strandline_state_queue_requests", broker=str(victim)) == 0
        ),
    )
    assert well(f"{CONTROLLER}activecontrollercount") == 1
    await _sum(harness, others, lambda s: s(f"{REPLICAS}isrexpands_total"), at_least=1)
    for broker in others:
        found = await broker_says(harness, broker, lambda s: s(f"{REPLICAS}underreplicatedpartitions") == 0)
        assert 0 < found("strandline_zookeeper_watches") <= WATCHES_MAX
        assert found(UNCLEAN) == before[broker](UNCLEAN)


async def _sum(
    harness: Harness, brokers: tuple[int, ...], value: Callable[[Scrape], float], *, at_least: float
) -> float:
    async def enough() -> float | None:
        found = sum([value(await scrape(port_of(harness, broker))) for broker in brokers])
        return found if found >= at_least else None

    return await present(enough, what=f"{at_least} over brokers {brokers}")


@asynccontextmanager
async def health_of(address: str, service: str) -> AsyncIterator[asyncio.Queue[int]]:
    """Every status that the standard health service sends for this name, in order."""
    statuses: asyncio.Queue[int] = asyncio.Queue()

    async def follow() -> None:
        async for answer in stub.Watch(health_pb2.HealthCheckRequest(service=service)):
            statuses.put_nowait(answer.status)

    async with grpc.aio.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(follow())
            try:
                yield statuses
            finally:
                following.cancel()


@pytest.mark.timeout(120)
async def test_a_broker_that_lost_its_session_is_not_serving_until_it_has_another(harness: Harness) -> None:
    """It slept longer than its session. Awake, it says that it does not serve before it serves again, under
    its own name and that of each service; the session that ended is counted (CORRECTNESS E1, E4)."""
    topic = await harness.create_topic([(1, 2, 3)])
    sleeper = (await topic.state()).leader
    before = (await scrape(port_of(harness, sleeper)))(EXPIRED)

    async def has_no_session() -> bool:
        return await harness.broker_epoch(sleeper) == -1

    async with AsyncExitStack() as opened:
        health = [
            await opened.enter_async_context(health_of(harness.cluster.address(sleeper), service))
            for service in BROKER_SERVICES
        ]
        assert [await statuses.get() for statuses in health] == [SERVING] * len(health)
        harness.cluster.pause_broker(sleeper)
        await eventually(has_no_session, deadline_s=20, what=f"the session of broker {sleeper} expires")
        harness.cluster.resume_broker(sleeper)
        assert [await statuses.get() for statuses in health] == [NOT_SERVING] * len(health)
        assert [await statuses.get() for statuses in health] == [SERVING] * len(health)
    found = await broker_says(harness, sleeper, lambda s: s("strandline_zookeeper_lease_seconds") > 0)
    assert found("strandline_zookeeper_connected") == 1
    assert found(EXPIRED) > before
    await topic.settled()
