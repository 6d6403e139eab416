"""Sends a member's heartbeats in a task of the event loop, for a host that has one thread only."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import nullcontext

from strandline.adapters.codecs.groups import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP
from strandline.client.scope import Scope
from strandline.config.consumer import ConsumerSettings
from strandline.consumer.core.heartbeat import HeartbeatReport, LeaveOverdue, SendHeartbeat, Stopped, Wait
from strandline.consumer.delivery import RecordDelivery
from strandline.consumer.group.heartbeats import Heartbeats
from strandline.errors import BrokerNotAvailable, OutcomeUnknown, StrandlineError
from strandline.ports import Clock, Method, Request, Response, Transport
from strandline.vocabulary.groups import Joined, JoinGroup, MemberIdGiven

logger = logging.getLogger(__name__)


class HeartbeatTask(Heartbeats):
    """Starts its task, in the client's scope, with the first heartbeat. The transport stays open."""

    def __init__(
        self,
        group: str,
        *,
        delivery: RecordDelivery,
        settings: ConsumerSettings,
        clock: Clock,
        report: Callable[[HeartbeatReport], None],
        transport: Transport,
        scope: Scope,
    ) -> None:
        super().__init__(
            group, delivery=delivery, settings=settings, clock=clock, report=report, lock=nullcontext()
        )
        self._transport = transport
        self._scope = scope
        self._wake = asyncio.Event()
        self._call: asyncio.Task[StrandlineError | None] | None = None
        """The heartbeat in flight."""
        self._started = False

    async def join(self, address: str, request: JoinGroup, timeout_s: float) -> Joined | MemberIdGiven:
        number = self._schedule.join_sent()
        answer: Joined | MemberIdGiven | None = None
        try:
            answer = await self._ask(address, JOIN_GROUP, request, timeout_s)
            return answer
        finally:
            self._schedule.join_answered(number, answer, self._clock.monotonic())
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
            _ = await self._ask(todo.address, LEAVE_GROUP, todo.request, todo.timeout_s)
        except StrandlineError as error:
            logger.info("group %s: the coordinator does not know that a member left: %s", self._group, error)

    async def _send(self, todo: SendHeartbeat) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._call = call = tasks.create_task(self._heartbeat(todo))
        self._call = None
        refused = self._schedule.ended(None if call.cancelled() else call.result())
        self._delivery.interrupt()  # as often as the thread does
        if refused is not None:
            self._report(refused)

    async def _heartbeat(self, todo: SendHeartbeat) -> StrandlineError | None:
        """Returns the error with which the heartbeat ends."""
        try:
            await self._ask(todo.address, HEARTBEAT, todo.request, todo.timeout_s)
        except StrandlineError as error:
            return error
        return None

    async def _ask(
        self, address: str, method: Method[Request, Response], request: Request, timeout_s: float
    ) -> Response:
        """Raises what a blocking transport raises, which cannot tell that nothing was sent."""
        try:
            return await self._transport.call(address, method, request, timeout_s=timeout_s)
        except BrokerNotAvailable as error:
            raise OutcomeUnknown(f"no answer from {address}: {error.message}") from error
