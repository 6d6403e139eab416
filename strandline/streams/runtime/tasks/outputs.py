"""Collects a task's outputs by topic and column while records are processed, and sends them in between."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from strandline.client.retry import retry
from strandline.config.limits import MIB
from strandline.config.streams import StreamsSettings
from strandline.errors import BrokerNotAvailable
from strandline.ids import TopicPartition
from strandline.ports import Clock
from strandline.producer.producer import Headers, Producer
from strandline.producer.tickets import BulkMetadata
from strandline.streams.core.origins import ORIGIN_HEADER, origin_place, origin_suffix
from strandline.streams.topology.graph import Emit

WAITING_BYTES_MAX: Final = MIB
"""Size of the outputs collected before processing stops to send them: one record may cause many."""
OUTPUT_OVERHEAD_BYTES: Final = 64
"""Counted for each output besides its key and value."""


class Waiting(NamedTuple):
    """The outputs to one topic that are not sent yet; the lists have one element for each."""

    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps_ms: list[int]
    headers: list[Headers]

    def take(self) -> Waiting:
        """Remove and return all of them."""
        taken = Waiting(*(column.copy() for column in self))  # type: ignore[arg-type]  # of one kind
        for column in self:
            column.clear()
        return taken


class Outputs:
    """The outputs of one task. Records for a repartition topic carry their origin (CORRECTNESS S9)."""

    def __init__(
        self, producer: Producer, repartitions: Collection[str], *, settings: StreamsSettings, clock: Clock
    ) -> None:
        self._producer = producer
        self._repartitions = repartitions
        self._settings = settings
        self._clock = clock
        self._waiting: dict[str, Waiting] = {}
        self.room = WAITING_BYTES_MAX
        """The bytes that may be collected before `send`; below 0: at once."""
        self._sending = asyncio.Lock()
        """Held while collected outputs go to the producer, which may take a while: a concurrent flush waits
        for all of it."""
        self._sent: list[asyncio.Future[BulkMetadata]] = []
        self._source = b""
        self._offset = 0
        self._index = 0

    def come_from(self, source: TopicPartition) -> None:
        """Set the source partition of the following outputs; `begin` sets the record."""
        self._source = origin_suffix(source)

    def begin(self, offset: int) -> None:
        """The following outputs are those of the record at this offset."""
        self._offset, self._index = offset, 0

    def emit_to(self, topic: str) -> Emit:
        """The function that collects the outputs to a topic."""
        waiting = self._waiting.setdefault(topic, Waiting([], [], [], []))
        add_key, add_value = waiting.keys.append, waiting.values.append
        add_timestamp, add_headers = waiting.timestamps_ms.append, waiting.headers.append
        marked = topic in self._repartitions

        def emit(key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers) -> None:
            if marked:
                own = [header for header in headers if header[0] != ORIGIN_HEADER] if headers else ()
                headers = (*own, (ORIGIN_HEADER, origin_place(self._offset, self._index) + self._source))
                self._index += 1
            add_key(key)
            add_value(value)
            add_timestamp(timestamp_ms)
            add_headers(headers)
            self.room -= OUTPUT_OVERHEAD_BYTES + len(key or b"") + len(value or b"")

        return emit

    async def send(self) -> None:
        """Pass collected outputs to the producer. Raises its refusals."""
        async with self._sending:
            waiting = self.take()
            self._sent = [sent for sent in self._sent if not sent.done()]
            for topic, outputs in waiting.items():
                self._sent.append(await self._send(topic, outputs))

    def take(self) -> dict[str, Waiting]:
        """Remove and return what is collected, by topic."""
        self.room = WAITING_BYTES_MAX
        return {topic: each.take() for topic, each in self._waiting.items() if each.keys}

    async def pass_on(self, taken: Mapping[str, Waiting]) -> None:
        """Pass these to a producer that reports their failures at the end of its transaction. Raises its
        refusals."""
        for topic, outputs in taken.items():
            _ = await self._send(topic, outputs)

    async def _send(self, topic: str, outputs: Waiting) -> asyncio.Future[BulkMetadata]:
        """Retries while no broker is reachable for the topic's metadata: this is no failure, as it is none
        while the metadata is known. `flush` checks the acknowledgements."""
        keys, values, timestamps_ms, headers = outputs
        return await retry(
            lambda: self._producer.send_many(
                topic, values, keys=keys, headers=headers, timestamps_ms=timestamps_ms
            ),
            f"{len(keys)} records for {topic} wait",
            settings=self._settings,
            clock=self._clock,
            retriable=lambda error: isinstance(error, BrokerNotAvailable),
            limit_s=self._settings.delivery_timeout_ms / 1000,
        )

    async def flush(self) -> None:
        """Return once all outputs are committed. Raises the failure of any of them."""
        await self.send()
        if self._sent:
            await asyncio.wait(self._sent)
        if self._producer.failure is not None:
            raise self._producer.failure
