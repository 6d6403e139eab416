"""What crosses the loopback interface: a capture of packets, and the streams that they are parts of.

It needs a raw socket (packet(7)), which only root, or a process with CAP_NET_RAW, may open.
"""

from __future__ import annotations

import ctypes
import socket
import struct
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

ETH_P_IP: Final = 0x0800
SO_ATTACH_FILTER: Final = 26
SO_RCVBUFFORCE: Final = 33
SOL_PACKET: Final = 263
PACKET_STATISTICS: Final = 6
BUFFER_BYTES: Final = 64 << 20
POLL_S: Final = 0.1
LARGEST_PACKET: Final = 1 << 17

_LOAD_HALF, _JUMP_EQUAL, _RETURN = 0x28, 0x15, 0x06
_SOURCE_AT, _DESTINATION_AT = 20, 22
"""Where a packet has its ports, behind an IPv4 header without options."""


class Flow(NamedTuple):
    """One direction of a connection, by its ports."""

    source: int
    destination: int


class Capture:
    """The bytes of each flow, as far as they have come. `dropped`: packets that the kernel left out."""

    def __init__(self, ports: Sequence[int]) -> None:
        """Raises PermissionError."""
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP))
        self._socket.settimeout(POLL_S)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        self._attach(ports)
        self._socket.bind(("lo", ETH_P_IP))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, name="capture")
        self._flows: defaultdict[Flow, bytearray] = defaultdict(bytearray)

    def _attach(self, ports: Sequence[int]) -> None:
        """A filter for packets from or to these ports (classic BPF)."""
        words: list[tuple[int, int, int, int]] = []
        tests = [(at, port) for at in (_SOURCE_AT, _DESTINATION_AT) for port in ports]
        for number, (at, port) in enumerate(tests):
            left = len(tests) - 1 - number
            words += [(_LOAD_HALF, 0, 0, at), (_JUMP_EQUAL, 2 * left + 1, 0, port)]
        words += [(_RETURN, 0, 0, 0), (_RETURN, 0, 0, 0xFFFFFFFF)]
        assert 2 * len(tests) < 256, "a jump of this filter is one byte"
        program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *word) for word in words))
        self._socket.setsockopt(
            socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", len(words), ctypes.addressof(program))
        )

    def _read(self) -> None:
        while True:
            try:
                packet, (_, _, kind, _, _) = self._socket.recvfrom(LARGEST_PACKET)
            except TimeoutError:
                if self._ended.is_set():
                    return
                continue
            if kind == socket.PACKET_OUTGOING:  # each packet of this interface is seen twice
                continue
            segment = packet[(packet[0] & 15) * 4 : int.from_bytes(packet[2:4], "big") or None]
            source, destination = struct.unpack(">HH", segment[:4])
            self._flows[Flow(source, destination)] += segment[(segment[12] >> 4) * 4 :]

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """All packets up to now are in the flows afterwards."""
        self._ended.set()
        self._thread.join()
        statistics = self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
        self.seen, self.dropped = struct.unpack("II", statistics)
        self._socket.close()

    def holds(self, marker: bytes, *, source: int | None = None, destination: int | None = None) -> bool:
        """Whether a flow from or to these ports has it."""
        return any(marker in data for flow, data in self._between(source, destination))

    def _between(self, source: int | None, destination: int | None) -> Iterator[tuple[Flow, bytearray]]:
        for flow, data in self._flows.items():
            if source in (None, flow.source) and destination in (None, flow.destination):
                yield flow, data


@contextmanager
def capture(ports: Sequence[int]) -> Iterator[Capture]:
    """Packets from and to these ports, while the block runs. They may be looked at after it."""
    running = Capture(ports)
    running.start()
    try:
        yield running
    finally:
        running.stop()
