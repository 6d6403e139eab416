"""Asks leaders what pages show of their partitions: once for all browsers that look at one page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strandline.client.admin.admin import Admin
from strandline.console.core.topics.rates import Described, Rates
from strandline.console.feeds.shared_answers import SharedAnswers
from strandline.ids import TopicPartition
from strandline.ports import Clock

WAIT_MS: Final = 400
"""How long a page waits for leaders."""


class Leaders:
    """Answers of leaders, and in `rates` how fast partitions grow. Only callers with the same client, thus
    with the same rights, share an answer."""

    def __init__(self, clock: Clock) -> None:
        self.rates = Rates()
        self._clock = clock
        self._answers: SharedAnswers[Described] = SharedAnswers(clock)

    async def describe(self, admin: Admin, names: Sequence[TopicPartition]) -> Described:
        """What leaders say of these partitions, a moment old at most; without those that refuse, or that do
        not answer within WAIT_MS."""
        if not names:
            return {}

        async def ask() -> Described:
            answers = await admin.describe_replicas(names, wait_ms=WAIT_MS)
            return self.rates.take(answers, self._clock.wall_ms())

        return await self._answers.get((admin, tuple(names)), ask)
