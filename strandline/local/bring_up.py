"""Brings the processes of a cluster up: starts those that do not run, and waits until each serves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from strandline.local.console_process import ConsoleProcess
from strandline.local.members.members import Members
from strandline.local.process import ProcessFailed
from strandline.local.service import Service
from strandline.local.waits import all_of, serving
from strandline.local.zookeeper_process import RunningZooKeeper, ZooKeeperProcess
from strandline.report.text.counts import counted

Member = Service | ConsoleProcess | ZooKeeperProcess | RunningZooKeeper


class BringUp:
    """One attempt to have members serve, each within `timeout_s` of its start.

    A process that runs already is waited for; if it ends instead, because it was stopping, it is started
    again. What serves stays up when others fail. So does a process that is only slow: a broker
    may have a long log to look through, and would begin anew if it were stopped.
    """

    def __init__(self, members: Members, timeout_s: float) -> None:
        self._members = members
        self._timeout_s = timeout_s
        self._unready: list[Member] = []
        """Members that this attempt started, and that do not serve yet."""
        self._failures: list[ProcessFailed] = []

    async def run(self, services: Sequence[Service | ConsoleProcess], *, with_zookeeper: bool) -> None:
        """Return once all serve.

        Raises ProcessFailed after each of them serves or has failed. If ZooKeeper dies, or this is cancelled,
        what was started here and does not serve is stopped at once.
        """
        zookeeper = self._members.zookeeper
        try:
            if with_zookeeper and not zookeeper.alive:
                self._start(zookeeper)
            for service in services:
                if not service.alive:
                    self._start(service)
            waits = [self._bring_up(service) for service in services]
            await all_of([self._bring_zookeeper_up(), *waits] if with_zookeeper else waits)
        except BaseException:
            await all_of(service.stop(clean=True) for service in services if service in self._unready)
            if zookeeper in self._unready:
                await zookeeper.stop()
            raise
        if self._failures:
            raise _as_one(self._failures)

    async def _bring_up(self, service: Service | ConsoleProcess) -> None:
        try:
            await self._up(service, lambda: serving(service, self._timeout_s))
        except ProcessFailed as failure:
            self._failures.append(failure)

    async def _bring_zookeeper_up(self) -> None:
        """Raises ProcessFailed if it dies: nothing serves without it."""
        zookeeper = self._members.zookeeper
        try:
            await self._up(zookeeper, lambda: zookeeper.wait_serving(self._timeout_s))
        except ProcessFailed as failure:
            if not zookeeper.alive:
                raise
            self._failures.append(failure)

    async def _up(self, member: Member, wait: Callable[[], Awaitable[None]]) -> None:
        """Waits for a member; if it ran before and has ended, starts it and waits for the new process."""
        process = None if member in self._unready else member.process
        try:
            await wait()
        except ProcessFailed:
            if member.alive or process is None:
                raise
            process.release()
            self._start(member)
            await wait()
        if member in self._unready:
            self._unready.remove(member)

    def _start(self, member: Member) -> None:
        """Start it, and record it at once: `down` finds the processes of a start that was killed."""
        member.start()
        self._unready.append(member)
        self._members.save()


def _as_one(failures: Sequence[ProcessFailed]) -> ProcessFailed:
    """The first of them, with the number of the others."""
    first, *others = failures
    if not others:
        return first
    also = counted(len(others), "more process does", "more processes do")
    return ProcessFailed(f"{first.message}; and {also} not serve")
