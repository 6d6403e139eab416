"""Reads high watermarks and log ends of the partitions that views show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from strandline.client.admin.admin import Admin
from strandline.console.core.window import Window
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Clock

LOOKED_AT_S: Final = 30.0
"""A partition is read for this long after a view showed it."""
PARTITIONS_MAX: Final = 500
"""Partitions that are read at once; of more, those that were shown last."""
EVERY_S: Final = 2.0
WAIT_MS: Final = 1_000
"""A leader that does not answer in this time is asked again with the next reading."""


class ReplicaOffsets:
    """Asks leaders, until `run` is cancelled. While no view shows partitions nothing is asked."""

    def __init__(self, admin: Admin, window: Window, clock: Clock) -> None:
        self._admin = admin
        self._window = window
        self._clock = clock
        self._until: dict[TopicPartition, float] = {}

    def looked_at(self, partitions: Iterable[TopicPartition]) -> None:
        """Notes that a view shows these partitions."""
        until = self._clock.monotonic() + LOOKED_AT_S
        for each in partitions:
            self._until.pop(each, None)
            self._until[each] = until
        while len(self._until) > PARTITIONS_MAX:
            del self._until[next(iter(self._until))]

    async def run(self) -> None:
        """Reads without an end."""
        while True:
            now = self._clock.monotonic()
            self._until = {name: until for name, until in self._until.items() if until > now}
            if self._until:
                await self._read(tuple(self._until))
            await self._clock.sleep(EVERY_S)

    async def _read(self, names: tuple[TopicPartition, ...]) -> None:
        try:
            found = await self._admin.describe_replicas(names, wait_ms=WAIT_MS)
        except StrandlineError:
            return  # what is wrong with the cluster the other feeds say
        now_ms = self._clock.wall_ms()
        for name, answer in found.items():
            if isinstance(answer, StrandlineError) or answer.high_watermark < 0:
                continue  # no broker leads it now, or its leader is too new to know
            watermark = answer.high_watermark
            self._window.seen_offsets(*name, now_ms, watermark, max(watermark, answer.log_end_offset))
