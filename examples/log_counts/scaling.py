"""Scales from one member to three and to two, with a kill -9 in between, while lines arrive."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from examples.log_counts.checking import check
from examples.log_counts.cluster import Cluster
from examples.log_counts.counting import APPLICATION, PARTITIONS
from examples.log_counts.feeding import Feed, create_topics
from strandline import Admin
from strandline.adapters.system.clock import SystemClock
from strandline.errors import GroupIdNotFound, RequestTimedOut
from strandline.local.process import Process

STEP_S_MAX = 60.0
TASKS = 3 * PARTITIONS
"""Tasks for lines, lines by user, and lines by component."""


class Members:
    """Members as processes `member-1`, `member-2` and so on; none outlives this process."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.running: dict[str, Process] = {}
        self._cluster = cluster
        self._folder = folder
        self._started = 0

    def start(self) -> str:
        """Starts one more. Returns its name. Its output is in its log in the folder."""
        self._started += 1
        name = f"member-{self._started}"
        self.running[name] = Process.spawn(
            name,
            [
                *(sys.executable, "-m", "examples.log_counts", "run"),
                *(*self._cluster.options, "--state-dir", str(self._folder / name)),
            ],
            log_path=self._folder / f"{name}.log",
            environment=os.environ,
        )
        return name

    async def end(self, name: str, number: signal.Signals) -> None:
        """Sends a signal, and waits until the member has ended."""
        process = self.running.pop(name)
        process.send(number)
        await process.wait(STEP_S_MAX)

    def check(self) -> None:
        """Raises ProcessFailed, with the end of its log, if a member has ended that should run."""
        for process in self.running.values():
            if not process.alive:
                raise process.failure("ended")


@asynccontextmanager
async def running_members(cluster: Cluster, folder: Path) -> AsyncIterator[Members]:
    """Ends all members at the end of the block, also after an error."""
    started = Members(cluster, folder)
    try:
        yield started
    finally:
        for process in started.running.values():
            await process.stop(clean=False, timeout_s=0)


async def scale(
    cluster: Cluster, folder: Path, lines: Sequence[str], show_line: Callable[[str], None], timeout_s: float
) -> bool:
    """Runs the steps, shows them, and checks the counts. Raises RequestTimedOut, ProcessFailed."""
    await create_topics(cluster)
    feed = Feed(lines)
    async with (
        running_members(cluster, folder) as members,
        Admin(cluster.bootstrap, **cluster.settings) as admin,
        asyncio.TaskGroup() as tasks,
    ):
        feeding = tasks.create_task(feed.run(cluster))

        async def shared() -> None:
            shares = await all_run(admin, members)
            now = ", ".join(f"{name} runs {count}" for name, count in sorted(shares.items()))
            show_line(f"{now} of {TASKS} tasks; {feed.written:,} lines are written.")

        show_line(
            f"Lines arrive all the time. {members.start()} starts; its state and its log are in {folder}."
        )
        await shared()
        show_line(
            f"{members.start()} and {members.start()} start. "
            "Each first learns the state of its tasks, then takes them over."
        )
        await shared()
        show_line(
            "kill -9 of member-2. The group notices after three seconds; its uncommitted work is done again."
        )
        await members.end("member-2", signal.SIGKILL)
        await shared()
        show_line(f"{members.start()} starts in its place.")
        await shared()
        show_line("SIGTERM to member-1: it hands over all of its tasks, and ends when it has none left.")
        await members.end("member-1", signal.SIGTERM)
        await shared()
        feeding.cancel()
        return await check(cluster, timeout_s)


async def all_run(admin: Admin, members: Members) -> Mapping[str, int]:
    """The number of partitions of each member, once all are assigned and shared evenly."""
    clock = SystemClock()
    deadline = clock.monotonic() + STEP_S_MAX
    shares: Mapping[str, int] = {}
    while clock.monotonic() < deadline:
        members.check()
        try:
            group = (await admin.describe_group(APPLICATION)).group
        except GroupIdNotFound:
            group = None
        if group is not None:
            shares = {member.client_id: len(member.owned) for member in group.members}
            even = shares and max(shares.values()) - min(shares.values()) <= 1
            if shares.keys() == members.running.keys() and sum(shares.values()) == TASKS and even:
                return shares
        await clock.sleep(0.1)
    raise RequestTimedOut(f"after {STEP_S_MAX:.0f} s {TASKS} tasks are not shared evenly: {shares}")
