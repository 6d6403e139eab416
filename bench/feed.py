"""A record at each tick into one partition, and the longest time between two acknowledgements."""

from __future__ import annotations

import asyncio
from typing import Final

from strandline import Producer, RecordMetadata
from strandline.adapters.system.clock import SystemClock

EVERY_S: Final = 0.002


class Feed:
    """`run` is its task."""

    def __init__(self, producer: Producer, topic: str, partition: int) -> None:
        self.longest_s = 0.0
        self.failed = 0
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._clock = SystemClock()
        self._acked_at = self._clock.monotonic()
        self._begun = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Send until told to stop."""
        while not stop.is_set():
            future = await self._producer.send(self._topic, b"x" * 100, partition=self._partition)
            future.add_done_callback(self._ended)
            await self._clock.sleep(EVERY_S)

    async def begun(self) -> None:
        """Return once the first record is acknowledged; what that took is no gap."""
        await self._begun.wait()

    def _ended(self, future: asyncio.Future[RecordMetadata]) -> None:
        if future.exception() is not None:
            self.failed += 1
            return
        now = self._clock.monotonic()
        if self._begun.is_set():
            self.longest_s = max(self.longest_s, now - self._acked_at)
        self._begun.set()
        self._acked_at = now
