"""Controllers for tests: in this process, or as processes that can be killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from strandline.adapters.service_host import service_host
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.telemetry.audit import Audit
from strandline.config.limits import KIB
from strandline.config.services.controller import ControllerSettings
from strandline.controller.activity import Activity
from strandline.controller.api.service import AdminService
from strandline.local.layout import MemberFile
from strandline.local.ports import free_ports
from strandline.local.service import Service
from strandline.ports import Coordination
from strandline.rpc import admin_pb2, admin_pb2_grpc
from strandline.vocabulary.metadata import Endpoint
from tests.forking.client import spawn
from tests.waiting import eventually

CALL_S_MAX = 30.0
SESSION_MS = 10_000
"""Long enough for a busy machine, where a test does not ask how soon a session ends."""
MULTI_BYTES = 72 * KIB
"""The smallest bound of what is written at once: 30 partitions need several multis."""


@dataclass(frozen=True, slots=True)
class Running:
    """A controller in this process, without its gRPC listener."""

    activity: Activity
    admin: AdminService
    task: asyncio.Task[None]

    async def stop(self) -> None:
        """As a clean stop: it does not claim to be the active one again."""
        self.task.cancel()
        await asyncio.wait([self.task])

    async def wait_active(self) -> None:
        await eventually(lambda: self.activity.active is not None, what="this controller is active")

    async def wait_knows(self, controller_id: int) -> None:
        def knows() -> bool:
            known = self.activity.known
            return known is not None and known.endpoint.id == controller_id

        await eventually(knows, what=f"controller {controller_id} is known as the active one")


class Active(NamedTuple):
    """A session, an active controller, and the brokers that were registered before, with their epochs."""

    session: Coordination
    controller: Running
    epochs: dict[int, int]


Activate = Callable[..., AbstractAsyncContextManager[Active]]
"""Takes the brokers to register, and settings of the controller."""


@asynccontextmanager
async def running(zookeeper: str, controller_id: int = 1, **settings: Any) -> AsyncIterator[Running]:
    """Ends as a clean stop does."""
    given = {
        "zookeeper": zookeeper,
        "zookeeper_session_timeout_ms": SESSION_MS,
        "standby_poll_ms": 10,
        "controller_id": controller_id,
        "multi_bytes_max": MULTI_BYTES,
        **settings,
    }
    activity = Activity(
        Endpoint(controller_id, "localhost", 7000 + controller_id),
        ControllerSettings(**given),
        service_host(),
        lambda: None,
        Audit("", SystemClock()),
    )
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(activity.run())
        try:
            yield Running(activity, AdminService(activity), task)
        finally:
            task.cancel()


class ControllerProcess:
    """`python -m strandline.controller`, and a client of it."""

    def __init__(self, controller_id: int, zookeeper: str, directory: Path, **settings: Any) -> None:
        given = {
            "zookeeper": zookeeper,
            "standby_poll_ms": 50,
            "zookeeper_session_timeout_ms": 1_500,
            "multi_bytes_max": MULTI_BYTES,
            **settings,
        }
        member = MemberFile(id=controller_id, port=free_ports(1)[0])
        log_path = directory / f"controller-{controller_id}.log"
        self.service = Service("controller", member, given, log_path=log_path, detached=False, spawn=spawn)
        self.service.start()

    @property
    def dead(self) -> bool:
        return not self.service.alive

    async def create(self, *topics: admin_pb2.NewTopic) -> list[admin_pb2.TopicResult]:
        async with self._stub() as stub:
            request = admin_pb2.CreateTopicsRequest(topics=topics)
            return list((await stub.CreateTopics(request, timeout=CALL_S_MAX)).results)

    async def delete(self, *names: str) -> list[admin_pb2.TopicResult]:
        async with self._stub() as stub:
            request = admin_pb2.DeleteTopicsRequest(topics=names)
            return list((await stub.DeleteTopics(request, timeout=CALL_S_MAX)).results)

    async def drain(self, broker: int) -> None:
        """Ask for a drain of leaderships; the controller may die under it."""
        async with self._stub() as stub:
            with suppress(grpc.aio.AioRpcError):
                await stub.DrainBroker(admin_pb2.DrainBrokerRequest(broker=broker), timeout=CALL_S_MAX)

    async def forget(self, broker: int) -> None:
        """Ask that a broker is forgotten; the controller may die under it."""
        async with self._stub() as stub:
            with suppress(grpc.aio.AioRpcError):
                await stub.ForgetBroker(admin_pb2.ForgetBrokerRequest(broker=broker), timeout=CALL_S_MAX)

    async def reassign(self, *partitions: admin_pb2.PartitionReassignment) -> list[admin_pb2.PartitionResult]:
        async with self._stub() as stub:
            request = admin_pb2.ReassignRequest(partitions=partitions)
            return list((await stub.Reassign(request, timeout=CALL_S_MAX)).results)

    async def grow(self, name: str, partitions: int) -> admin_pb2.AlterTopicResponse:
        async with self._stub() as stub:
            request = admin_pb2.AlterTopicRequest(topic=name, partitions=partitions)
            return await stub.AlterTopic(request, timeout=CALL_S_MAX)

    async def describe(self) -> admin_pb2.DescribeClusterResponse:
        async with self._stub() as stub:
            return await stub.DescribeCluster(admin_pb2.DescribeClusterRequest(), timeout=CALL_S_MAX)

    async def is_active(self) -> bool:
        return not (await self.describe()).error.code

    @asynccontextmanager
    async def _stub(self) -> AsyncIterator[admin_pb2_grpc.AdminAsyncStub]:
        async with grpc.aio.insecure_channel(self.service.address) as channel:
            yield admin_pb2_grpc.AdminStub(channel)


@asynccontextmanager
async def process(
    controller_id: int, zookeeper: str, directory: Path, **settings: Any
) -> AsyncIterator[ControllerProcess]:
    """A controller that serves; killed at the end, if it still runs."""
    controller = ControllerProcess(controller_id, zookeeper, directory, **settings)
    try:
        await controller.service.wait_serving()
        yield controller
    finally:
        await controller.service.stop(clean=False)
