"""Starts and stops members of a group in a few processes, and collects their reports.

One process for all would measure its own event loop; one for each would need more processes than a machine
has cores.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

from strandline.adapters.system.clock import SystemClock
from strandline.errors import OutcomeUnknown, RequestTimedOut
from strandline_lab.perf.rebalance_times import RECEIVED, Line, Ownership, Span
from strandline_lab.perf.worker_processes import WorkerProcesses

SETTLE_S_MAX: Final = 120.0
NO_SETTINGS: Final[Mapping[str, Any]] = MappingProxyType({})


class MemberProcesses:
    """Members of one group that read one topic; `settings` are those of each Consumer, and `connection` those
    of its connections, which no process gets as an argument: they may have secrets."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        settings: Mapping[str, Any],
        *,
        processes: int,
        connection: Mapping[str, Any] = NO_SETTINGS,
    ) -> None:
        self.lines: list[Line] = []
        """All lines since `forget`, and the earlier lines that ownership follows from."""
        self.members: dict[str, int] = {}
        """The number of each member's process, in the order of joining."""
        self._workers = WorkerProcesses(
            "strandline_lab.perf.rebalance_members",
            [(bootstrap, topic, json.dumps(dict(settings)))] * processes,
        )
        self._connection = connection
        self._partitions = partitions
        self._ownership = Ownership()
        self._reported = asyncio.Event()
        self._tasks = asyncio.TaskGroup()
        self._monotonic = SystemClock().monotonic
        self._names = 0
        self._changed_at = 0.0

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        await self._workers.__aenter__()
        self._workers.send(f"connect {quote(json.dumps(dict(self._connection)))}")
        for worker in range(len(self._workers)):
            self._tasks.create_task(self._listen(worker))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Has the members leave, and ends their processes."""
        await self._workers.__aexit__(kind, error, trace)
        await self._tasks.__aexit__(kind, error, trace)

    async def _listen(self, worker: int) -> None:
        async for fields in self._workers.lines(worker):
            line = Line(fields["at"], fields["member"], fields["event"], tuple(fields["partitions"]))
            self.lines.append(line)
            if line.event != RECEIVED:
                self._ownership.apply(line)
                self._changed_at = max(self._changed_at, line.at)
                self._reported.set()
        self._reported.set()

    async def add(self, members: int = 1) -> Span:
        """Starts `members` members, and waits until all members share the partitions."""
        since = self._monotonic()
        for _ in range(members):
            worker = self._names % len(self._workers)
            name = f"member-{self._names}"
            self._names += 1
            self.members[name] = worker
            self._workers.send(f"start {name}", worker)
        return await self._settled(since)

    async def remove_eldest(self) -> Span:
        """Stops the member that joined first, and waits until the others share its partitions."""
        since = self._monotonic()
        name = next(iter(self.members))
        self._workers.send(f"stop {name}", self.members.pop(name))
        return await self._settled(since)

    def forget(self) -> None:
        """Drops the lines of received records, but not those that ownership follows from."""
        self.lines = [line for line in self.lines if line.event != RECEIVED]

    async def _settled(self, since: float) -> Span:
        """Waits until all members share the partitions. Raises RequestTimedOut, or at once OutcomeUnknown if
        a process ended."""
        try:
            async with asyncio.timeout(SETTLE_S_MAX):
                while not self._ownership.shared_by(self.members, self._partitions):
                    self._reported.clear()
                    if self._workers.exit_codes:
                        raise OutcomeUnknown(f"a process of members ended with {self._workers.exit_codes[0]}")
                    await self._reported.wait()
        except TimeoutError:
            raise RequestTimedOut(
                f"{len(self.members)} members do not share {self._partitions} partitions after "
                f"{SETTLE_S_MAX:.0f} s"
            ) from None
        return Span(since, max(since, self._changed_at))
