"""Finds positions: the group's committed offset, or by policy an end of the log or an offset by time."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from strandline.client.cluster import Cluster
from strandline.client.core.effects import FindPosition, Reset
from strandline.client.core.positions import Positions
from strandline.client.offsets import known, list_each_offset, list_offsets
from strandline.client.reading.records import FetchedBatch
from strandline.config.consumer import ConsumerSettings
from strandline.errors import OffsetOutOfRange, StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Clock
from strandline.vocabulary.groups import FetchedOffsets, ReadSince
from strandline.vocabulary.log import EARLIEST, LATEST, ListedOffset
from strandline.vocabulary.log_position import LogPosition, same_topic

logger = logging.getLogger(__name__)

CommittedLookup = Callable[[Sequence[TopicPartition]], Awaitable[FetchedOffsets]]
"""Fetches committed offsets, with retries. Raises StrandlineError."""

LOOKUP_PAUSE_S: Final = 1.0
"""The pause after a lookup that failed with all its retries."""


class PositionFinder:
    """Looks up offsets at the group's coordinator and at leaders, and moves positions there."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        positions: Positions[FetchedBatch],
        on_found: Callable[[TopicPartition], None],
        on_failure: Callable[[TopicPartition, StrandlineError], None],
        settings: ConsumerSettings,
        clock: Clock,
    ) -> None:
        self._cluster = cluster
        self._positions = positions
        self._on_found = on_found
        self._on_failure = on_failure
        self.committed: CommittedLookup | None = None
        """Of the group of a consumer, if it has one."""
        self._settings = settings
        self._clock = clock

    async def list(
        self, wanted: Mapping[TopicPartition, int], timeout_s: float | None = None
    ) -> dict[TopicPartition, ListedOffset]:
        """Offsets by time (milliseconds since the Unix epoch), or LATEST or EARLIEST. Raises the first error,
        a retriable one after `timeout_s`, or the request timeout."""
        limit_s = self._cluster.request_timeout_s if timeout_s is None else timeout_s
        settings = self._settings
        return known(
            await list_offsets(
                self._cluster, wanted, settings, self._clock, timeout_s=limit_s, stable=settings.stable
            )
        )

    async def find(self, searches: Sequence[FindPosition]) -> None:
        """Find positions, and set each as soon as it is known. Retriable errors are noted and retried."""
        started = await self._not_committed(searches)
        left = {search.name: search for search in started if self._wanted(search)}
        await self._find_by_time({name: self._timestamp(search) for name, search in left.items()}, started)

    async def _find_by_time(
        self, wanted: Mapping[TopicPartition, int], started: Mapping[FindPosition, ReadSince | None]
    ) -> None:
        """Move positions to the offsets of these times. Where no record is that recent, to the end."""
        left = {search.name: search for search in started}
        at_end: dict[TopicPartition, int] = {}

        def ended(name: TopicPartition, end: ListedOffset | StrandlineError) -> bool:
            search = left[name]
            if not self._wanted(search):
                return False
            if isinstance(end, ListedOffset):
                if end.offset < 0:
                    at_end[name] = LATEST
                else:
                    self._found(search, end, started[search])
                return False
            logger.warning("no position found for %s: %s", name, end)
            self._on_failure(name, end)
            return end.retriable

        await list_each_offset(
            self._cluster,
            wanted,
            self._settings,
            self._clock,
            timeout_s=self._cluster.request_timeout_s,
            on_end=ended,
            stable=self._settings.stable,
        )
        if at_end:
            await self._find_by_time(at_end, started)

    async def _not_committed(self, searches: Sequence[FindPosition]) -> dict[FindPosition, ReadSince | None]:
        """Move positions to the group's committed offsets. Returns the searches without one, each with its
        topic as it was when the group began to read it, if that is known."""
        if self.committed is None:
            return dict.fromkeys(searches)
        resumed = [search for search in searches if search.reset is Reset.POLICY and search.error is None]
        left = dict[FindPosition, ReadSince | None](
            (search, None) for search in searches if search not in resumed
        )
        while resumed := [search for search in resumed if self._wanted(search)]:
            try:
                found = await self.committed([search.name for search in resumed])
            except StrandlineError as error:
                logger.warning("no committed offsets found for %d partitions: %s", len(resumed), error)
                for search in [search for search in resumed if self._wanted(search)]:
                    self._on_failure(search.name, error)
                if not error.retriable:
                    break
                await self._clock.sleep(LOOKUP_PAUSE_S)
                continue
            for search in resumed:
                committed = found.get(search.name)
                if not self._wanted(search):
                    continue
                present = self._positions[search.name].topic_id
                if committed is None or not same_topic(committed.topic_id, present):
                    left[search] = found.read_since.get(search.name.topic)
                elif self._positions.found(search.name, search.search, committed.position):
                    self._positions[search.name].committed = committed.offset
                    self._on_found(search.name)
            break
        return left

    def _wanted(self, search: FindPosition) -> bool:
        return self._positions.searched(search.name, search.search)

    def _timestamp(self, search: FindPosition) -> int:
        if search.reset is not Reset.POLICY:
            return EARLIEST if search.reset is Reset.EARLIEST else LATEST
        if self._settings.offset_reset_timestamp_ms is not None:
            return self._settings.offset_reset_timestamp_ms
        return EARLIEST if self._settings.offset_reset == "earliest" else LATEST

    def _found(self, search: FindPosition, listed: ListedOffset, since: ReadSince | None) -> None:
        name = search.name
        if search.reset is Reset.POLICY and self._settings.never_resets:
            reason = f"{name} has no position" if search.error is None else search.error.message
            message = (
                f"{reason}; it has offsets {listed.log_start_offset} to {listed.high_watermark}, "
                "and offset_reset is none: seek to one of them"
            )
            self._on_failure(name, OffsetOutOfRange(message))
            return
        offset = listed.offset
        appeared = since is not None and since.precedes(name.partition, listed.topic_id)
        if appeared and self._timestamp(search) == LATEST:
            offset = listed.log_start_offset
            logger.info("%s appeared while the group reads its topic: from its first record", name)
        if search.error is not None:
            logger.warning("%s goes on at offset %d: %s", name, offset, search.error)
        self._positions.found(name, search.search, LogPosition(offset, listed.topic_id))
        self._on_found(name)
