"""Waits for the ends of batches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Generic

from strandline.producer.core.batch import Batch, Ticket


class Flushes(Generic[Ticket]):
    """The callers that wait until all batches up to theirs have ended."""

    def __init__(self) -> None:
        self._waiting: list[tuple[set[Batch[Ticket]], asyncio.Event]] = []

    async def ends_of(self, batches: set[Batch[Ticket]]) -> None:
        """Return once each of these batches is acknowledged or has failed."""
        if batches:
            ended = asyncio.Event()
            self._waiting.append((batches, ended))
            await ended.wait()

    def divided(self, batch: Batch[Ticket], parts: Iterable[Batch[Ticket]]) -> None:
        """Who waits for this batch waits for its parts."""
        for waited_for, _ in self._waiting:
            if batch in waited_for:
                waited_for.update(parts)
        self.settled(batch)

    def settled(self, batch: Batch[Ticket]) -> None:
        """A batch has ended."""
        for waited_for, ended in tuple(self._waiting):
            waited_for.discard(batch)
            if not waited_for:
                self._waiting.remove((waited_for, ended))
                ended.set()
