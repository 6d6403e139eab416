"""Opens connections that ask for nothing, thousands in one process: bare sockets without a client.

`python -m strandline_lab.bench.scale.idle_clients KIND ADDRESS…` prints `ready`, and carries out `open N`: N
connections to each address; then it prints a line. A connection counts as open once the broker has answered.
KIND is `grpc`, which sends HTTP/2's preface and then a ping a second, as strandline's clients do, or `kafka`,
which sends one ApiVersions request.
"""

from __future__ import annotations

import asyncio
import json
import resource
import struct
import sys
from collections.abc import Sequence
from typing import Final

from strandline.tasks import pipelined
from strandline_lab.perf.worker_processes import commands

AT_ONCE: Final = 100
"""Connections that are being opened at the same time: more overflow a listener's backlog."""
ANSWER_S_MAX: Final = 60.0
PING_S: Final = 1.0
PING_TURNS: Final = 20
"""The pings of a second are sent in this many turns."""

_API_VERSIONS: Final = struct.pack(">hhih", 18, 0, 1, -1)
_SETTINGS: Final = bytes.fromhex("000000 04 00 00000000")
_SETTINGS_TAKEN: Final = bytes.fromhex("000000 04 01 00000000")
_PING: Final = bytes.fromhex("000008 06 00 00000000 0000000000000000")

HELLO: Final = {
    "grpc": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS + _SETTINGS_TAKEN,
    "kafka": struct.pack(">I", len(_API_VERSIONS)) + _API_VERSIONS,
}


class Idle(asyncio.Protocol):
    """One connection."""

    def __init__(self, hello: bytes) -> None:
        self._hello = hello
        self.transport: asyncio.WriteTransport | None = None
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport
        transport.write(self._hello)

    def data_received(self, data: bytes) -> None:
        if not self.answered.done():
            self.answered.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.answered.done():
            self.answered.set_exception(error or ConnectionResetError("closed before an answer"))


async def open_all(kind: str, addresses: Sequence[str], count: int) -> list[Idle]:
    """Opens `count` connections to each address. Raises OSError, TimeoutError."""
    loop = asyncio.get_running_loop()

    async def one(address: str) -> Idle:
        host, _, port = address.rpartition(":")
        async with asyncio.timeout(ANSWER_S_MAX):
            _, idle = await loop.create_connection(lambda: Idle(HELLO[kind]), host, int(port))
            await idle.answered
            return idle

    return await pipelined(one, [*addresses] * count, in_flight_max=AT_ONCE)


async def ping_all(connections: Sequence[Idle]) -> None:
    """Sends a ping on each connection once in PING_S, until cancelled."""
    while True:
        for turn in range(PING_TURNS):
            for idle in connections[turn::PING_TURNS]:
                assert idle.transport is not None
                idle.transport.write(_PING)
            await asyncio.sleep(PING_S / PING_TURNS)


async def serve(kind: str, addresses: Sequence[str]) -> None:
    """Keeps connections open until standard input ends."""
    async with asyncio.TaskGroup() as tasks:
        pings: list[asyncio.Task[None]] = []
        async for _, count in commands():
            connections = await open_all(kind, addresses, int(count))
            if kind == "grpc":
                pings.append(tasks.create_task(ping_all(connections)))
            print(json.dumps({"open": len(connections)}), flush=True)
        for each in pings:
            each.cancel()


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(serve(sys.argv[1], sys.argv[2:]))
