"""Connections whose bytes are no protocol, or damage of what clients send."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Final

from tests.integration.hostile.support.attack import Attack, rearranged, spoiled

HELD: Final = 200
"""Connections that stay open with half an input, until others take their places."""
END_S_MAX: Final = 0.25
"""How long a sender waits for the end of its connection; others hold theirs on."""
SPOILED_MAX: Final = 10
ADDRESSES: Final = 250
"""127.0.0.1 and the following: a bound on connections from one address is not what is tried here."""

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS: Final = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
OTHERS: Final = (
    b"GET / HTTP/1.1\r\n\r\n",
    PREFACE,
    PREFACE + SETTINGS,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\0\0\0\x0a\0\x12\0\0\0\0\0\x01\xff\xff",
    b"SSH-2.0-x\r\n",
    bytes(9),
)
"""How other protocols begin."""


class Conversation:
    """A connection, for as long as the peer lets it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def read_on(self) -> None:
        """Until the end, or for a while."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(END_S_MAX):
                while await self.reader.read(1 << 16):
                    pass

    def abort(self) -> None:
        self.writer.transport.abort()


async def connect(random: Random, port: int, context: ssl.SSLContext | None) -> Conversation | None:
    """From any address of this machine. None: the port does not take it."""
    source = f"127.0.0.{random.randint(1, ADDRESSES)}"
    try:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1",
            port,
            ssl=context,
            server_hostname=None if context is None else "127.0.0.1",
            local_addr=(source, 0),
        )
    except OSError:  # ssl.SSLError is one
        return None
    return Conversation(reader, writer)


class ByteAttack(Attack):
    """`context`: the bytes come after its handshake. `samples`: what honest clients send. `made_up`: bytes
    in the form of the port's protocol."""

    def __init__(
        self,
        port: int,
        samples: Sequence[bytes],
        made_up: Callable[[Random], bytes],
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._port = port
        self._samples = samples
        self._made_up = made_up
        self._context = context
        self._held: deque[Conversation] = deque()

    async def turn(self, random: Random) -> int:
        conversation = await connect(random, self._port, self._context)
        if conversation is None:
            return 1
        conversation.writer.write(self._input(random))
        match random.randrange(4):
            case 0:
                self._hold(conversation)
                return 1
            case 1:
                if conversation.writer.can_write_eof():
                    with suppress(OSError):
                        conversation.writer.write_eof()
                await conversation.read_on()
            case 2:
                await conversation.read_on()
            case _:
                with suppress(OSError):
                    await conversation.writer.drain()
        conversation.abort()
        return 1

    async def close(self) -> None:
        while self._held:
            self._held.popleft().abort()

    def _hold(self, conversation: Conversation) -> None:
        self._held.append(conversation)
        if len(self._held) > HELD:
            self._held.popleft().abort()

    def _input(self, random: Random) -> bytes:
        match random.randrange(8):
            case 0:
                return random.randbytes(random.choice((1, 5, 100, 2_000)))
            case 1:
                return random.choice(OTHERS) + random.randbytes(random.choice((0, 50)))
            case 2 | 3:
                return spoiled(random, random.choice(self._samples), SPOILED_MAX)
            case 4 | 5:
                return rearranged(random, self._samples)
            case _:
                return self._made_up(random)


def http2(random: Random) -> bytes:
    """The beginning of HTTP/2, then frames of any kind whose lengths may be lies (RFC 9113, section 4)."""
    frames = [PREFACE, SETTINGS]
    for _ in range(random.randint(1, 10)):
        payload = random.randbytes(random.choice((0, 4, 5, 8, 40, 300)))
        size = random.choice((len(payload), len(payload), len(payload), 0, 16_384, 2**24 - 1))
        kind, flags = random.randrange(12), random.choice((0, 1, 4, 5, 0xFF))
        stream = random.choice((0, 1, 2, 3, 2**31 - 1))
        frames.append(size.to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload)
    return b"".join(frames)


def tls_records(random: Random) -> bytes:
    """Records of any kind whose lengths may be lies (RFC 8446, section 5.1)."""
    records = []
    for _ in range(random.randint(1, 4)):
        payload = random.randbytes(random.choice((0, 1, 2, 40, 500)))
        size = random.choice((len(payload), len(payload), 0, 1, 16_384, 65_535))
        version = random.choice((0x0300, 0x0301, 0x0303, 0x0304, 0xFFFF))
        kind = random.choice((20, 21, 22, 23, 24, 0, 255))
        records.append(bytes([kind]) + version.to_bytes(2, "big") + size.to_bytes(2, "big") + payload)
    return b"".join(records)


def kafka_frames(random: Random) -> bytes:
    """Requests of any API whose lengths may be lies."""
    frames = []
    for _ in range(random.randint(1, 4)):
        key, version = random.choice((0, 1, 3, 17, 18, 36, random.randrange(100))), random.randrange(-1, 20)
        payload = random.randbytes(random.choice((0, 1, 8, 100)))
        request = key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + payload
        size = random.choice((len(request), len(request), 0, 2**31 - 1, 2**32 - 1, 16 * 2**20))
        frames.append(size.to_bytes(4, "big") + request)
    return b"".join(frames)
