"""Messages over a bare transport between two processes: what remains if a log did nothing.

`python -m strandline_lab.bench.log.bare serve KIND` prints its port and answers each message with 16 bytes.
`python -m strandline_lab.bench.log.bare call KIND PORT SIZE IN_FLIGHT COUNT` warms up, prints a line, and for
each line that it reads sends COUNT messages.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import grpc
import uvloop

from strandline.adapters.tls.grpc_credentials import add_port, open_channel
from strandline_lab.perf.malloc import keep_freed_memory

ANSWER: Final = bytes(16)
PATH: Final = "/bench.Bare/Exchange"
HOST: Final = "127.0.0.1"
OPTIONS: Final = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
PREFIX_BYTES: Final = 4
BUFFER_BYTES: Final = 1 << 20
WARM_UP: Final = 0.1


class _Frames(asyncio.BufferedProtocol):
    """Frames with a length before them; `took` is called with the size of each."""

    def __init__(self, took: Callable[[_Frames, int], None]) -> None:
        self._took = took
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._begin = self._end = 0
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def send(self, frame: bytes) -> None:
        self.transport.writelines((len(frame).to_bytes(PREFIX_BYTES, "big"), frame))

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._buffer[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        while self._end - self._begin >= PREFIX_BYTES:
            size = int.from_bytes(self._buffer[self._begin : self._begin + PREFIX_BYTES], "big")
            if self._end - self._begin < PREFIX_BYTES + size:
                break
            self._begin += PREFIX_BYTES + size
            self._took(self, size)
        left = self._end - self._begin
        if left == 0 or self._begin > BUFFER_BYTES // 2:
            self._buffer[:left] = bytes(self._buffer[self._begin : self._end])
            self._begin, self._end = 0, left


async def serve(kind: str) -> None:
    if kind == "grpc":
        server = grpc.aio.server(options=OPTIONS)
        handler: Any = grpc.stream_stream_rpc_method_handler(_answer_all)
        _, service, name = PATH.split("/")
        server.add_registered_method_handlers(service, {name: handler})
        port = add_port(server, f"{HOST}:0", None)
        await server.start()
    else:
        listening = await asyncio.get_running_loop().create_server(
            lambda: _Frames(lambda frames, _size: frames.send(ANSWER)), HOST, 0
        )
        port = listening.sockets[0].getsockname()[1]
    print(port, flush=True)
    await asyncio.Event().wait()


async def _answer_all(requests: AsyncIterator[bytes], context: Any) -> None:
    async for _ in requests:
        await context.write(ANSWER)


async def call(kind: str, port: int, size: int, in_flight: int, count: int) -> None:
    message = bytes(size)
    room = asyncio.Semaphore(in_flight)
    if kind == "grpc":
        async with open_channel(f"{HOST}:{port}", None, OPTIONS) as channel:
            stream: Any = channel.stream_stream(PATH)()
            async with asyncio.TaskGroup() as tasks:
                reading = tasks.create_task(_release_all(stream, room))
                await _rounds(count, in_flight, room, lambda: stream.write(message))
                reading.cancel()
    else:

        async def send() -> None:
            frames.send(message)

        _, frames = await asyncio.get_running_loop().create_connection(
            lambda: _Frames(lambda _frames, _size: room.release()), HOST, port
        )
        await _rounds(count, in_flight, room, send)


async def _release_all(stream: Any, room: asyncio.Semaphore) -> None:
    while await stream.read() is not grpc.aio.EOF:
        room.release()


async def _rounds(count: int, in_flight: int, room: asyncio.Semaphore, send: Callable[[], Any]) -> None:
    await _send_all(max(1, int(count * WARM_UP)), in_flight, room, send)
    print("ready", flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        await _send_all(count, in_flight, room, send)
        print("done", flush=True)


async def _send_all(count: int, in_flight: int, room: asyncio.Semaphore, send: Callable[[], Any]) -> None:
    for _ in range(count):
        await room.acquire()
        await send()
    for _ in range(in_flight):
        await room.acquire()
    for _ in range(in_flight):
        room.release()


def main(part: str, kind: str, *numbers: str) -> None:
    keep_freed_memory()
    if part == "serve":
        uvloop.run(serve(kind))
    else:
        port, size, in_flight, count = map(int, numbers)
        uvloop.run(call(kind, port, size, in_flight, count))


if __name__ == "__main__":
    main(*sys.argv[1:])
