"""Asks again and again for the state of the cluster: its brokers, its controller, its topics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Final

from strandline.client.admin.admin import Admin
from strandline.console.core.seen import Seen
from strandline.errors import StrandlineError
from strandline.ports import Clock

SETTLE_S: Final = 0.1
"""The pause after a poke: several come together."""
STALE_S: Final = 0.5
"""How old the metadata of a broker may be (`metadata_age_ms_max`)."""
PARTITIONS_A_REFRESH: Final = 500
SLOWER_MAX: Final = 10


class ClusterFeed:
    """The last seen state of the cluster, in `seen`. `changed` is called when it is another than before."""

    def __init__(self, admin: Admin, clock: Clock, refresh_ms: int, changed: Callable[[], None]) -> None:
        self.seen = Seen()
        self._admin = admin
        self._clock = clock
        self._refresh_s = refresh_ms / 1000
        self._changed = changed
        self._poked = asyncio.Event()

    def poke(self) -> None:
        """Something has happened in the cluster: read its state soon."""
        self._poked.set()

    async def run(self) -> None:
        """Reads without an end. The two halves do not wait for each other: there are brokers without a
        controller."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._metadata_again_and_again())
            tasks.create_task(self._describe_again_and_again())

    async def _metadata_again_and_again(self) -> None:
        while True:
            await self._noted(self._read_metadata())
            if await self._is_poked(self._pause_s()):
                await self._clock.sleep(SETTLE_S)  # what is poked often is read this often
                await self._noted(self._read_metadata())
                await self._clock.sleep(STALE_S)  # a broker may have answered from what it knew before

    async def _describe_again_and_again(self) -> None:
        while True:
            await self._noted(self._describe())
            await self._clock.sleep(self._refresh_s)

    async def _noted(self, reading: Coroutine[Any, Any, None]) -> None:
        before = self.seen
        await reading
        if not _same(before, self.seen):
            self._changed()

    async def _is_poked(self, wait_s: float) -> bool:
        try:
            async with asyncio.timeout(wait_s):
                await self._poked.wait()
        except TimeoutError:
            return False
        self._poked.clear()
        return True

    def _pause_s(self) -> float:
        """Large clusters are read less often, unless something happens: their metadata is large."""
        partitions = sum(len(topic.partitions) for topic in self.seen.topics)
        return self._refresh_s * min(SLOWER_MAX, 1 + partitions / PARTITIONS_A_REFRESH)

    async def _read_metadata(self) -> None:
        try:
            found = await self._admin.metadata()
        except StrandlineError as error:
            self.seen = replace(self.seen, problem=error.message)
            return
        self.seen = replace(
            self.seen,
            cluster_id=found.cluster_id,
            brokers=found.brokers,
            topics=found.topics,
            read_at_ms=self._clock.wall_ms(),
            problem="",
        )

    async def _describe(self) -> None:
        try:
            found = await self._admin.describe_cluster()
            moves = await self._admin.list_reassignments()
        except StrandlineError as error:
            self.seen = replace(self.seen, controller_problem=error.message)
            return
        self.seen = replace(
            self.seen,
            controller=found.controller,
            described=found.brokers,
            moves=tuple(moves),
            described_at_ms=self._clock.wall_ms(),
            controller_problem="",
        )


def _same(before: Seen, after: Seen) -> bool:
    """Whether nothing has changed but the times of the readings."""
    return replace(before, read_at_ms=after.read_at_ms, described_at_ms=after.described_at_ms) == after
