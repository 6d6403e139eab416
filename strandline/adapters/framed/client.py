"""The client's end of a stream of frames, as a `Stream`."""

from __future__ import annotations

import asyncio
import ssl
from typing import Generic

from google.protobuf.message import DecodeError

from strandline.adapters.framed.connection import FramedConnection
from strandline.adapters.framed.frames import Kind
from strandline.adapters.framed.opening import Opening, dump_opening
from strandline.adapters.rpc.transport import encoded
from strandline.adapters.rpc.wire_errors import error_from_bytes
from strandline.config.limits import ANSWER_BYTES_MAX
from strandline.errors import BrokerNotAvailable, OutcomeUnknown, StrandlineError
from strandline.ports import Method, Request, Response, StreamEnded


class FramedStream(Generic[Request, Response]):
    """An open stream: see `strandline.ports.Stream`."""

    def __init__(self, address: str, method: Method[Request, Response], connection: FramedConnection) -> None:
        self._address = address
        self._method = method
        self._connection = connection

    async def write(self, request: Request) -> None:
        if self._connection.closed.done():
            raise OutcomeUnknown(f"the stream to {self._address} has ended")
        await self._connection.send(Kind.MESSAGE, encoded(self._method, request))

    async def read(self) -> Response:
        frame = await self._connection.take()
        if frame is None:
            failure = self._connection.failure
            raise OutcomeUnknown(
                f"the connection to {self._address} is lost" if failure is None else failure.message
            )
        kind, data = frame
        match kind:
            case Kind.MESSAGE:
                return self._method.decode(data)
            case Kind.END:
                raise StreamEnded(f"{self._address} ended the stream")
            case Kind.ERROR:
                raise _refusal(self._address, data)
            case _:
                raise OutcomeUnknown(f"{self._address} sent a frame of kind {kind.name.lower()}")

    async def finish(self) -> None:
        await self._connection.send(Kind.END)
        await asyncio.shield(self._connection.closed)

    def close(self) -> None:
        self._connection.abort()


async def open_framed(
    host: str,
    port: int,
    method: Method[Request, Response],
    key: bytes | None,
    context: ssl.SSLContext | None,
    *,
    member: int | None = None,
    timeout_s: float,
) -> FramedStream[Request, Response]:
    """A stream on a connection of its own, which shows this key of the cluster's members. `context` None: the
    connection is in plaintext. `member`: the broker that is meant, which refuses a caller of another one.

    Raises BrokerNotAvailable if it is not open within the time, and the error with which the peer refuses it.
    """
    address, bare = f"{host}:{port}", host.strip("[]")
    connection = FramedConnection(ANSWER_BYTES_MAX)
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.get_running_loop().create_connection(
                lambda: connection, bare, port, ssl=context, server_hostname=bare if context else None
            )
            await connection.send(Kind.OPENING, dump_opening(Opening(method.path, key, member)))
            answer = await connection.take()
    except OSError as error:
        connection.abort()
        raise BrokerNotAvailable(f"no stream to {address}: {str(error) or 'no answer in time'}") from error
    except BaseException:
        connection.abort()
        raise
    if answer is not None and answer[0] is Kind.ACCEPTED:
        return FramedStream(address, method, connection)
    connection.abort()
    if answer is not None and answer[0] is Kind.ERROR:
        raise _refusal(address, answer[1])
    raise BrokerNotAvailable(f"no stream to {address}: it closed the connection")


def _refusal(address: str, data: bytes) -> StrandlineError:
    try:
        error = error_from_bytes(bytes(data))
    except DecodeError:
        error = None
    return error or OutcomeUnknown(f"{address} ended the stream, and did not say why")
