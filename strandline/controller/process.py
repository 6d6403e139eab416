"""Runs a controller: its gRPC listener, its health status, and the task that contends to be active."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from strandline.adapters.logins import Logins
from strandline.adapters.rpc.logins.at_ports import PortLogins
from strandline.adapters.rpc.refused_requests import RefusedRequests
from strandline.adapters.rpc.request_times import RequestTimes
from strandline.adapters.system.crash_points import arm
from strandline.adapters.telemetry.audit import Audit
from strandline.adapters.telemetry.metrics_server import serve_metrics
from strandline.config.services.controller import ControllerSettings
from strandline.controller.activity import Activity
from strandline.controller.api.checks import AdminChecks
from strandline.controller.api.server import admin_rows
from strandline.controller.api.service import AdminService
from strandline.controller.api.state_changes_stream import StateChangeStreams
from strandline.controller.metrics import METRICS, ControllerMetrics
from strandline.errors import SettingsError
from strandline.host import ServiceHost, ServiceListener
from strandline.security.access import Access
from strandline.serving.askers import Askers
from strandline.serving.refusals import refusals_noted
from strandline.serving.serve import Serving
from strandline.standing_warnings import warn_while_unsafe

logger = structlog.get_logger(__name__)

STOP_GRACE_S: Final = 1.0
"""Time for requests in progress when the controller stops."""
SERVICE: Final = "strandline.v1.Admin"


async def serve(settings: ControllerSettings, host: ServiceHost) -> None:
    """Serves until the host asks for a stop. Raises SettingsError if it cannot listen on the address."""
    arm(settings.crash_points, host.die)
    times, refused = RequestTimes(host.clock), RefusedRequests(host.clock)
    audit = Audit(settings.audit_log, host.clock)
    on_refused = refusals_noted(refused.note, audit)
    listener = host.listen(settings, [SERVICE], on_answered=times.observe, on_refused=on_refused)
    activity_changed = asyncio.Event()
    activity = Activity(listener.bind(settings.controller_id), settings, host, activity_changed.set, audit)
    metrics = ControllerMetrics(activity, times, refused, audit, host.clock)
    fail_fast = host.fail_fast(activity.withdraw)
    fail_fast.install(asyncio.get_running_loop())
    try:
        await _serve(listener, activity, activity_changed, settings, host, metrics, audit)
    except BaseExceptionGroup as group:
        if group.subgroup(SettingsError) is not None:
            raise
        fail_fast.end(group, "a task of the controller")
    finally:
        await listener.stop()
        audit.close()


async def _serve(
    listener: ServiceListener,
    activity: Activity,
    activity_changed: asyncio.Event,
    settings: ControllerSettings,
    host: ServiceHost,
    metrics: ControllerMetrics,
    audit: Audit,
) -> None:
    endpoint = activity.endpoint
    streams = StateChangeStreams(
        activity.require, settings.state_change_streams_max, host, activity.key.shown
    )
    audit.explained_by(activity.authorizer)
    access = Access(activity.authorizer, activity.key.is_shown, activity.not_active, audit.denied)
    logins = Logins(activity.authenticator, host.clock, host.threads, host.new_id, audit)
    await logins.prepare()
    serving = Serving(
        access,
        audit,
        host.clock,
        askers=Askers(activity.key, activity.quotas),
        carry_out=activity.carry_out,
    )
    rows = admin_rows(AdminService(activity), streams, AdminChecks(access, activity.key))
    await listener.start(
        serving.served(rows),
        logins=PortLogins(logins, activity.key.is_shown, settings, host.clock, host.new_id),
    )
    logger.info("listening", controller=endpoint.id, address=endpoint.address)
    async with (
        serve_metrics(
            settings, METRICS, metrics.read, lambda: listener.serving, host.clock, host.metrics_tls
        ),
        asyncio.TaskGroup() as tasks,
    ):
        running = [
            tasks.create_task(activity.run()),
            tasks.create_task(warn_while_unsafe(settings, host.clock)),
            tasks.create_task(audit.run()),
            tasks.create_task(_publish_health(activity, activity_changed, listener)),
        ]
        await host.stop_requested.wait()
        logger.info("stopping", controller=endpoint.id)
        streams.close()
        await listener.stop(STOP_GRACE_S)
        for task in running:
            task.cancel()


async def _publish_health(activity: Activity, changed: asyncio.Event, listener: ServiceListener) -> None:
    """Reports SERVING while the active controller is known. A request is then answered here, or refused with
    the address of the active one."""
    while True:
        await changed.wait()
        changed.clear()
        await listener.set_health(serving=activity.known is not None)
