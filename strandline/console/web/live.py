"""Tells open pages that something has changed (server-sent events)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from strandline.config.console import ConsoleSettings
from strandline.console.core.places import Places

PAUSE_S: Final = 1.0
"""The shortest time between two events of `/live`."""
PING_S: Final = 15.0
"""A stream says something this often, so that neither end takes the other for gone."""


class Pulse:
    """Counts changes, and wakes those who wait for one."""

    def __init__(self) -> None:
        self.version = 0
        self._beaten = asyncio.Event()
        self._closed = asyncio.Event()

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    def beat(self) -> None:
        """Something has changed."""
        self.version += 1
        self._beaten.set()
        self._beaten = asyncio.Event()

    def close(self) -> None:
        """Ends every stream."""
        self._closed.set()
        self.beat()

    async def after(self, version: int, wait_s: float) -> None:
        """Return once there is another version, or after this time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while self.version == version:
                    await self._beaten.wait()

    async def pause(self, wait_s: float) -> None:
        """Return after this time, or once the pulse is closed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._closed.wait()


class Stream(StreamingResponse):
    """Ends its generator when the browser has gone, at each place where that may wait."""

    def __init__(
        self,
        parts: AsyncGenerator[str | bytes, None],
        *,
        media_type: str,
        headers: Mapping[str, str] | None = None,
        place: AbstractContextManager[None] | None = None,
    ) -> None:
        """`place` is what it takes of a bound while it runs."""
        super().__init__(parts, media_type=media_type, headers=headers)
        self._parts = parts
        self._place = place or contextlib.nullcontext()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            async with contextlib.aclosing(self._parts):
                await super().__call__(scope, receive, send)


class EventStreams:
    """Bounds the open streams of all browsers together, and those of one address."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._places = Places(settings.event_streams_max, settings.client_event_streams_max)

    def respond(self, request: Request, events: AsyncGenerator[str, None]) -> Stream:
        """An answer made of events, which `event` writes. Raises HTTPException 503 beyond a limit."""
        address = address_of(request)
        if (missing := self._places.missing(address)) is not None:
            raise HTTPException(
                503,
                f"streams to browsers: {missing}: close a window, or load this page again by hand",
            )
        return Stream(
            events,
            media_type="text/event-stream",
            headers={"X-Accel-Buffering": "no"},
            place=self._places.taken(address),
        )


def address_of(request: Request) -> str:
    """The address of a browser, or of its proxy."""
    return "" if request.client is None else request.client.host


def event(fields: Mapping[str, Any]) -> str:
    """One event with a JSON object."""
    return f"data: {json.dumps(fields, separators=(',', ':'))}\n\n"


async def changes(
    pulse: Pulse, pause_s: float = PAUSE_S, facts: Callable[[], Mapping[str, Any]] | None = None
) -> AsyncGenerator[str, None]:
    """An event at once, then one after each change, with pauses between; ends once the pulse is closed.

    An event has what `facts` says then; without it the pulse's version.
    """
    while not pulse.closed:
        version = pulse.version
        yield event({"version": version} if facts is None else facts())
        await pulse.pause(pause_s)
        await pulse.after(version, PING_S)
        while pulse.version == version:
            yield ": nothing new\n\n"
            await pulse.after(version, PING_S)
