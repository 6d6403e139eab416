"""A TCP proxy on the test's own loop: cut a link without touching either end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from strandline.local.ports import LOOPBACK

CHUNK_BYTES = 64 * 1024


class Proxy:
    """Forwards connections to `port` of the loopback address while it is not cut.

    `cut` resets what is connected and hangs up on what comes; `mend` lets connections through again.
    `refuse` resets what is connected and closes the port, so that the kernel refuses what comes; `listen`
    opens it again. Each side hears the other `delay_s` later. `change_first` changes
    what a client sends first. While `swallows_answers`, what the target says is lost, except on connections
    that `spare` has found.
    """

    def __init__(self, port: int, *, delay_s: float = 0.0) -> None:
        self._target = port
        self._delay_s = delay_s
        self.swallows_answers = False
        self.change_first: Callable[[bytes], bytes] = bytes
        self._server: asyncio.Server | None = None
        self._connected: set[asyncio.WriteTransport] = set()
        self._is_cut = False
        self._answers: set[asyncio.StreamReader] = set()
        """What the target says, on all connections that were not spared."""
        self.port = 0

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def cut(self) -> None:
        self._is_cut = True
        for transport in list(self._connected):
            transport.abort()

    def mend(self) -> None:
        self._is_cut = False

    def spare(self) -> None:
        """Swallow no answers on the connections that there are now."""
        self._answers.clear()

    async def refuse(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._forward, LOOPBACK, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self.mend()

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self.cut()
        self._server.close()
        await self._server.wait_closed()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        try:
            onward_reader, onward_writer = await asyncio.open_connection(LOOPBACK, self._target)
        except OSError:
            writer.transport.abort()
            return
        transports = {writer.transport, onward_writer.transport}
        self._connected |= transports
        self._answers.add(onward_reader)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._copy(reader, onward_writer, self.change_first))
                group.create_task(self._copy(onward_reader, writer))
        except* OSError:
            pass  # one side hung up; the other is closed below
        finally:
            self._connected -= transports
            self._answers.discard(onward_reader)
            for transport in transports:
                transport.abort()

    async def _copy(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        change: Callable[[bytes], bytes] = bytes,
    ) -> None:
        """`change` is for what is read first."""
        loop = asyncio.get_running_loop()
        while data := await reader.read(CHUNK_BYTES):
            if self.swallows_answers and reader in self._answers:
                continue
            data, change = change(data), bytes
            if self._delay_s:
                loop.call_later(self._delay_s, writer.write, data)
            else:
                writer.write(data)
                await writer.drain()
        raise ConnectionResetError("the peer closed")
