"""Fetches the committed offsets of a group."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from strandline.adapters.codecs.groups import OFFSET_FETCH
from strandline.client.coordinator import Coordinator, no_answer
from strandline.client.retry import retry
from strandline.config.consumer import ConsumerSettings
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Clock
from strandline.vocabulary.groups import FetchedOffsets, OffsetFetch


class Committed:
    """Fetches the committed offsets of one group."""

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
        errors: list[StrandlineError] = []
        try:
            async with asyncio.timeout(limit_s):
                return await retry(
                    lambda: self._coordinator.call(OFFSET_FETCH, request),
                    f"group {request.group}: the fetch of committed offsets waits",
                    settings=self._settings,
                    clock=self._clock,
                    limit_s=limit_s,
                    on_retry=errors.append,
                )
        except TimeoutError:
            raise errors[-1] if errors else no_answer(request.group, limit_s) from None
