"""The lives of state changes as they are read: each step once, even if processes die meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import grpc
import pytest

from strandline import Admin
from strandline.adapters.rpc.wire_errors import error_from_wire
from strandline.errors import (
    NotController,
    StrandlineError,
)
from strandline.local.cluster import LocalCluster
from strandline.rpc import admin_pb2, admin_pb2_grpc
from strandline.vocabulary.state_changes import StateChangeEvent
from tests.conftest import ClusterFactory
from tests.integration.support.harness import FAULT_SETTINGS
from tests.integration.support.made_up_events import MadeUpEvents, writing_events
from tests.waiting import eventually


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    """Three brokers, two controllers."""
    return await make_module_cluster(
        brokers=3,
        controllers=2,
        broker_settings=FAULT_SETTINGS,
        controller_settings={
            "zookeeper_session_timeout_ms": FAULT_SETTINGS["zookeeper_session_timeout_ms"],
        },
    )


@pytest.fixture
async def made_up(cluster: LocalCluster) -> AsyncIterator[MadeUpEvents]:
    async with writing_events(cluster) as events:
        yield events


async def active_controller(cluster: LocalCluster) -> int:
    async def found() -> int | None:
        async with Admin(cluster.bootstrap) as admin:
            controller = (await admin.metadata([])).controller
        return None if controller is None else controller.id

    number = await eventually(found, deadline_s=20)
    assert number is not None
    return number


class Following:
    """Follows the events of one topic in a task."""

    def __init__(self, cluster: LocalCluster, **query: Any) -> None:
        self.events: list[StateChangeEvent] = []
        self._cluster = cluster
        self._query = query

    async def run(self) -> None:
        async with (
            Admin(self._cluster.bootstrap) as admin,
            aclosing(admin.state_changes(follow=True, **self._query)) as events,
        ):
            async for event in events:
                self.events.append(event)

    async def has(self, how_many: int) -> None:
        await eventually(lambda: len(self.events) >= how_many, deadline_s=30, what=f"{how_many} events")


@asynccontextmanager
async def following(cluster: LocalCluster, **query: Any) -> AsyncIterator[Following]:
    found = Following(cluster, **query)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(found.run())
        yield found
        task.cancel()


@pytest.mark.slow
async def test_a_follower_of_the_stream_gets_each_step_once_in_order_though_controllers_die(
    cluster: LocalCluster, made_up: MadeUpEvents
) -> None:
    """The next controller continues at the offsets that came with the last answer; one stops, one is
    killed."""
    expected = made_up.put(50)
    async with following(cluster, topic=made_up.topic) as follower:
        await follower.has(50)
        for harm in (cluster.kill_controller, cluster.stop_controller):
            number = await active_controller(cluster)
            await harm(number)
            expected += made_up.put(50)
            await follower.has(len(expected))
            await cluster.start_controller(number)
    assert follower.events == expected


async def test_a_stream_ends_with_not_controller_when_its_controller_stops(
    cluster: LocalCluster, made_up: MadeUpEvents
) -> None:
    """At once, and not with the grace that requests get: the next controller waits for this one to go."""
    number = await active_controller(cluster)
    async with grpc.aio.insecure_channel(cluster.controller_address(number)) as channel:
        stub: admin_pb2_grpc.AdminAsyncStub = admin_pb2_grpc.AdminStub(channel)
        request = admin_pb2.StateChangesRequest(topic=made_up.topic, partition=-1, follow=True)
        stream = stub.StateChanges(request)
        assert isinstance(await stream.read(), admin_pb2.StateChangesResponse)
        errors: list[StrandlineError | None] = []
        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            tasks.create_task(cluster.stop_controller(number))
            while isinstance(answer := await stream.read(), admin_pb2.StateChangesResponse):
                errors.append(error_from_wire(answer.error))
    await cluster.start_controller(number)
    assert isinstance(errors[-1], NotController)
