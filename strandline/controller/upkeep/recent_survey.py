"""Reads the cluster, and keeps what was read for those who may have it a little later.

A survey of 3,000 partitions takes about a second of processor time. A command that waits for a balance asks
every second how far it is, and several may do so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from strandline.controller.core.survey import Survey
from strandline.ids import TopicPartition
from strandline.ports import Clock

KEPT_FROM_PARTITIONS: Final = 500
"""A survey of fewer partitions costs little, and is not kept."""

KEPT_S_A_PARTITION: Final = 0.002
KEPT_S_MAX: Final = 5.0
"""Upkeep makes a survey about as often while a balance is under way, so that others need none."""


Changed = Collection[TopicPartition]


class RecentSurvey:
    """The last survey. `read` makes one; `read_again` makes one of another, and reads only what moves, and
    what is said to have changed."""

    def __init__(
        self,
        read: Callable[[], Awaitable[Survey]],
        read_again: Callable[[Survey, Changed], Awaitable[Survey]],
        clock: Clock,
    ) -> None:
        self._read = read
        self._read_again = read_again
        self._clock = clock
        self._last: Survey | None = None
        self._began = self._ended = 0.0
        """When the last survey did."""
        self._reading = asyncio.Lock()

    async def now(self) -> Survey:
        """The cluster as it is now."""
        return await self._kept(self._read())

    async def again(self, changed: Changed) -> Survey:
        """The last survey, with what moves and these partitions as they are now."""
        if self._last is None:
            return await self.now()
        return await self._kept(self._read_again(self._last, changed))

    async def _kept(self, reading: Awaitable[Survey]) -> Survey:
        began = self._clock.monotonic()
        survey = await reading
        if began >= self._began:
            self._last, self._began, self._ended = survey, began, self._clock.monotonic()
        return survey

    async def recent(self) -> Survey:
        """The cluster as it is now, or as it was a few seconds ago if it has many partitions; while a drain
        or a balance is under way, what it does not move may be older. Those who ask at the same time share
        one reading."""
        async with self._reading:
            if self._last is not None and self._clock.monotonic() - self._ended < _kept_s(self._last):
                return self._last
            return await self.now()


def _kept_s(survey: Survey) -> float:
    count = len(survey.partitions)
    return 0.0 if count < KEPT_FROM_PARTITIONS else min(KEPT_S_MAX, count * KEPT_S_A_PARTITION)
