"""The topics of the group: one stays and grows, the others are made, grow, are deleted, and are made anew."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from strandline.client.admin.admin import Admin
from strandline.errors import StrandlineError
from strandline.host import Host
from strandline_lab.simulation.stage import Stage
from strandline_lab.simulation.workloads.topic import REPLICAS, ClosedTopic

REQUEST_TIMEOUT_MS: Final = 5_000
PARTITIONS_MAX: Final = 6
"""Of another topic."""
GROWTH: Final = 2
"""Partitions that the topic that stays gets at a time."""
GROWN_MAX: Final = 10
AGAIN_S: Final = 0.2


class ChangingTopics:
    """One change every `pause_s` seconds on average, until the faults end."""

    def __init__(self, stage: Stage, name: str, steady: ClosedTopic, others: tuple[str, ...]) -> None:
        self._stage = stage
        self._random = stage.random(f"{name} topics")
        self._steady = steady
        self._others = others
        self.done: dict[str, int] = {"made": 0, "deleted": 0, "grown": 0}
        """How many changes were answered, by kind."""

    async def run(self, host: Host, pause_s: float) -> None:
        growing = False
        while not self._stage.faults_ended.is_set():
            await host.clock.sleep(self._random.expovariate(1 / pause_s))
            changes: list[tuple[str, Callable[[Admin], Awaitable[object]]]] = []
            if self._others:
                changes += [("made", self._make), ("made", self._make), ("deleted", self._delete)]
                changes.append(("grown", self._grow))
            if len(self._steady.partitions) < GROWN_MAX:
                changes.append(("steady", self._grow_steady))
            if not changes:
                return
            kind, change = self._random.choice(changes)
            growing = growing or kind == "steady"
            with suppress(StrandlineError):
                async with self._admin(host) as admin:
                    await change(admin)
                if kind in self.done:
                    self.done[kind] += 1
        if growing:
            await self._settle(host)

    async def _make(self, admin: Admin) -> None:
        partitions = self._random.randint(1, PARTITIONS_MAX)
        await admin.create_topic(self._random.choice(self._others), partitions, REPLICAS, wait=False)

    async def _delete(self, admin: Admin) -> None:
        await admin.delete_topics([self._random.choice(self._others)])

    async def _grow(self, admin: Admin) -> None:
        partitions = self._random.randint(1, PARTITIONS_MAX)
        await admin.alter_topic(self._random.choice(self._others), partitions=partitions)

    async def _grow_steady(self, admin: Admin) -> None:
        wanted = len(self._steady.partitions) + GROWTH
        await admin.alter_topic(self._steady.name, partitions=wanted)
        self._steady.has_grown(wanted)

    async def _settle(self, host: Host) -> None:
        """A growth without an answer may have happened."""
        while True:
            try:
                async with self._admin(host) as admin:
                    (steady,) = await admin.describe_topics([self._steady.name])
            except StrandlineError:
                await asyncio.sleep(AGAIN_S)
                continue
            self._steady.has_grown(len(steady.partitions))
            return

    def _admin(self, host: Host) -> Admin:
        return Admin(self._stage.cluster.bootstrap, host=host, request_timeout_ms=REQUEST_TIMEOUT_MS)
