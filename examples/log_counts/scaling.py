"""From one member to three and to two, with a kill -9 in between, while lines come all the time."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from examples.log_counts.checking import check
from examples.log_counts.counting import APPLICATION, PARTITIONS
from examples.log_counts.feeding import Feed, create_topics
from strandline import Admin
from strandline.adapters.system.clock import SystemClock
from strandline.errors import GroupIdNotFound, RequestTimedOut
from strandline.local.process import Process

STEP_S_MAX = 60.0
TASKS = 3 * PARTITIONS
"""Lines, lines by user, lines by component."""


class Members:
    """Members as processes of their own, `member-1`, `member-2` and so on; none outlives this one."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.running: dict[str, Process] = {}
        self._bootstrap = bootstrap
        self._folder = folder
        self._started = 0

    def start(self) -> str:
        """One more; returns its name. What it prints is in its log in the folder."""
        self._started += 1
        name = f"member-{self._started}"
        self.running[name] = Process.spawn(
            name,
            [
                *(sys.executable, "-m", "examples.log_counts", "run"),
                *("--bootstrap", self._bootstrap, "--state-dir", str(self._folder / name)),
            ],
            log_path=self._folder / f"{name}.log",
            environment=os.environ,
        )
        return name

    async def end(self, name: str, number: signal.Signals) -> None:
        """Send a signal and wait until it is gone."""
        process = self.running.pop(name)
        process.send(number)
        await process.wait(STEP_S_MAX)

    def check(self) -> None:
        """Raises ProcessFailed, with the end of its log, if one has ended that should run."""
        for process in self.running.values():
            if not process.alive:
                raise process.failure("ended")


@asynccontextmanager
async def members(bootstrap: str, folder: Path) -> AsyncIterator[Members]:
    """All of them are gone at the end, whatever it was."""
    started = Members(bootstrap, folder)
    try:
        yield started
    finally:
        for process in started.running.values():
            await process.stop(clean=False, timeout_s=0)


async def scale(
    bootstrap: str, folder: Path, lines: Sequence[str], tell: Callable[[str], None], timeout_s: float
) -> bool:
    """Play it, telling what happens, and check. Raises RequestTimedOut, ProcessFailed."""
    await create_topics(bootstrap)
    feed = Feed(lines)
    async with members(bootstrap, folder) as crew, Admin(bootstrap) as admin, asyncio.TaskGroup() as tasks:
        feeding = tasks.create_task(feed.run(bootstrap))

        async def shared() -> None:
            shares = await all_run(admin, crew)
            told = ", ".join(f"{name} runs {count}" for name, count in sorted(shares.items()))
            tell(f"{told} of {TASKS} tasks; {feed.written:,} lines are written.")

        tell(f"Lines come all the time. {crew.start()} starts; its state and its log are in {folder}.")
        await shared()
        tell(
            f"{crew.start()} and {crew.start()} start. Each learns what it will run, and takes it over then."
        )
        await shared()
        tell(
            "kill -9 of member-2. It is missed after three seconds; what it had not committed is done again."
        )
        await crew.end("member-2", signal.SIGKILL)
        await shared()
        tell(f"{crew.start()} starts in its place.")
        await shared()
        tell("SIGTERM to member-1: it hands over all that it runs, and goes when it has nothing left.")
        await crew.end("member-1", signal.SIGTERM)
        await shared()
        feeding.cancel()
        return await check(bootstrap, timeout_s)


async def all_run(admin: Admin, crew: Members) -> Mapping[str, int]:
    """How many partitions each member has, once all are had and shared evenly."""
    clock = SystemClock()
    deadline = clock.monotonic() + STEP_S_MAX
    shares: Mapping[str, int] = {}
    while clock.monotonic() < deadline:
        crew.check()
        try:
            group = (await admin.describe_group(APPLICATION)).group
        except GroupIdNotFound:
            group = None
        if group is not None:
            shares = {member.client_id: len(member.owned) for member in group.members}
            even = shares and max(shares.values()) - min(shares.values()) <= 1
            if shares.keys() == crew.running.keys() and sum(shares.values()) == TASKS and even:
                return shares
        await clock.sleep(0.1)
    raise RequestTimedOut(f"after {STEP_S_MAX:.0f} s {TASKS} tasks are not shared evenly: {shares}")
