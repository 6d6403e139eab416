"""The client's end of calls between simulated processes: the port `Transport`.

Errors are those of `GrpcTransport`: BrokerNotAvailable if nothing was sent, OutcomeUnknown if the outcome is
unknown, and the typed error with which the peer answered.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, Generic, Protocol

from strandline.adapters.asked_for import asked_for
from strandline.adapters.rpc.transport import encoded
from strandline.adapters.rpc.wire_errors import error_from_bytes
from strandline.errors import BrokerNotAvailable, OutcomeUnknown, StrandlineError
from strandline.host import ShownKey
from strandline.ports import Method, Request, Response, Stream, StreamEnded
from strandline.security.principal import Principal
from strandline.simulation.engine.loop import Process
from strandline.simulation.engine.network import End, Network
from strandline.simulation.engine.rpc.flow import Flow, FlowBroken

CONNECT_S_MAX: Final = 0.05
"""Of one attempt to connect."""
RECONNECT_S: Final = (0.05, 0.2)
"""After a failed attempt none is made for this time: between least and most."""


class Ending(Protocol):
    """What the server reports of a call, in the client's process."""

    def answered(self, data: bytes) -> None:
        """The one answer to a call of one request."""
        ...

    def ended(self, error: bytes | None) -> None:
        """The server ended the call with this error; None: in good order."""
        ...

    def broken(self, reason: str) -> None:
        """The outcome of the call is unknown."""
        ...


class Opened:
    """A call, from its client to its server."""

    def __init__(
        self, path: str, stream: int, key: bytes | None, principal: Principal, ending: Ending
    ) -> None:
        self.path = path
        self.stream = stream
        self.key = key
        self.principal = principal
        self.ending = ending
        self.asks_for = asked_for()
        self.request: bytes | None = None
        """The request of a call that has one; None: it is a stream."""
        self.up: Flow
        self.down: Flow
        """The flows of a stream."""


class _Channel:
    """The connection to one address, with the calls on it."""

    def __init__(self, network: Network, process: Process, address: str) -> None:
        self._network = network
        self._process = process
        self.address = address
        self.end: End | None = None
        self._waiters: list[asyncio.Future[End]] = []
        self._quiet_until_s = 0.0
        self._streams = 0
        self._endings: dict[int, Ending] = {}

    async def connected(self, timeout_s: float) -> End:
        """The end of an open connection. Raises BrokerNotAvailable."""
        if self.end is not None:
            return self.end
        loop = asyncio.get_running_loop()
        if loop.time() < self._quiet_until_s:
            raise BrokerNotAvailable(f"{self.address} is unreachable from here")
        waiter: asyncio.Future[End] = loop.create_future()
        self._waiters.append(waiter)
        if len(self._waiters) == 1:
            self._dial(loop)
        try:
            async with asyncio.timeout(timeout_s):
                return await waiter
        except TimeoutError:
            raise BrokerNotAvailable(f"no connection to {self.address} within {timeout_s:.1f} s") from None

    def _dial(self, loop: asyncio.AbstractEventLoop) -> None:
        def refused() -> None:
            give_up()
            limit.cancel()
            self._quiet_until_s = loop.time() + self._network.random.uniform(*RECONNECT_S)
            for waiter in self._take_waiters():
                waiter.set_exception(BrokerNotAvailable(f"{self.address} is unreachable from here"))

        def connected(end: End) -> None:
            limit.cancel()
            self.end = end
            end.receiver = self
            for waiter in self._take_waiters():
                waiter.set_result(end)

        give_up = self._network.connect(self._process, self.address, connected, refused)
        limit = loop.call_later(CONNECT_S_MAX, refused)

    def _take_waiters(self) -> list[asyncio.Future[End]]:
        waiters, self._waiters = self._waiters, []
        return [waiter for waiter in waiters if not waiter.done()]

    def begin(self, end: End, path: str, key: bytes | None, ending: Ending) -> Opened:
        """A call that is to be sent by `send`. Raises OutcomeUnknown if the connection is gone."""
        if not end.open:
            raise OutcomeUnknown(f"the connection to {self.address} was lost")
        self._streams += 1
        self._endings[self._streams] = ending
        return Opened(path, self._streams, key, self._process.principal, ending)

    def send(self, end: End, call: Opened) -> None:
        connection = end.connection
        self._network.trace.note(f"call {connection.number}/{call.stream} {call.path}", call.request or b"")
        end.send(call.stream, connection.server.begin, call)

    def forget(self, stream: int) -> None:
        self._endings.pop(stream, None)

    def cancel(self, end: End, stream: int) -> None:
        """Hang up one call."""
        if self._endings.pop(stream, None) is not None:
            end.send(stream, end.connection.server.cancel, stream)

    def broken(self, reason: str) -> None:
        self.end = None
        endings, self._endings = self._endings, {}
        for ending in endings.values():
            ending.broken(reason)

    def close(self) -> None:
        end = self.end
        if end is not None:
            self.broken("the channel was closed")
            end.close("the client closed its channel")


class _UnaryEnding:
    """Waits for the one answer."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def answered(self, data: bytes) -> None:
        if not self.future.done():
            self.future.set_result(data)

    def ended(self, error: bytes | None) -> None:
        typed = None if error is None else error_from_bytes(error)
        self._fail(typed or OutcomeUnknown(f"{self._address} ended the call without an answer"))

    def broken(self, reason: str) -> None:
        self._fail(OutcomeUnknown(f"no answer from {self._address}: {reason}"))

    def _fail(self, error: StrandlineError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class SimulatedStream(Generic[Request, Response]):
    """A bidirectional call as a `Stream`."""

    def __init__(self, channel: _Channel, end: End, method: Method[Request, Response]) -> None:
        self._channel = channel
        self._end = end
        self._method = method
        self._error: StrandlineError | None = None
        self._over = asyncio.Event()
        self._call: Opened

    def begin(self, key: bytes | None) -> None:
        call = self._call = self._channel.begin(self._end, self._method.path, key, self)
        call.up = Flow(self._end, call.stream)
        call.down = Flow(self._end.peer, call.stream)
        self._channel.send(self._end, call)

    # --- the port ----------------------------------------------------------------------------

    async def write(self, request: Request) -> None:
        data = encoded(self._method, request)
        try:
            await self._call.up.write(data)
        except FlowBroken as error:
            raise self._failure(str(error)) from error

    async def read(self) -> Response:
        try:
            data = await self._call.down.read()
        except FlowBroken as error:
            raise self._failure(str(error)) from error
        if data is None:
            raise StreamEnded(f"{self._channel.address} ended the stream")
        return self._method.decode(data)

    async def finish(self) -> None:
        if not self._over.is_set():
            self._call.up.end()
            await self._over.wait()

    def close(self) -> None:
        self._channel.cancel(self._end, self._call.stream)
        self._end_all(f"the stream to {self._channel.address} was closed")

    # --- what the server does ----------------------------------------------------------------

    def answered(self, data: bytes) -> None:
        raise AssertionError("a stream has no single answer")

    def ended(self, error: bytes | None) -> None:
        self._channel.forget(self._call.stream)
        if error is not None:
            self._error = error_from_bytes(error)
            self._end_all("the peer refused the stream")
            return
        self._over.set()
        self._call.up.break_writing("the peer ended the stream")
        self._call.down.arrive(None)

    def broken(self, reason: str) -> None:
        self._end_all(f"no answer from {self._channel.address}: {reason}")

    def _end_all(self, reason: str) -> None:
        self._over.set()
        self._call.up.break_writing(reason)
        self._call.down.break_reading(reason)

    def _failure(self, reason: str) -> StrandlineError:
        return self._error or OutcomeUnknown(reason)


class SimulatedTransport:
    """`Transport` between simulated processes, one connection for each address."""

    def __init__(self, network: Network, process: Process, key: ShownKey | None) -> None:
        self._network = network
        self._process = process
        self._key: Callable[[], bytes | None] = key or (lambda: None)
        self._channels: dict[str, _Channel] = {}

    async def call(
        self, address: str, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        data = encoded(method, request)
        channel = self._channel(address)
        end = await channel.connected(timeout_s)
        ending = _UnaryEnding(address)
        call = channel.begin(end, method.path, self._key(), ending)
        call.request = data
        channel.send(end, call)
        try:
            async with asyncio.timeout(timeout_s):
                answer = await ending.future
        except TimeoutError:
            raise OutcomeUnknown(f"no answer from {address}: DEADLINE_EXCEEDED") from None
        finally:
            if ending.future.done() and not ending.future.cancelled():
                channel.forget(call.stream)
            else:
                channel.cancel(end, call.stream)
        return method.decode(answer)

    async def open(
        self, address: str, method: Method[Request, Response], *, timeout_s: float
    ) -> Stream[Request, Response]:
        channel = self._channel(address)
        stream = SimulatedStream(channel, await channel.connected(timeout_s), method)
        with contextlib.suppress(OutcomeUnknown):
            stream.begin(self._key())
            return stream
        raise BrokerNotAvailable(f"the connection to {address} was lost")

    async def close(self) -> None:
        channels = list(self._channels.values())
        self._channels.clear()
        for channel in channels:
            channel.close()

    def _channel(self, address: str) -> _Channel:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = _Channel(self._network, self._process, address)
        return channel
