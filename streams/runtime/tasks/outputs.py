"""Collects a task's outputs while records are processed, and sends them in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from strandline.client.retry import retry
from strandline.config.streams import StreamsSettings
from strandline.errors import BrokerNotAvailable
from strandline.ids import TopicPartition
from strandline.ports import Clock
from strandline.producer.producer import Headers, Producer
from strandline.streams.core.origins import ORIGIN_HEADER, origin_header

Output = tuple[str, bytes | None, bytes | None, int, Headers]
"""Topic, key, value, timestamp in milliseconds, headers."""

WAITING_MAX: Final = 1_000
"""Outputs collected before processing stops to send them: one record may cause many."""


class Outputs:
    """The outputs of one task. Records for a repartition topic carry their origin (CORRECTNESS S9)."""

    def __init__(
        self, producer: Producer, repartitions: Collection[str], *, settings: StreamsSettings, clock: Clock
    ) -> None:
        self._producer = producer
        self._repartitions = repartitions
        self._settings = settings
        self._clock = clock
        self._waiting: list[Output] = []
        self._sending = asyncio.Lock()
        """Held while collected outputs go to the producer, which may take a while: a concurrent flush waits
        for all of it."""
        self._source = TopicPartition("", 0)
        self._offset = 0
        self._index = 0

    @property
    def full(self) -> bool:
        return len(self._waiting) >= WAITING_MAX

    def come_from(self, source: TopicPartition) -> Callable[[int], None]:
        """Set the source partition of the following outputs; call the returned function with the offset of
        each record."""
        self._source = source
        return self._begin

    def _begin(self, offset: int) -> None:
        self._offset, self._index = offset, 0

    def emit(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers
    ) -> None:
        if topic in self._repartitions:
            origin = origin_header(self._source, self._offset, self._index)
            self._index += 1
            headers = (*(h for h in headers if h[0] != ORIGIN_HEADER), (ORIGIN_HEADER, origin))
        self._waiting.append((topic, key, value, timestamp_ms, headers))

    async def send(self) -> None:
        """Pass collected outputs to the producer. Raises its refusals."""
        async with self._sending:
            waiting, self._waiting = self._waiting, []
            for output in waiting:
                topic, key, value, timestamp_ms, headers = output
                try:
                    # `flush` checks the acknowledgements of many records at once.
                    _ = await self._producer.send(
                        topic, value, key, timestamp_ms=timestamp_ms, headers=headers
                    )
                except BrokerNotAvailable:
                    await self._send_later(output)

    async def _send_later(self, output: Output) -> None:
        """Retry while no broker is reachable for the topic's metadata: this is no failure, as it is none
        while the metadata is known."""
        topic, key, value, timestamp_ms, headers = output
        _ = await retry(
            lambda: self._producer.send(topic, value, key, timestamp_ms=timestamp_ms, headers=headers),
            f"a record for {topic} waits",
            settings=self._settings,
            clock=self._clock,
            retriable=lambda error: isinstance(error, BrokerNotAvailable),
            limit_s=self._settings.delivery_timeout_ms / 1000,
        )

    async def flush(self) -> None:
        """Return once all outputs are committed. Raises the failure of any of them."""
        await self.send()
        await self._producer.flush()
        if self._producer.failure is not None:
            raise self._producer.failure
