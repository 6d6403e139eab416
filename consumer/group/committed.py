"""Asks what the group has committed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from strandline.client.backoff import backoff_s
from strandline.client.wire.groups import OFFSET_FETCH
from strandline.config import ConsumerSettings
from strandline.consumer.group.coordinator import Coordinator, no_answer
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Clock
from strandline.vocabulary.groups import FetchedOffsets, OffsetFetch


class Committed:
    """One group's."""

    def __init__(self, coordinator: Coordinator, settings: ConsumerSettings, clock: Clock) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._clock = clock

    async def fetch(self, names: Sequence[TopicPartition]) -> FetchedOffsets:
        """The offset of each partition, None where there is none.

        Raises the last error when `api_timeout_ms` is up.
        """
        request = OffsetFetch(self._coordinator.group, tuple(TopicPartition(*name) for name in names))
        limit_s = self._settings.api_timeout_ms / 1000
        deadline = self._clock.monotonic() + limit_s
        last: StrandlineError | None = None
        attempt = 0
        while True:
            try:
                async with asyncio.timeout(deadline - self._clock.monotonic()):
                    return await self._coordinator.call(OFFSET_FETCH, request)
            except StrandlineError as error:
                last = error
                attempt += 1
                if not error.retriable or self._clock.monotonic() >= deadline:
                    raise
                await self._clock.sleep(backoff_s(self._settings, attempt))
            except TimeoutError:
                raise last or no_answer(self._coordinator.group, limit_s) from None
