"""Brings the processes of a cluster up: starts those that do not run, and waits until each serves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from strandline.local.console_process import ConsoleProcess
from strandline.local.members.members import Members
from strandline.local.process import ProcessFailed
from strandline.local.service import Service
from strandline.local.waits import all_of, serving
from strandline.local.zookeeper_process import RunningZooKeeper, ZooKeeperProcess


class BringUp:
    """One attempt to have members serve, each within `timeout_s` of its start.

    A process that runs already is waited for; if it ends instead, because it was stopping, it is started
    again. What serves stays up when others fail. So does a process that is only slow: a broker
    may have a long log to look through, and would begin anew if it were stopped.
    """

    def __init__(self, members: Members, timeout_s: float) -> None:
        self._members = members
        self._timeout_s = timeout_s
        self._unready: list[Service | ConsoleProcess] = []
        """Services that this attempt started, and that do not serve yet."""
        self._zookeeper_is_unready = False
        """True while ZooKeeper does not serve after this attempt has started it."""
        self._failures: list[ProcessFailed] = []

    async def run(self, services: Sequence[Service | ConsoleProcess], *, with_zookeeper: bool) -> None:
        """Return once all serve.

        Raises ProcessFailed after each of them serves or has failed. If ZooKeeper dies, or this is cancelled,
        what was started here and does not serve is stopped at once.
        """
        try:
            if with_zookeeper and not self._members.zookeeper.alive:
                self._start_zookeeper()
            for service in services:
                if not service.alive:
                    self._start(service)
            waits = [self._bring_up(service) for service in services]
            await all_of([self._bring_zookeeper_up(), *waits] if with_zookeeper else waits)
        except BaseException:
            await all_of(service.stop(clean=True) for service in self._unready)
            if self._zookeeper_is_unready:
                await self._members.zookeeper.stop()
            raise
        if self._failures:
            raise _as_one(self._failures)

    async def _bring_up(self, service: Service | ConsoleProcess) -> None:
        async def wait() -> None:
            await serving(service, self._timeout_s)

        try:
            if service in self._unready:
                await wait()
            else:
                await _up_or_again(service, wait, lambda: self._start(service))
        except ProcessFailed as failure:
            self._failures.append(failure)
        else:
            if service in self._unready:
                self._unready.remove(service)

    async def _bring_zookeeper_up(self) -> None:
        """Raises ProcessFailed if it dies: nothing serves without it."""
        zookeeper = self._members.zookeeper

        async def wait() -> None:
            await zookeeper.wait_serving(self._timeout_s)

        try:
            if self._zookeeper_is_unready:
                await wait()
            else:
                await _up_or_again(zookeeper, wait, self._start_zookeeper)
        except ProcessFailed as failure:
            if not zookeeper.alive:
                raise
            self._failures.append(failure)
        else:
            self._zookeeper_is_unready = False

    def _start(self, service: Service | ConsoleProcess) -> None:
        """Start it, and record it at once: `down` finds the processes of a start that was killed."""
        service.start()
        self._unready.append(service)
        self._members.save()

    def _start_zookeeper(self) -> None:
        self._members.zookeeper.start()
        self._zookeeper_is_unready = True
        self._members.save()


async def _up_or_again(
    member: Service | ConsoleProcess | ZooKeeperProcess | RunningZooKeeper,
    wait: Callable[[], Awaitable[None]],
    start: Callable[[], None],
) -> None:
    """Waits for a process that ran before; if it has ended, starts it and waits for the new one."""
    process = member.process
    try:
        await wait()
    except ProcessFailed:
        if member.alive or process is None:
            raise
        process.release()
        start()
        await wait()


def _as_one(failures: Sequence[ProcessFailed]) -> ProcessFailed:
    """The first of them, with the number of the others."""
    first, *others = failures
    if not others:
        return first
    return ProcessFailed(f"{first.message}; and {len(others)} more processes do not serve")
