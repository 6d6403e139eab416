"""One connection of the client: requests leave as they come, and answers come in their order."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final, NamedTuple, TypeVar

from strandline.broker.kafka.frames import Frames
from strandline.broker.kafka.wire.fields import MalformedRequest
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline_lab.simulation.kafka.messages import Api, answer_in, frame

Request = TypeVar("Request")
Answer = TypeVar("Answer")

ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
CONNECT_S_MAX: Final = 1.0


class Disconnected(Exception):
    """The connection is gone. What was asked and not answered may have been done."""


class _Asked(NamedTuple):
    correlation: int
    api: Api[Any, Any]
    answer: asyncio.Future[Any]


class KafkaConnection(asyncio.BufferedProtocol):
    """`wrong` gets a sentence for what no broker may do."""

    def __init__(self, client: str, wrong: list[str], *, flexible: bool) -> None:
        self._client = client
        self._wrong = wrong
        self._flexible = flexible
        self._frames = Frames(ANSWER_BYTES_MAX)
        self._asked: deque[_Asked] = deque()
        self._correlation = 0
        self._transport: asyncio.Transport | None = None

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def ask(self, api: Api[Request, Answer], request: Request) -> asyncio.Future[Answer]:
        """Send a request now. The future fails with Disconnected."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_looked_at)
        if not self.open or self._transport is None:
            answer.set_exception(Disconnected("the connection is closed"))
            return answer
        self._correlation += 1
        self._asked.append(_Asked(self._correlation, api, answer))
        version = api.version(flexible=self._flexible)
        self._transport.write(frame(api.wire, version, request, self._correlation, self._client))
        return answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._fail("it was closed here")

    # --- the transport -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            answered = self._frames.filled(nbytes)
            if answered is not None:
                self._take(answered)
        except MalformedRequest as error:
            self._wrong.append(f"{self._client} cannot read an answer: {error.message}")
            self.close()

    def _take(self, answered: bytearray) -> None:
        if not self._asked:
            raise MalformedRequest("nothing was asked")
        asked = self._asked.popleft()
        correlation = int.from_bytes(answered[:4], "big")
        if correlation != asked.correlation:
            raise MalformedRequest(f"request {asked.correlation} got the answer to {correlation}")
        found = answer_in(asked.api.wire, asked.api.version(flexible=self._flexible), answered)
        if not asked.answer.done():
            asked.answer.set_result(found)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._fail(str(exc or "the broker closed it"))

    def _fail(self, reason: str) -> None:
        asked, self._asked = self._asked, deque()
        for each in asked:
            if not each.answer.done():
                each.answer.set_exception(Disconnected(reason))


def _looked_at(answer: asyncio.Future[Any]) -> None:
    """A caller that is gone needs no error."""
    if not answer.cancelled():
        answer.exception()


async def connected(
    process: SimulatedProcess, address: str, wrong: list[str], *, flexible: bool
) -> KafkaConnection:
    """A new connection. Raises Disconnected."""
    connection = KafkaConnection(process.name, wrong, flexible=flexible)
    try:
        async with asyncio.timeout(CONNECT_S_MAX):
            await process.connect_bytes(address, connection)
    except (OSError, TimeoutError) as error:
        raise Disconnected(f"no connection to {address}: {error!r}") from None
    return connection
