"""What a task sends to other topics: collected while records are processed, sent between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from strandline.client.retry import retry
from strandline.config import StreamsSettings
from strandline.errors import BrokerNotAvailable
from strandline.ids import TopicPartition
from strandline.ports import Clock
from strandline.producer.producer import Headers, Producer
from strandline.streams.core.origins import ORIGIN_HEADER, origin_header

Output = tuple[str, bytes | None, bytes | None, int, Headers]
"""Topic, key, value, timestamp in milliseconds, headers."""

WAITING_MAX: Final = 1_000
"""Outputs collected before processing stops to send them: one record may lead to many."""


class Outputs:
    """Of one task. What goes to a repartition topic says which record it comes from (CORRECTNESS S9)."""

    def __init__(
        self, producer: Producer, repartitions: Collection[str], *, settings: StreamsSettings, clock: Clock
    ) -> None:
        self._producer = producer
        self._repartitions = repartitions
        self._settings = settings
        self._clock = clock
        self._waiting: list[Output] = []
        self._sending = asyncio.Lock()
        """Held while what was collected goes to the producer, which may take a while: a flush that begins
        meanwhile waits for all of it."""
        self._source = TopicPartition("", 0)
        self._offset = 0
        self._index = 0

    @property
    def full(self) -> bool:
        return len(self._waiting) >= WAITING_MAX

    def come_from(self, source: TopicPartition) -> Callable[[int], None]:
        """What is emitted from now on comes from here; call the answer with the offset of each record."""
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
        """Hand what was collected to the producer. Raises what it refuses."""
        async with self._sending:
            waiting, self._waiting = self._waiting, []
            for output in waiting:
                topic, key, value, timestamp_ms, headers = output
                try:
                    # Whether it arrived is asked once for many, by `flush`.
                    _ = await self._producer.send(
                        topic, value, key, timestamp_ms=timestamp_ms, headers=headers
                    )
                except BrokerNotAvailable:
                    await self._send_later(output)

    async def _send_later(self, output: Output) -> None:
        """No broker could be asked where a topic's partitions are: that is no more a failure than it is while
        they are known."""
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
        """Return once all that was sent is committed. Raises what kept any of it from that."""
        await self.send()
        await self._producer.flush()
        if self._producer.failure is not None:
            raise self._producer.failure
