"""Answers of the cluster that all browsers share which look at one page with the same rights."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from strandline.ports import Clock

AGE_S: Final = 1.0
"""How long an answer is shared."""
KEPT_MAX: Final = 100
"""Answers that are kept; those that were wanted longest ago go first."""

Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Kept(Generic[Answer]):
    """The last answer to one question. Only one question is under way."""

    wanted_s: float
    answer: Answer | None = None
    told_s: float | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class SharedAnswers(Generic[Answer]):
    """Answers by their keys. A key has what the answer depends on, the caller's rights as well."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: OrderedDict[Hashable, _Kept[Answer]] = OrderedDict()

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer, at most AGE_S old. Raises what `ask` raises, which is not kept."""
        now_s = self._clock.monotonic()
        kept = self._kept.setdefault(key, _Kept(now_s))
        kept.wanted_s = now_s
        self._kept.move_to_end(key)
        self._forget(now_s)
        async with kept.lock:
            if kept.answer is None or kept.told_s is None or self._clock.monotonic() - kept.told_s >= AGE_S:
                kept.answer = await ask()
                kept.told_s = self._clock.monotonic()
            return kept.answer

    def _forget(self, now_s: float) -> None:
        """Forgets answers that are too old, and with them the clients of browsers that are gone."""
        for key, kept in list(self._kept.items()):
            if len(self._kept) <= KEPT_MAX and (kept.lock.locked() or now_s - kept.wanted_s < AGE_S):
                return
            del self._kept[key]
