"""Streams of bytes between simulated processes: `strandline.host.ListenBytes`, and its clients.

Protocols of asyncio are driven as on a real loop. What one end writes arrives in order, in pieces that the
seed draws, and no more of it is unread than a socket's buffers hold: then the writer is asked to pause.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, Final

from strandline.errors import SettingsError
from strandline.host import Arrival, OnArrival
from strandline.simulation.engine.loop import Process
from strandline.simulation.engine.network import End, Network

STREAM: Final = 1
ROOM: Final = 2
"""The streams of a connection: its bytes, and news of room in a reader's buffer."""
SOCKET_BYTES: Final = 64 * 1024
"""Bytes that a reader's socket holds while the reader pauses."""
HIGH_WATER_BYTES: Final = 64 * 1024
LOW_WATER_BYTES: Final = HIGH_WATER_BYTES // 4
"""A protocol is asked to pause while this much waits to be sent, and to resume below the second."""
SPLIT_RATE: Final = 0.3
"""The part of all pieces that are cut again."""
CONNECTIONS_MAX: Final = 1_000

NewProtocol = Callable[[], asyncio.BufferedProtocol]


class ByteStream(asyncio.Transport):
    """One end of a connection, as the transport of a protocol. Fulfils `network.Server`."""

    def __init__(self, network: Network, end: End) -> None:
        super().__init__()
        self._network = network
        self._end = end
        self._protocol: asyncio.BufferedProtocol | None = None
        self._label = f"bytes {end.connection.number} of {end.process.name}"
        self._unsent = bytearray()
        self._on_the_way = 0
        """Bytes that were sent, and not reported as read."""
        self._taken = 0
        """Bytes that were read, and not reported."""
        self._writing_paused = False
        self._unread: deque[bytes] = deque()
        self._ended = False
        """The peer sends nothing more."""
        self._reading = True
        self._closing = False
        self._lost = False

    def begin_with(self, protocol: asyncio.BufferedProtocol) -> None:
        """Drive this protocol from now on, unless the connection was lost before."""
        if self._lost:
            return
        self._protocol = protocol
        protocol.connection_made(self)
        self._read_soon()

    @property
    def peer_host(self) -> str:
        return self._end.peer.host

    # --- asyncio.Transport -------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name != "peername":
            return default
        return (self.peer_host, 40_000 + self._end.connection.number)

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading and not self._closing:
            self._reading = True
            self._read_soon()

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        if self._closing or self._lost:
            return
        for data in list_of_data:
            self._unsent += data
        self._send()
        if len(self._unsent) > HIGH_WATER_BYTES and not self._writing_paused and self._protocol is not None:
            self._writing_paused = True
            self._protocol.pause_writing()

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """What was written is still sent."""
        if not self._closing:
            self._closing = True
            self._reading = False
            self._send()

    def abort(self) -> None:
        """The peer loses what is on its way, perhaps."""
        if not self._lost:
            self._closing = True
            self._end.close("connection reset by peer", abrupt=True)
            self._lose(None)

    # --- bytes -------------------------------------------------------------------------------

    def _send(self) -> None:
        """Send what has room in the peer's socket, and the end of the stream after the last byte."""
        random = self._network.random
        while self._unsent and self._on_the_way < SOCKET_BYTES and self._end.open:
            count = min(len(self._unsent), SOCKET_BYTES - self._on_the_way)
            if random.random() < SPLIT_RATE:
                count = random.randint(1, count)
            piece = bytes(self._unsent[:count])
            del self._unsent[:count]
            self._on_the_way += count
            self._network.trace.note(self._label, piece)
            self._end.send(STREAM, _arrived, self._end.peer, piece)
        if self._closing and not self._lost and not (self._unsent and self._end.open):
            self._end.send(STREAM, _arrived, self._end.peer, b"")
            self._end.close("closed by peer")
            self._lose(None)

    def arrive(self, piece: bytes) -> None:
        """Without a byte: nothing follows, since the peer has closed its end in order."""
        if piece:
            self._unread.append(piece)
        else:
            self._ended = True
        self._read()

    def have_room(self, count: int) -> None:
        """The peer's protocol has taken this many bytes."""
        self._on_the_way -= count
        self._send()
        if self._writing_paused and len(self._unsent) <= LOW_WATER_BYTES and not self._lost:
            self._writing_paused = False
            assert self._protocol is not None
            self._protocol.resume_writing()

    def _read_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._read)

    def _read(self) -> None:
        """Hand over what has arrived, as far as the protocol reads."""
        protocol = self._protocol
        if protocol is None:
            return
        while self._unread and self._reading and not self._lost:
            piece = self._unread.popleft()
            with memoryview(protocol.get_buffer(len(piece))) as buffer:  # its owner may grow it afterwards
                count = min(len(piece), len(buffer))
                buffer[:count] = piece[:count]
            if count < len(piece):
                self._unread.appendleft(piece[count:])
            self._taken += count
            if self._taken >= SOCKET_BYTES // 2:
                self._end.send(ROOM, _has_room, self._end.peer, self._taken)
                self._taken = 0
            protocol.buffer_updated(count)
        if self._ended and not self._unread and self._reading and not self._lost:
            self._reading = False
            if not protocol.eof_received():
                self.close()

    # --- the end -----------------------------------------------------------------------------

    def broken(self, reason: str) -> None:
        """The connection is gone. Bytes of a peer that closed in order are still read."""
        if not self._ended:
            self._closing = True
            self._lose(ConnectionResetError(reason))

    def _lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = True
        self._reading = False
        self._unsent.clear()
        self._unread.clear()
        if self._protocol is not None:
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, error)

    def begin(self, call: object) -> None:
        raise AssertionError("a stream of bytes has no calls")

    def cancel(self, stream: int) -> None:
        raise AssertionError("a stream of bytes has no calls")


def _arrived(end: End, piece: bytes) -> None:
    if isinstance(end.receiver, ByteStream):
        end.receiver.arrive(piece)


def _has_room(end: End, count: int) -> None:
    if isinstance(end.receiver, ByteStream):
        end.receiver.have_room(count)


class SimulatedByteServer:
    """One bound port. Fulfils `strandline.host.BytesServer` and `network.Acceptor`."""

    connections_max = CONNECTIONS_MAX

    def __init__(self, network: Network, process: Process, setting: str, port: int) -> None:
        """Raises SettingsError."""
        self.process = process
        self._network = network
        self._new_protocol: NewProtocol | None = None
        self._on_arrival: OnArrival = lambda _: None
        self._tasks: asyncio.TaskGroup | None = None
        self._waiting: list[ByteStream] = []
        """Connections from before `serve`."""
        try:
            self.port = network.listen(process.host, port, self)
        except OSError as error:
            raise SettingsError(f"setting {setting} = {port}: {error}") from error

    async def serve(self, protocol: NewProtocol, tasks: asyncio.TaskGroup, on_arrival: OnArrival) -> None:
        """Nothing is encrypted here, so there are no handshakes."""
        self._new_protocol, self._tasks, self._on_arrival = protocol, tasks, on_arrival
        waiting, self._waiting = self._waiting, []
        for stream in waiting:
            self._arrive(stream)

    def close(self) -> None:
        self._new_protocol = None
        self._network.stop_listening(self.process.host, self.port)

    def accept(self, end: End) -> ByteStream:
        stream = ByteStream(self._network, end)
        if self._new_protocol is None:
            self._waiting.append(stream)
        else:
            asyncio.get_running_loop().call_soon(self._arrive, stream)
        return stream

    def _arrive(self, stream: ByteStream) -> None:
        arrival = None if self._new_protocol is None else self._on_arrival(stream.peer_host)
        if arrival is None:
            stream.abort()
        elif arrival.served and not arrival.wait_s:
            with arrival.counted:
                self._begin(stream)
        else:
            held = ExitStack()
            held.enter_context(arrival.counted)
            assert self._tasks is not None, "connections arrive at a server that serves"
            self._tasks.create_task(self._wait(stream, arrival, held))

    async def _wait(self, stream: ByteStream, arrival: Arrival, held: ExitStack) -> None:
        served = False
        with held:
            try:
                await asyncio.sleep(arrival.wait_s)
                served = arrival.served
            finally:
                if not served:
                    stream.abort()
            if served:
                self._begin(stream)

    def _begin(self, stream: ByteStream) -> None:
        if self._new_protocol is None:
            stream.abort()
        else:
            stream.begin_with(self._new_protocol())


async def connect_bytes(
    network: Network, process: Process, address: str, protocol: asyncio.BufferedProtocol
) -> ByteStream:
    """A connection of the running process to `host:port`, which drives the protocol. Raises OSError if no
    process listens there. It waits forever while the host cannot be reached: bound it."""
    loop = asyncio.get_running_loop()
    connected: asyncio.Future[End] = loop.create_future()

    def refused() -> None:
        if not connected.done():
            connected.set_exception(ConnectionRefusedError(f"{address} refuses connections"))

    def answered(end: End) -> None:
        if connected.done():
            end.close("the attempt was given up")
        else:
            _join(network, end, protocol)
            connected.set_result(end)

    give_up = network.connect(process, address, answered, refused, silence_s=None)
    try:
        end = await connected
    except asyncio.CancelledError:
        give_up()
        raise
    stream = end.receiver
    assert isinstance(stream, ByteStream)
    return stream


def _join(network: Network, end: End, protocol: asyncio.BufferedProtocol) -> None:
    """Make the client's end of an accepted connection."""
    assert isinstance(end.connection.server, ByteStream), f"{end.peer.host} serves no bytes at this port"
    stream = end.receiver = ByteStream(network, end)
    stream.begin_with(protocol)
