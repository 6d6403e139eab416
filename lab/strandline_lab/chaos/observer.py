"""Records what a cluster reports while it has faults: leaders, in-sync replicas, watermarks, commits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from strandline import Admin
from strandline.adapters.system.clock import SystemClock
from strandline.errors import StrandlineError
from strandline_lab.chaos.core.plan import TopicPlan
from strandline_lab.chaos.world import World
from strandline_lab.core.observed import line_of, observed

LOOK_EVERY_S: Final = 0.25
COMMITTED_EVERY_S: Final = 1.0
ANSWER_S_MAX: Final = 2.0
REQUEST_TIMEOUT_MS: Final = 1_000


class Observer:
    """Writes `observations.jsonl` and `committed.jsonl` until it is cancelled. Writes nothing while no broker
    answers."""

    def __init__(self, world: World, topics: Sequence[TopicPlan], groups: Sequence[str], out: Path) -> None:
        self._bootstrap = world.bootstrap
        self._settings = world.client_settings
        self._topics = [topic.topic for topic in topics]
        self._groups = groups
        self._out = out
        self._clock = SystemClock()

    async def run(self) -> None:
        async with (
            Admin(self._bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS, **self._settings) as admin,
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(self._every(LOOK_EVERY_S, partial(self._look, admin)))
            for group in self._groups:
                tasks.create_task(self._every(COMMITTED_EVERY_S, partial(self._committed, admin, group)))

    async def _every(self, seconds: float, look: Callable[[], Awaitable[None]]) -> None:
        while True:
            began = self._clock.monotonic()
            try:
                async with asyncio.timeout(ANSWER_S_MAX):
                    await look()
            except (StrandlineError, TimeoutError):
                pass
            await self._clock.sleep(max(0.0, began + seconds - self._clock.monotonic()))

    async def _look(self, admin: Admin) -> None:
        described = await admin.describe_topics(self._topics)
        seen = observed(self._clock.wall_ms(), "admin", described)
        self._write("observations.jsonl", list(map(line_of, seen)))

    async def _committed(self, admin: Admin, group: str) -> None:
        offsets = await admin.group_offsets(group)
        at_ms = self._clock.wall_ms()
        self._write(
            "committed.jsonl",
            [
                {
                    "at_ms": at_ms,
                    "group": group,
                    "topic": name.topic,
                    "partition": name.partition,
                    "offset": committed.offset,
                }
                for name, committed in sorted(offsets.items())
            ],
        )

    def _write(self, name: str, lines: Sequence[dict[str, Any]]) -> None:
        with (self._out / name).open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
