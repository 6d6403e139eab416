"""Fetches the committed offsets of a group."""

from __future__ import annotations

from collections.abc import Sequence

from strandline.adapters.codecs.groups import OFFSET_FETCH
from strandline.client.coordinator import Coordinator
from strandline.config.consumer import ConsumerSettings
from strandline.errors import UnstableOffsetCommit
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import FetchedOffsets, OffsetFetch


class Committed:
    """Fetches the committed offsets of one group."""

    def __init__(self, coordinator: Coordinator, settings: ConsumerSettings) -> None:
        self._coordinator = coordinator
        self._settings = settings

    async def fetch(self, names: Sequence[TopicPartition]) -> FetchedOffsets:
        """The offset of each partition, None where there is none. An offset that an open transaction may
        replace is waited for (KIP-447).

        Raises the last error when `api_timeout_ms` is up.
        """
        wanted = tuple(TopicPartition(*name) for name in names)
        request = OffsetFetch(self._coordinator.name, wanted, require_stable=True)

        async def fetch() -> FetchedOffsets:
            found = await self._coordinator.call(OFFSET_FETCH, request)
            if found.unstable:
                open_ = ", ".join(map(str, sorted(found.unstable)))
                raise UnstableOffsetCommit(f"a transaction with offsets of the group is open: {open_}")
            return found

        what = "the fetch of committed offsets waits"
        return await self._coordinator.asked(fetch, what, limit_s=self._settings.api_timeout_ms / 1000)
