"""A connection that sends frames of Kafka's protocol, and waits for an answer or for the end."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from enum import StrEnum
from typing import Final

CONNECT_S_MAX: Final = 5.0
_FRAME_BYTES_MAX: Final = 64 << 20
_INT32: Final = struct.Struct(">i")


class NoAnswer(StrEnum):
    """What came instead of an answer."""

    CLOSED = "(the connection was closed)"
    SILENCE = "(no answer)"


class Link:
    """One connection to one broker, made again after it was closed or an answer did not come."""

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, frame: bytes, seconds: float) -> bytes | NoAnswer:
        """Sends a request, and waits for its answer for `seconds`; both are without their lengths."""
        try:
            async with asyncio.timeout(seconds):
                reader, writer = self._streams or await asyncio.open_connection(*self._address)
                self._streams = reader, writer
                writer.write(_INT32.pack(len(frame)) + frame)
                (length,) = _INT32.unpack(await reader.readexactly(_INT32.size))
                if not 0 <= length <= _FRAME_BYTES_MAX:
                    raise ConnectionError(f"a frame of {length} bytes")
                return await reader.readexactly(length)
        except TimeoutError:
            await self.close()
            return NoAnswer.SILENCE
        except (OSError, EOFError):
            await self.close()
            return NoAnswer.CLOSED

    async def close(self) -> None:
        if self._streams is not None:
            _, writer = self._streams
            self._streams = None
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def can_connect(host: str, port: int) -> bool:
    """Whether a server takes connections there."""
    try:
        async with asyncio.timeout(CONNECT_S_MAX):
            _, writer = await asyncio.open_connection(host, port)
    except OSError:  # TimeoutError is one
        return False
    writer.close()
    return True
