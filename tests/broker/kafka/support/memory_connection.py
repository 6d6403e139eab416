"""A Kafka connection without a socket: a transport in memory, and what connections share."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from strandline.adapters.system.clock import SystemClock
from strandline.adapters.telemetry.kafka_traffic import KafkaTraffic
from strandline.broker.kafka.connection import KafkaConnection
from strandline.broker.kafka.frame_memory import FramePools
from strandline.broker.kafka.router import Router
from strandline.broker.kafka.wire.fields import MalformedRequest
from strandline.config.limits import MIB
from strandline.ports import Caller, Clock, Listener
from strandline.security.quotas.bill import ClientQuotas
from strandline.tasks import Slices


class MemoryTransport(asyncio.Transport):
    """Keeps what is written. The test decides when it is full."""

    def __init__(self, host: str = "192.0.2.1") -> None:
        super().__init__({"peername": (host, 40_000)})
        self.written = bytearray()
        self.closing = False
        self.reading = True
        self.unread = 0

    def get_write_buffer_size(self) -> int:
        return self.unread

    def write(self, data: Any) -> None:
        self.written += data

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        for data in list_of_data:
            self.write(data)

    def is_reading(self) -> bool:
        return self.reading

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading and not self.closing
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True
        self.reading = False

    def abort(self) -> None:
        self.close()

    def frames(self) -> list[bytes]:
        """The whole answers so far."""
        found, data = [], bytes(self.written)
        while data:
            size = int.from_bytes(data[:4], "big")
            found.append(data[4 : 4 + size])
            data = data[4 + size :]
        return found


class MemoryShared:
    """What the connections of one test share. Its tasks are those of `tasks`."""

    def __init__(self, router: Router, tasks: asyncio.TaskGroup, *, memory_bytes: int = 64 * MIB) -> None:
        self.router = router
        self.traffic = KafkaTraffic(SystemClock())
        self.request_bytes_max = 16 * MIB
        self.memory = FramePools(memory_bytes, self.request_bytes_max)
        self.requests_in_flight_max = 5
        self.connections: set[KafkaConnection] = set()
        self.refused: list[str] = []
        self.names: list[str] = []
        self.with_logins = False
        self.clock: Clock = SystemClock()
        self.quotas = ClientQuotas(lambda _: False, self.now, delay_ms_max=5_000)
        self._tasks = tasks

    def now(self) -> float:
        return self.clock.monotonic()

    def slices(self) -> Slices:
        return Slices(SystemClock())

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._tasks.create_task(work)

    def calling(self, caller: Caller, api: str, request_id: int) -> Caller:
        return caller

    def has_logins(self, listener: Listener) -> bool:
        return self.with_logins

    def opened(self, connection: KafkaConnection) -> bool:
        self.connections.add(connection)
        return True

    def closed(self, connection: KafkaConnection) -> None:
        self.connections.discard(connection)

    def with_certificate(self, caller: Caller, certificate: bytes) -> Caller:
        return caller

    def answered(self, request: str, seconds: float) -> None:
        self.names.append(request)

    def malformed(self, error: MalformedRequest, peer: str) -> None:
        self.refused.append(error.message)

    def connect(self, host: str = "192.0.2.1") -> tuple[KafkaConnection, MemoryTransport]:
        connection, transport = KafkaConnection(self, Listener.INTERNAL), MemoryTransport(host)
        connection.connection_made(transport)
        return connection, transport


def feed(connection: KafkaConnection, transport: MemoryTransport, data: bytes, sizes: Iterable[int]) -> bytes:
    """Gives the connection bytes in pieces of at most these sizes, while it reads. Returns what is left."""
    for size in sizes:
        if not data or not transport.is_reading():
            break
        room = connection.get_buffer(-1)
        count = min(size, len(room), len(data))
        room[:count] = data[:count]
        room.release()
        connection.buffer_updated(count)
        data = data[count:]
    return data


async def turns(count: int = 3) -> None:
    """Lets everything run that can."""
    for _ in range(count):
        await asyncio.sleep(0)
