"""Sends a member's heartbeats in a task of the event loop, for a host that has one thread only."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from strandline.client.scope import Scope
from strandline.consumer.core.heartbeat import (
    HeartbeatReport,
    LeaveOverdue,
    Schedule,
    SendHeartbeat,
    Stopped,
    Wait,
)
from strandline.consumer.delivery import RecordDelivery
from strandline.consumer.group.heartbeats import METHODS, Heartbeats, Then
from strandline.errors import BrokerNotAvailable, OutcomeUnknown, StrandlineError
from strandline.ports import Clock, Method, Request, Response, Transport

logger = logging.getLogger(__name__)


class HeartbeatTask(Heartbeats):
    """Starts its task, in the client's scope, with the first heartbeat. The transport stays open."""

    def __init__(
        self,
        group: str,
        *,
        schedule: Schedule[Any],
        delivery: RecordDelivery,
        clock: Clock,
        report: Callable[[HeartbeatReport], None],
        transport: Transport,
        scope: Scope,
    ) -> None:
        super().__init__(
            group, schedule=schedule, delivery=delivery, clock=clock, report=report, lock=nullcontext()
        )
        self._transport = transport
        self._scope = scope
        self._wake = asyncio.Event()
        self._call: asyncio.Task[Any] | None = None
        """The heartbeat in flight."""
        self._started = False

    async def ask(
        self,
        address: str,
        method: Method[Request, Response],
        request: Request,
        timeout_s: float,
        then: Then[Response],
    ) -> Response:
        answer: Response | None = None
        try:
            answer = await self._ask(address, method, request, timeout_s)
            return answer
        finally:
            then(answer, self._clock.monotonic())
            self._changed()
            self._delivery.interrupt()

    async def close(self) -> bool:
        self._schedule.close()
        self._changed()
        return True

    def _changed(self) -> None:
        if self._schedule.cut and self._call is not None:
            self._call.cancel()
        self._wake.set()
        if not self._started and self._schedule.beating:
            self._started = True
            self._scope.spawn(self._run(), "heartbeats")

    async def _run(self) -> None:
        try:
            while not self._schedule.closed:
                self._wake.clear()
                polled = self._schedule.beating and self._delivery.take_polled()
                match self._schedule.next(self._clock.monotonic(), polled=polled):
                    case Wait(seconds):
                        await self._wait(seconds)
                    case LeaveOverdue() as todo:
                        await self._leave(todo)
                    case SendHeartbeat() as todo:
                        await self._send(todo)
        except Exception as error:
            self._report(Stopped(error))

    async def _wait(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _leave(self, todo: LeaveOverdue) -> None:
        self._report(todo.report)
        if todo.address is None or todo.request is None:
            return
        try:
            await self._ask(todo.address, METHODS[type(todo.request)], todo.request, todo.timeout_s)
        except StrandlineError as error:
            logger.info("group %s: the coordinator does not know that a member left: %s", self._group, error)

    async def _send(self, todo: SendHeartbeat) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._call = call = tasks.create_task(self._heartbeat(todo))
        self._call = None
        cut = OutcomeUnknown(f"the heartbeat to {todo.address} was cut")
        found = self._schedule.ended(cut if call.cancelled() else call.result(), self._clock.monotonic())
        self._delivery.interrupt()  # as often as the thread does
        if found is not None:
            self._report(found)

    async def _heartbeat(self, todo: SendHeartbeat) -> Any:
        """Returns the answer, or the error with which the heartbeat ends."""
        try:
            return await self._ask(todo.address, METHODS[type(todo.request)], todo.request, todo.timeout_s)
        except StrandlineError as error:
            return error

    async def _ask(
        self, address: str, method: Method[Request, Response], request: Request, timeout_s: float
    ) -> Response:
        """Raises what a blocking transport raises, which cannot tell that nothing was sent."""
        try:
            return await self._transport.call(address, method, request, timeout_s=timeout_s)
        except BrokerNotAvailable as error:
            raise OutcomeUnknown(f"no answer from {address}: {error.message}") from error
