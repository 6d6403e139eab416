"""Asks leaders how large their partitions are, while a browser looks at the brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from strandline.client.admin.admin import Admin
from strandline.console.core.overview.loads import Load, loads
from strandline.console.core.seen import Seen
from strandline.console.core.topics.rates import Rates
from strandline.errors import StrandlineError
from strandline.ids import NO_BROKER, TopicPartition
from strandline.ports import Clock

PAUSE_S: Final = 5.0
UNSEEN_PAUSE_S: Final = 0.5
"""The pause while no leader is known, as before the cluster has been read."""
LOOKING_S: Final = 15.0
"""How long after a look a browser counts as looking."""
ANSWERS_MS_MAX: Final = 1_000
RATES_AFTER: Final = 2
"""Readings that a rate takes; a size takes one."""
PARTITIONS_MAX: Final = 5_000
"""With more partitions the loads are not known."""


class LoadsFeed:
    """The load of each broker, in `now`; None: it is not known. `changed` is called after a reading that has
    changed it."""

    def __init__(
        self, admin: Admin, clock: Clock, seen: Callable[[], Seen], changed: Callable[[], None]
    ) -> None:
        self.now: dict[int, Load] | None = None
        self.tried = 0
        """How often the leaders were asked since a browser looks."""
        self._admin = admin
        self._clock = clock
        self._seen = seen
        self._changed = changed
        self._rates = Rates()
        self._looked = asyncio.Event()
        self._looked_s = clock.monotonic()

    def look(self) -> dict[int, Load] | None:
        """What is known now, for a browser that looks at it."""
        self._looked_s = self._clock.monotonic()
        self._looked.set()
        return self.now

    async def run(self) -> None:
        """Reads while browsers look, without an end."""
        while True:
            await self._looked.wait()
            if self._clock.monotonic() - self._looked_s > LOOKING_S:
                self._looked.clear()
                self.now, self.tried = None, 0
                continue
            leaders = self._leaders()
            if not leaders:
                self.now = None
                await self._clock.sleep(UNSEEN_PAUSE_S)
                continue
            before = self.now
            await self._read(leaders)
            self.tried += 1
            if self.now != before or self.tried <= RATES_AFTER:
                self._changed()
            await self._clock.sleep(PAUSE_S)

    def _leaders(self) -> dict[TopicPartition, int]:
        return {
            TopicPartition(topic.name, each.partition): each.leader
            for topic in self._seen().topics
            for each in topic.partitions
            if each.leader != NO_BROKER
        }

    async def _read(self, leaders: Mapping[TopicPartition, int]) -> None:
        if len(leaders) > PARTITIONS_MAX:
            self.now = None
            return
        try:
            answers = await self._admin.describe_replicas(leaders, wait_ms=ANSWERS_MS_MAX)
        except StrandlineError:
            return
        described = self._rates.take(answers, self._clock.wall_ms())
        self.now = loads(leaders, described, self._rates)
