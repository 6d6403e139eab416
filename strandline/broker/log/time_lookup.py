"""Finds offsets by time. Decodes the batches that this needs outside the event loop, one by one."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from strandline.broker.replicas.replica import Replica
from strandline.broker.storage.segments.time_search import SearchStep, first_not_older
from strandline.errors import OffsetNotAvailable
from strandline.host import Host
from strandline.records import Codec
from strandline.tasks import Slices

SEARCHES_MAX: Final = 2
"""Searches at the same time: threads that decode compete with the event loop."""

RECORDS_AT_ONCE_MAX: Final = 1_000
"""Records of a plain batch that is searched on the event loop: for so few, a thread would take longer."""


class TimeLookup:
    """Searches the logs of one broker."""

    def __init__(self, host: Host) -> None:
        self._clock = host.clock
        self._threads = host.threads
        self._slots = asyncio.Semaphore(SEARCHES_MAX)

    async def first_not_older(
        self, replica: Replica, timestamp_ms: int | None, below: int, deadline: float
    ) -> tuple[int, int] | None:
        """Returns (offset, timestamp) of the first record of this time or later below an offset; None if
        there is none. Without a time: of the latest one that the log claims.

        Raises StorageFailed, NotLeaderOrFollower, and OffsetNotAvailable if it is not found by the deadline
        (monotonic seconds).
        """
        log, slices = replica.log, Slices(self._clock)
        start = offset = log.log_start_offset
        async with self._slots:
            while offset < below:
                replica.led()  # checked before each step
                if self._clock.monotonic() >= deadline:
                    raise OffsetNotAvailable(
                        f"{replica.name}: no time was left to look for timestamp {timestamp_ms}; "
                        "ask again, or for fewer partitions at once"
                    )
                step = log.search_time(timestamp_ms, start=offset, below=below)
                find = partial(first_not_older, step, timestamp_ms, start=start, below=below)
                found = find() if _is_small(step) else await self._threads.run(find)
                if found is not None:
                    return found
                offset = step.next_offset
                if slices.used_up:
                    await slices.next()
        return None


def _is_small(step: SearchStep) -> bool:
    header = step.header
    return header is None or (header.codec is Codec.NONE and header.record_count <= RECORDS_AT_ONCE_MAX)
