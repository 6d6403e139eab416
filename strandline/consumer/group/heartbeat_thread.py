"""Sends a member's heartbeats in a thread, so that they do not depend on the event loop.

A handler may block the loop for as long as it likes: the thread has connections of its own. It also removes
an overdue member from the group without the loop, since a blocked loop may be the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any

from strandline.consumer.core.heartbeat import (
    HeartbeatReport,
    LeaveOverdue,
    Schedule,
    SendHeartbeat,
    Stopped,
    Wait,
)
from strandline.consumer.delivery import RecordDelivery
from strandline.consumer.group.heartbeats import HEARTBEATS_END_S_MAX, METHODS, Heartbeats, Then
from strandline.errors import StrandlineError
from strandline.host import Threads
from strandline.ports import BlockingCall, BlockingTransport, Clock, Method, Request, Response

logger = logging.getLogger(__name__)


class HeartbeatThread(Heartbeats):
    """Starts its thread with the first heartbeat, and closes the transport at its end."""

    def __init__(
        self,
        group: str,
        *,
        schedule: Schedule[Any],
        delivery: RecordDelivery,
        clock: Clock,
        report: Callable[[HeartbeatReport], None],
        transport: BlockingTransport,
        threads: Threads,
    ) -> None:
        self._condition = threading.Condition()
        super().__init__(
            group, schedule=schedule, delivery=delivery, clock=clock, report=report, lock=self._condition
        )
        self._transport = transport
        self._threads = threads
        self._call: BlockingCall[Any] | None = None
        """The heartbeat in flight."""
        self._thread: threading.Thread | None = None

    async def ask(
        self,
        address: str,
        method: Method[Request, Response],
        request: Request,
        timeout_s: float,
        then: Then[Response],
    ) -> Response:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[None] = loop.create_future()
        call = self._transport.begin(address, method, request, timeout_s=timeout_s)

        def done() -> None:
            with self._condition:
                then(_answer(call), self._clock.monotonic())
                self._changed()
            self._delivery.interrupt()
            with contextlib.suppress(RuntimeError):  # the loop has ended before the answer came
                loop.call_soon_threadsafe(wake)

        def wake() -> None:
            if not answered.done():
                answered.set_result(None)

        call.on_done(done)
        try:
            await answered
        except asyncio.CancelledError:
            call.cancel()
            raise
        return call.result()

    async def close(self) -> bool:
        with self._condition:
            self._schedule.close()
            self._changed()
        thread = self._thread
        if thread is None:
            self._transport.close()
            return True
        await self._threads.run(thread.join, HEARTBEATS_END_S_MAX)
        return not thread.is_alive()

    def _changed(self) -> None:
        if self._schedule.cut and self._call is not None:
            self._call.cancel()
        self._condition.notify()
        if self._thread is None and self._schedule.beating:
            name = f"heartbeat of {self._group}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    # --- in the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (todo := self._next()) is not None:
                if isinstance(todo, LeaveOverdue):
                    self._leave(todo)
                else:
                    self._send(todo)
        except Exception as error:
            self._report(Stopped(error))
        finally:
            self._transport.close()

    def _next(self) -> SendHeartbeat | LeaveOverdue | None:
        """Wait until there is something to send. None: the end."""
        with self._condition:
            while not self._schedule.closed:
                polled = self._schedule.beating and self._delivery.take_polled()
                todo = self._schedule.next(self._clock.monotonic(), polled=polled)
                if not isinstance(todo, Wait):
                    return todo
                self._condition.wait(todo.seconds)
            return None

    def _leave(self, todo: LeaveOverdue) -> None:
        self._report(todo.report)
        if todo.address is None or todo.request is None:
            return
        try:
            method = METHODS[type(todo.request)]
            _ = self._transport.begin(todo.address, method, todo.request, timeout_s=todo.timeout_s).result()
        except StrandlineError as error:
            logger.info("group %s: the coordinator does not know that a member left: %s", self._group, error)

    def _send(self, todo: SendHeartbeat) -> None:
        method = METHODS[type(todo.request)]
        call = self._transport.begin(todo.address, method, todo.request, timeout_s=todo.timeout_s)
        with self._condition:
            self._call = call
            if self._schedule.cut:
                call.cancel()
        answer: Any
        try:
            answer = call.result()
        except StrandlineError as error:
            answer = error
        with self._condition:
            self._call = None
            found = self._schedule.ended(answer, self._clock.monotonic())
        # An application that never waits gives the loop a turn this often, for commits and answers.
        self._delivery.interrupt()
        if found is not None:
            self._report(found)


def _answer(call: BlockingCall[Response]) -> Response | None:
    """The answer of a call that has ended; None if it failed, which `ask` raises."""
    try:
        return call.result()
    except StrandlineError:
        return None
