"""The controller's process: the gRPC listener, its health, and the task that contends to be active."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from strandline.adapters.rpc.guarded_calls import GuardedCalls
from strandline.adapters.rpc.listeners import external_server, new_server
from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.rpc.refused_requests import RefusedRequests
from strandline.adapters.rpc.request_times import RequestTimes
from strandline.adapters.rpc.served_stream import write
from strandline.adapters.rpc.wire_errors import error_to_wire
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.system.fail_fast import FailFast
from strandline.adapters.telemetry.metrics_server import serve_metrics
from strandline.config import ControllerSettings
from strandline.controller.activity import Activity
from strandline.controller.api import wire
from strandline.controller.api.service import AdminService
from strandline.controller.api.state_changes_stream import StateChangeStreams
from strandline.controller.metrics import METRICS, ControllerMetrics
from strandline.errors import SettingsError, StrandlineError
from strandline.rpc import admin_pb2, admin_pb2_grpc
from strandline.vocabulary.metadata import Endpoint

logger = structlog.get_logger(__name__)

STOP_GRACE_S: Final = 1.0
"""For requests that are being answered when the controller is told to stop."""

HEALTH_NAMES: Final = ("", "strandline.v1.Admin")
"""What the health service answers for: the controller as a whole, and its service; they fare alike."""


class AdminServicer(admin_pb2_grpc.AdminServicer):
    """`strandline.v1.Admin`."""

    def __init__(self, service: AdminService, streams: StateChangeStreams, key: MemberKey) -> None:
        self._key = key
        self._service = service
        self._streams = streams

    async def CreateTopics(
        self,
        request: admin_pb2.CreateTopicsRequest,
        context: grpc.aio.ServicerContext[admin_pb2.CreateTopicsRequest, admin_pb2.CreateTopicsResponse],
    ) -> admin_pb2.CreateTopicsResponse:
        if request.internal and (stranger := self._key.refusal(context.invocation_metadata())) is not None:
            raise stranger
        outcomes = await self._service.create_topics(
            wire.new_topics(request), validate_only=request.validate_only, internal=request.internal
        )
        return admin_pb2.CreateTopicsResponse(results=wire.topic_results(outcomes))

    async def DeleteTopics(
        self,
        request: admin_pb2.DeleteTopicsRequest,
        context: grpc.aio.ServicerContext[admin_pb2.DeleteTopicsRequest, admin_pb2.DeleteTopicsResponse],
    ) -> admin_pb2.DeleteTopicsResponse:
        outcomes = await self._service.delete_topics(list(request.topics))
        return admin_pb2.DeleteTopicsResponse(results=wire.topic_results(outcomes))

    async def AlterTopic(
        self, request: admin_pb2.AlterTopicRequest, context: object
    ) -> admin_pb2.AlterTopicResponse:
        try:
            await self._service.alter_topic(wire.alteration(request))
        except StrandlineError as error:
            return admin_pb2.AlterTopicResponse(error=error_to_wire(error))
        return admin_pb2.AlterTopicResponse()

    async def DrainBroker(
        self, request: admin_pb2.DrainBrokerRequest, context: object
    ) -> admin_pb2.DrainBrokerResponse:
        try:
            progress = await self._service.drain_broker(
                request.broker,
                replicas=request.replicas,
                undo=request.undo,
                throttle_bytes_per_s=request.throttle_bytes_per_s,
            )
        except StrandlineError as error:
            return admin_pb2.DrainBrokerResponse(error=error_to_wire(error))
        return wire.drain_progress(progress)

    async def CheckBroker(
        self, request: admin_pb2.CheckBrokerRequest, context: object
    ) -> admin_pb2.CheckBrokerResponse:
        try:
            found = await self._service.check_broker(request.broker, end_drain=request.end_drain)
            return wire.readiness(found)
        except StrandlineError as error:
            return admin_pb2.CheckBrokerResponse(error=error_to_wire(error))

    async def Reassign(
        self,
        request: admin_pb2.ReassignRequest,
        context: grpc.aio.ServicerContext[admin_pb2.ReassignRequest, admin_pb2.ReassignResponse],
    ) -> admin_pb2.ReassignResponse:
        outcomes = await self._service.reassign(
            wire.moves(request),
            throttle_bytes_per_s=request.throttle_bytes_per_s,
            validate_only=request.validate_only,
        )
        return admin_pb2.ReassignResponse(results=wire.partition_results(outcomes))

    async def ListReassignments(
        self, request: admin_pb2.ListReassignmentsRequest, context: object
    ) -> admin_pb2.ListReassignmentsResponse:
        try:
            return wire.reassignments(await self._service.list_reassignments())
        except StrandlineError as error:
            return admin_pb2.ListReassignmentsResponse(error=error_to_wire(error))

    async def ElectPreferred(
        self, request: admin_pb2.ElectPreferredRequest, context: object
    ) -> admin_pb2.ElectPreferredResponse:
        try:
            outcomes = await self._service.elect_preferred(wire.partition_names(request))
        except StrandlineError as error:
            return admin_pb2.ElectPreferredResponse(error=error_to_wire(error))
        return admin_pb2.ElectPreferredResponse(results=wire.partition_results(outcomes))

    async def ElectUnclean(
        self, request: admin_pb2.ElectUncleanRequest, context: object
    ) -> admin_pb2.ElectUncleanResponse:
        names = wire.partition_names(request)
        try:
            outcomes = await self._service.elect_unclean(names, validate_only=request.validate_only)
        except StrandlineError as error:
            return admin_pb2.ElectUncleanResponse(error=error_to_wire(error))
        return admin_pb2.ElectUncleanResponse(results=wire.unclean_results(outcomes))

    async def DescribeCluster(
        self, request: admin_pb2.DescribeClusterRequest, context: object
    ) -> admin_pb2.DescribeClusterResponse:
        try:
            return wire.cluster_description(await self._service.describe_cluster())
        except StrandlineError as error:
            return admin_pb2.DescribeClusterResponse(error=error_to_wire(error))

    async def StateChanges(  # type: ignore[override]  # gRPC takes a coroutine too; it ends when cancelled
        self,
        request: admin_pb2.StateChangesRequest,
        context: grpc.aio.ServicerContext[admin_pb2.StateChangesRequest, admin_pb2.StateChangesResponse],
    ) -> None:
        try:
            async with aclosing(self._streams.tell(wire.state_changes_query(request))) as answers:
                async for told in answers:
                    await write(context, wire.state_changes_response(told))
        except StrandlineError as error:
            await write(context, admin_pb2.StateChangesResponse(error=error_to_wire(error)))


async def serve(settings: ControllerSettings) -> None:
    """Serve until SIGTERM or SIGINT. Raises SettingsError if the address cannot be listened on."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    clock = SystemClock()
    times, refused = RequestTimes(clock), RefusedRequests(clock)
    servers, endpoint = _bind(settings, (GuardedCalls(), refused, times))
    news = asyncio.Event()
    activity = Activity(endpoint, settings, clock, news.set)
    fail_fast = FailFast(activity.withdraw)
    fail_fast.install(loop)
    try:
        await _serve(servers, activity, news, settings, stop, times, refused)
    except BaseExceptionGroup as group:
        if group.subgroup(SettingsError) is not None:
            raise
        fail_fast.end(group, "a task of the controller")
    finally:
        for server in servers:
            await server.stop(None)


async def _serve(
    servers: Sequence[grpc.aio.Server],
    activity: Activity,
    news: asyncio.Event,
    settings: ControllerSettings,
    stop: asyncio.Event,
    times: RequestTimes,
    refused: RefusedRequests,
) -> None:
    clock, endpoint = SystemClock(), activity.endpoint
    streams = StateChangeStreams(activity.require, settings.state_change_streams_max, clock)
    servicer = health.aio.HealthServicer()
    await _set_health(servicer, serving=False)
    metrics = ControllerMetrics(activity, times, refused, clock)
    admin = AdminServicer(AdminService(activity), streams, activity.key)
    for server in servers:
        admin_pb2_grpc.add_AdminServicer_to_server(admin, server)
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
        await server.start()
    logger.info("listening", controller=endpoint.id, address=endpoint.address)
    async with (
        serve_metrics(settings.host, settings.metrics_port, METRICS, metrics.read, clock),
        asyncio.TaskGroup() as tasks,
    ):
        running = [
            tasks.create_task(activity.run()),
            tasks.create_task(_tell_health(activity, servicer, news)),
        ]
        await stop.wait()
        logger.info("stopping", controller=endpoint.id)
        streams.close()
        async with asyncio.TaskGroup() as stopping:
            for server in servers:
                stopping.create_task(server.stop(STOP_GRACE_S))
        for task in running:
            task.cancel()


def _bind(
    settings: ControllerSettings, interceptors: Sequence[grpc.aio.ServerInterceptor]
) -> tuple[list[grpc.aio.Server], Endpoint]:
    """A server a listener, not serving yet, and where others will reach them. Raises SettingsError."""
    server = new_server(settings, interceptors)
    address = f"{settings.host}:{settings.port}"
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as error:
        raise SettingsError(
            f"settings host, port = {address}: cannot listen there (set STRANDLINE_HOST, STRANDLINE_PORT)"
        ) from error
    endpoint = Endpoint(
        settings.controller_id,
        settings.advertised_host or settings.host,
        settings.advertised_port or port,
    )
    if settings.external_port is None:
        return [server], endpoint
    outer, external = external_server(
        settings, settings.host, settings.external_port, settings.external_host, interceptors
    )
    return [server, outer], replace(endpoint, external=external)


async def _tell_health(activity: Activity, servicer: health.aio.HealthServicer, news: asyncio.Event) -> None:
    """SERVING while it is known who is active: then any request is answered, or sent on to that one."""
    while True:
        await news.wait()
        news.clear()
        await _set_health(servicer, serving=activity.known is not None)


async def _set_health(servicer: health.aio.HealthServicer, *, serving: bool) -> None:
    status = health_pb2.HealthCheckResponse
    for name in HEALTH_NAMES:
        await servicer.set(name, status.SERVING if serving else status.NOT_SERVING)
