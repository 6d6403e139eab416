"""Asks again and again for the state of the cluster: its brokers, its controller, its topics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from strandline.client.admin.admin import Admin
from strandline.console.core.seen import Seen
from strandline.errors import StrandlineError
from strandline.ports import Clock


class ClusterFeed:
    """The last seen state of the cluster, in `seen`. `changed` is called when it is another than before."""

    def __init__(self, admin: Admin, clock: Clock, refresh_ms: int, changed: Callable[[], None]) -> None:
        self.seen = Seen()
        self._admin = admin
        self._clock = clock
        self._refresh_s = refresh_ms / 1000
        self._changed = changed

    async def run(self) -> None:
        """Reads without an end. The two halves do not wait for each other: there are brokers without a
        controller."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._again_and_again(self._read_metadata))
            tasks.create_task(self._again_and_again(self._describe))

    async def _again_and_again(self, read: Callable[[], Awaitable[None]]) -> None:
        while True:
            before = self.seen
            await read()
            if not _same(before, self.seen):
                self._changed()
            await self._clock.sleep(self._refresh_s)

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
        except StrandlineError as error:
            self.seen = replace(self.seen, controller_problem=error.message)
            return
        self.seen = replace(
            self.seen,
            controller=found.controller,
            described=found.brokers,
            described_at_ms=self._clock.wall_ms(),
            controller_problem="",
        )


def _same(before: Seen, after: Seen) -> bool:
    """Whether nothing has changed but the times of the readings."""
    return replace(before, read_at_ms=after.read_at_ms, described_at_ms=after.described_at_ms) == after
