"""A group's members in a few processes of their own, which are told to come and go, and tell what they see.

One process for all would measure its own event loop, and one for each more processes than a machine has
cores.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

from strandline.adapters.system.clock import SystemClock
from strandline.cli.perf.rebalance_times import RECEIVED, Line, Ownership, Span
from strandline.errors import OutcomeUnknown, RequestTimedOut

SETTLE_S_MAX: Final = 120.0
END_S_MAX: Final = 30.0
LINE_BYTES_MAX: Final = 1 << 20


class Crew:
    """Members of one group that read one topic; `settings` are those of each Consumer."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, settings: Mapping[str, Any], *, processes: int
    ) -> None:
        self.lines: list[Line] = []
        """All that was said since `forget`, and before it what ownership follows from."""
        self.members: dict[str, Process] = {}
        self._command = (
            *(sys.executable, "-m", "strandline.cli.perf.rebalance_members"),
            *(bootstrap, topic, json.dumps(dict(settings))),
        )
        self._partitions = partitions
        self._size = processes
        self._processes: list[Process] = []
        self._ownership = Ownership()
        self._news = asyncio.Event()
        self._tasks = asyncio.TaskGroup()
        self._monotonic = SystemClock().monotonic
        self._names = 0
        self._changed_at = 0.0

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        for _ in range(self._size):
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=PIPE, stdout=PIPE, limit=LINE_BYTES_MAX
            )
            self._processes.append(process)
        for process in self._processes:
            assert process.stdout is not None
            await process.stdout.readline()  # it is ready, or has ended
            self._tasks.create_task(self._listen(process))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The members leave, and their processes end; those that do not are killed."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        try:
            async with asyncio.timeout(END_S_MAX):
                for process in self._processes:
                    await process.wait()
        except TimeoutError:
            for process in self._processes:
                if process.returncode is None:
                    process.kill()
        await self._tasks.__aexit__(kind, error, trace)

    async def _listen(self, process: Process) -> None:
        assert process.stdout is not None
        while text := await process.stdout.readline():
            said = json.loads(text)
            line = Line(said["at"], said["member"], said["event"], tuple(said["partitions"]))
            self.lines.append(line)
            if line.event != RECEIVED:
                self._ownership.apply(line)
                self._changed_at = max(self._changed_at, line.at)
                self._news.set()
        await process.wait()
        self._news.set()

    async def add(self, members: int = 1) -> Span:
        """Have so many join, and wait until all share the partitions."""
        since = self._monotonic()
        for _ in range(members):
            process = self._processes[self._names % self._size]
            name = f"member-{self._names}"
            self._names += 1
            self.members[name] = process
            self._tell(process, f"start {name}")
        return await self._settled(since)

    async def remove_eldest(self) -> Span:
        """Have the member that has been there for longest leave, and wait until the others share its part."""
        since = self._monotonic()
        name = next(iter(self.members))
        self._tell(self.members.pop(name), f"stop {name}")
        return await self._settled(since)

    def forget(self) -> None:
        """Drop what was received, but not what ownership follows from."""
        self.lines = [line for line in self.lines if line.event != RECEIVED]

    def _tell(self, process: Process, command: str) -> None:
        assert process.stdin is not None
        process.stdin.write(f"{command}\n".encode())

    async def _settled(self, since: float) -> Span:
        """Raises RequestTimedOut, or at once OutcomeUnknown if a process ended."""
        try:
            async with asyncio.timeout(SETTLE_S_MAX):
                while not self._ownership.shared_by(self.members, self._partitions):
                    self._news.clear()
                    gone = [each.returncode for each in self._processes if each.returncode is not None]
                    if gone:
                        raise OutcomeUnknown(f"a process of members ended with {gone[0]}")
                    await self._news.wait()
        except TimeoutError:
            raise RequestTimedOut(
                f"{len(self.members)} members do not share {self._partitions} partitions after "
                f"{SETTLE_S_MAX:.0f} s"
            ) from None
        return Span(since, max(since, self._changed_at))
