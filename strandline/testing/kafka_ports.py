"""Real ports for Kafka clients of a `MemoryCluster`: bytes go to the brokers' played ports, and back.

A connection has two ends: one on the test's event loop, and one of a process of the played world. They are in
one thread, and either calls the other at once. A pause of one end is a pause of reading at the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from strandline.simulation.cluster import KAFKA_PORT
from strandline.testing.members import Running

LOOPBACK: Final = "127.0.0.1"
PIECE_BYTES: Final = 64 * 1024


class KafkaPorts:
    """One port for each broker. `open` binds them, and `serve` connects them with the cluster."""

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []
        self._connections: set[_Outside] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._running: Running | None = None

    async def open(self, brokers: int) -> None:
        loop = asyncio.get_running_loop()
        for number in range(brokers):
            new = partial(_Outside, self, number)
            self._servers.append(await loop.create_server(new, LOOPBACK, 0))

    @property
    def ports(self) -> list[int]:
        return [server.sockets[0].getsockname()[1] for server in self._servers]

    @property
    def settings(self) -> list[Mapping[str, Any]]:
        """Of each broker: where Kafka clients reach it."""
        return [
            {
                "kafka_port": KAFKA_PORT,
                "kafka_advertised_host": LOOPBACK,
                "kafka_advertised_port": port,
            }
            for port in self.ports
        ]

    def serve(self, running: Running) -> None:
        self._running = running

    def close(self) -> None:
        self._running = None
        for server in self._servers:
            server.close()
        for connection in tuple(self._connections):
            connection.abort()

    # --- for connections ---------------------------------------------------------------------

    def opened(self, connection: _Outside, number: int) -> None:
        """Connect to the broker with this number."""
        self._connections.add(connection)
        running = self._running
        if running is None:
            connection.abort()
            return
        address = f"{running.cluster.broker_machines[number].host}:{KAFKA_PORT}"
        inside = _Inside(connection)
        connection.inside = inside
        connecting = running.test.run(self._connect(running, address, inside))
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)

    async def _connect(self, running: Running, address: str, inside: _Inside) -> None:
        """Runs in the played world."""
        try:
            await running.test.connect_bytes(address, inside)
        except OSError:
            inside.outside.abort()

    def closed(self, connection: _Outside) -> None:
        self._connections.discard(connection)

    def soon(self, work: Any) -> None:
        """Call this in the played world."""
        if self._running is not None:
            self._running.world.loop.call_soon(work, context=self._running.test.life.context)


class _Outside(asyncio.Protocol):
    """The end towards the real client."""

    def __init__(self, ports: KafkaPorts, number: int) -> None:
        self._ports = ports
        self._number = number
        self._transport: asyncio.Transport | None = None
        self.inside: _Inside | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._ports.opened(self, self._number)

    def data_received(self, data: bytes) -> None:
        if self.inside is not None:
            self._ports.soon(partial(self.inside.send, data))

    def pause_writing(self) -> None:
        self._reading(True)

    def resume_writing(self) -> None:
        self._reading(False)

    def _reading(self, paused: bool) -> None:
        if self.inside is not None:
            self._ports.soon(partial(self.inside.pause, paused))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._ports.closed(self)
        if self.inside is not None:
            self._ports.soon(self.inside.close)

    # --- for the other end -------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def pause(self, paused: bool) -> None:
        if self._transport is not None and not self._transport.is_closing():
            (self._transport.pause_reading if paused else self._transport.resume_reading)()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class _Inside(asyncio.BufferedProtocol):
    """The end towards the broker."""

    def __init__(self, outside: _Outside) -> None:
        self.outside = outside
        self._transport: asyncio.Transport | None = None
        self._early = bytearray()
        """What the client sent before the broker was reached."""
        self._buffer = bytearray(PIECE_BYTES)
        self._over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._over:
            transport.abort()
            return
        transport.write(self._early)
        self._early.clear()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.outside.write(bytes(self._buffer[:nbytes]))

    def pause_writing(self) -> None:
        self.outside.pause(True)

    def resume_writing(self) -> None:
        self.outside.pause(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._over = True
        if exc is None:
            self.outside.close()
        else:
            self.outside.abort()

    # --- for the other end -------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        if self._transport is None:
            self._early += data
        else:
            self._transport.write(data)

    def pause(self, paused: bool) -> None:
        if self._transport is not None:
            (self._transport.pause_reading if paused else self._transport.resume_reading)()

    def close(self) -> None:
        self._over = True
        if self._transport is not None:
            self._transport.close()
