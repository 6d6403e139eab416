"""Asks leaders what pages show of their partitions: once for all browsers that look at one page."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from strandline.client.admin.admin import Admin
from strandline.console.core.topics.rates import Described, Rates
from strandline.ids import TopicPartition
from strandline.ports import Clock

AGE_S: Final = 1.0
"""How long an answer is shared."""
WAIT_MS: Final = 400
"""How long a page waits for leaders."""
KEPT_MAX: Final = 100
"""Answers that are kept; those that were wanted longest ago go first."""


@dataclass(slots=True)
class _Told:
    """What leaders said last of some partitions. Only one question is under way."""

    wanted_s: float
    answer: Described = field(default_factory=dict)
    told_s: float | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Leaders:
    """Answers of leaders, and in `rates` how fast partitions grow. Only callers with the same client, thus
    with the same rights, share an answer."""

    def __init__(self, clock: Clock) -> None:
        self.rates = Rates()
        self._clock = clock
        self._told: OrderedDict[tuple[Admin, tuple[TopicPartition, ...]], _Told] = OrderedDict()

    async def describe(self, admin: Admin, names: Sequence[TopicPartition]) -> Described:
        """What leaders say of these partitions, at most AGE_S old; without those that refuse, or that do not
        answer within WAIT_MS."""
        if not names:
            return {}
        key = admin, tuple(names)
        now_s = self._clock.monotonic()
        told = self._told.setdefault(key, _Told(now_s))
        told.wanted_s = now_s
        self._told.move_to_end(key)
        self._forget(now_s)
        async with told.lock:
            if told.told_s is None or self._clock.monotonic() - told.told_s >= AGE_S:
                answers = await admin.describe_replicas(names, wait_ms=WAIT_MS)
                told.answer = self.rates.take(answers, self._clock.wall_ms())
                told.told_s = self._clock.monotonic()
            return told.answer

    def _forget(self, now_s: float) -> None:
        """Forgets answers that are too old, and with them the clients of browsers that are gone."""
        for key, told in list(self._told.items()):
            if len(self._told) <= KEPT_MAX and (told.lock.locked() or now_s - told.wanted_s < AGE_S):
                return
            del self._told[key]
