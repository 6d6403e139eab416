"""Calls to other processes, as the one that makes them sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from strandline.errors import BrokerNotAvailable, OutcomeUnknown

Request = TypeVar("Request")
Response = TypeVar("Response")
RequestIn = TypeVar("RequestIn", contravariant=True)
ResponseOut = TypeVar("ResponseOut", covariant=True)


@dataclass(frozen=True, slots=True)
class Method(Generic[Request, Response]):
    """One RPC: its path, and the functions that encode and decode its messages.

    Request and response are the service's own types, so that protobuf types stay inside its
    codec.
    """

    path: str
    encode: Callable[[Request], bytes]
    decode: Callable[[bytes], Response]


class StreamEnded(OutcomeUnknown):
    """The peer ended the stream in good order, after its last message."""


class CallUnknown(OutcomeUnknown):
    """The peer does not have this call, as one of an earlier version: it has done nothing."""


class StreamOver(BrokerNotAvailable):
    """The peer took no more requests of the stream, as its caller's login has ended, and has answered all
    that it took. The others were not carried out, and may be sent on another stream."""


class RefusedForNow(BrokerNotAvailable):
    """The peer refuses this client, which it had let in before: a later try may succeed."""


class Stream(Protocol[RequestIn, ResponseOut]):
    """One open bidirectional call. After an error it can only be closed."""

    async def write(self, request: RequestIn) -> None:
        """Returns once the transport has accepted the request. Raises OutcomeUnknown if the stream
        is broken; that it is over is for `read` to say, after the last answer."""
        ...

    async def read(self) -> ResponseOut:
        """The next response. Raises StreamEnded when the peer ends the stream, StreamOver when it takes no
        more requests, OutcomeUnknown when the stream breaks, and any typed error with which the peer ended
        it."""
        ...

    async def finish(self) -> None:
        """Ends the requests. Returns once the peer has read all of them and ended the stream, or
        the stream broke. Responses can still be read meanwhile."""
        ...

    def close(self) -> None: ...


class Transport(Protocol):
    """Calls to peers by address, `host:port`. Connections are kept, and re-established when broken."""

    async def call(
        self, address: str, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        """Send one request and return its response.

        Raises BrokerNotAvailable if there is no connection (nothing was sent), OutcomeUnknown if
        the connection broke or the time ran out, and any typed error that the peer answered with.
        """
        ...

    async def open(
        self, address: str, method: Method[Request, Response], *, timeout_s: float
    ) -> Stream[Request, Response]:
        """Open a stream. Raises BrokerNotAvailable if there is no connection within the time."""
        ...

    async def close(self) -> None: ...


class BlockingCall(Protocol[ResponseOut]):
    """One call in progress, of a transport that blocks."""

    def result(self) -> ResponseOut:
        """Wait for the answer. Raises the typed error in the answer, or OutcomeUnknown."""
        ...

    def on_done(self, listener: Callable[[], None]) -> None:
        """Call `listener`, in another thread, once `result` would not block."""
        ...

    def cancel(self) -> None:
        """Cancel the call, from any thread: `result` raises at once."""
        ...


class BlockingTransport(Protocol):
    """Calls to peers by address, for code that must reach them while the event loop is blocked. Several
    threads may use it."""

    def begin(
        self, address: str, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> BlockingCall[Response]:
        """Send a request; `result` of the returned call waits for the answer. Raises InvalidRequest."""
        ...

    def close(self) -> None:
        """Cancel all calls and close the connections."""
        ...
