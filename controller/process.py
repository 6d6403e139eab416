"""Runs a controller: its gRPC listener, its health status, and the task that contends to be active."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

import structlog

from strandline.adapters.rpc.grpc_listener import GrpcListener
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.system.fail_fast import FailFast
from strandline.adapters.telemetry.metrics_server import serve_metrics
from strandline.config import ControllerSettings
from strandline.controller.activity import Activity
from strandline.controller.api.server import admin_calls
from strandline.controller.api.service import AdminService
from strandline.controller.api.state_changes_stream import StateChangeStreams
from strandline.controller.metrics import METRICS, ControllerMetrics
from strandline.errors import SettingsError
from strandline.ports import Clock

logger = structlog.get_logger(__name__)

STOP_GRACE_S: Final = 1.0
"""Time for requests in progress when the controller stops."""
SERVICE: Final = "strandline.v1.Admin"


async def serve(settings: ControllerSettings) -> None:
    """Serves until SIGTERM or SIGINT. Raises SettingsError if it cannot listen on the address."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    clock = SystemClock()
    listener = GrpcListener(settings, clock, SERVICE)
    activity_changed = asyncio.Event()
    activity = Activity(listener.bind(settings.controller_id), settings, clock, activity_changed.set)
    fail_fast = FailFast(activity.withdraw)
    fail_fast.install(loop)
    try:
        await _serve(listener, activity, activity_changed, settings, clock, stop)
    except BaseExceptionGroup as group:
        if group.subgroup(SettingsError) is not None:
            raise
        fail_fast.end(group, "a task of the controller")
    finally:
        await listener.stop()


async def _serve(
    listener: GrpcListener,
    activity: Activity,
    activity_changed: asyncio.Event,
    settings: ControllerSettings,
    clock: Clock,
    stop: asyncio.Event,
) -> None:
    endpoint = activity.endpoint
    streams = StateChangeStreams(activity.require, settings.state_change_streams_max, clock)
    metrics = ControllerMetrics(activity, listener.times, listener.refused, clock)
    await listener.start(admin_calls(AdminService(activity), streams, activity.key))
    logger.info("listening", controller=endpoint.id, address=endpoint.address)
    async with (
        serve_metrics(settings.host, settings.metrics_port, METRICS, metrics.read, clock),
        asyncio.TaskGroup() as tasks,
    ):
        running = [
            tasks.create_task(activity.run()),
            tasks.create_task(_publish_health(activity, activity_changed, listener)),
        ]
        await stop.wait()
        logger.info("stopping", controller=endpoint.id)
        streams.close()
        await listener.stop(STOP_GRACE_S)
        for task in running:
            task.cancel()


async def _publish_health(activity: Activity, changed: asyncio.Event, listener: GrpcListener) -> None:
    """Reports SERVING while the active controller is known. A request is then answered here, or refused with
    the address of the active one."""
    while True:
        await changed.wait()
        changed.clear()
        await listener.set_health(serving=activity.known is not None)
