"""A Kafka client that sends what a test wants: whole requests, or any bytes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.broker.kafka.support.codec import decode_answer, encode_request
from tests.broker.kafka.support.kio_codec import Values

ANSWER_S_MAX = 20.0


class KafkaWire:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._correlation_id = 0

    async def ask(self, api: int, version: int, /, **values: Any) -> Values:
        """The answer to one request. Fields that are not given have their defaults."""
        self._correlation_id += 1
        data = encode_request(api, version, values, correlation_id=self._correlation_id)
        self.send(len(data).to_bytes(4, "big") + data)
        correlation_id, found = decode_answer(api, version, await self.frame())
        assert correlation_id == self._correlation_id
        return found

    async def frame(self) -> bytes:
        """The next answer, without its length."""
        async with asyncio.timeout(ANSWER_S_MAX):
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            return await self._reader.readexactly(size)

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def ended(self) -> bytes:
        """Waits until the broker has closed the connection. Returns what it sent before."""
        async with asyncio.timeout(ANSWER_S_MAX):
            try:
                return await self._reader.read()
            except ConnectionResetError:
                return b""


@asynccontextmanager
async def kafka_wire(address: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[KafkaWire]:
    """None: in plaintext."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)
    try:
        yield KafkaWire(reader, writer)
    finally:
        writer.transport.abort()
