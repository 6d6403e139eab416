"""Members of a stream application to which anything happens at any time, many rounds long."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from random import Random

import pytest

from strandline import LocalCluster
from tests.integration.streams.application import Application, Feed, Member, feeding, streaming
from tests.integration.streams.verdict import exactly_once

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

ROUNDS = 10
MEMBERS_MAX = 4


async def test_under_any_faults_of_members_each_line_is_counted_once(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """(CORRECTNESS S8, S9) they are started, killed, asked to leave, paused and woken in any order,
    without waiting for the group to come to rest in between."""
    async with streaming(cluster, tmp_path, partitions=2, num_standbys=1) as app, feeding(app) as feed:
        await app.running(await app.start())
        mayhem = Mayhem(app, feed, Random(app.id))
        for _ in range(ROUNDS):
            await mayhem.happen()
        await app.running(*await mayhem.end())
        await feed.finish()
        _ = await exactly_once(app)


class Mayhem:
    """One thing after the other; one member at least is awake and stays."""

    def __init__(self, app: Application, feed: Feed, lots: Random) -> None:
        self._app = app
        self._feed = feed
        self._lots = lots
        self._paused: list[Member] = []
        self._leaving: list[Member] = []

    async def happen(self) -> None:
        """The next thing, and some lines after it."""
        staying = [member for member in self._app.members if member.alive and member not in self._leaving]
        awake = [member for member in staying if member not in self._paused]
        fault = self._lots.choice(
            [
                *([self._start] * 2 if len(staying) < MEMBERS_MAX else []),
                *([self._kill, self._leave, self._pause] if len(awake) > 1 else []),
                *([self._wake] * 2 if self._paused else []),
            ]
        )
        member = self._lots.choice(awake)
        print(f"{self._feed.written} lines: {fault.__name__} {member.name}")
        await fault(member)
        await self._feed.goes_on(self._lots.choice([20, 200, 800]))

    async def _start(self, _: Member) -> None:
        """With the disk of one that is dead, or a new one."""
        dead = [member.state for member in self._app.members if not member.alive and member.state.exists()]
        _ = await self._app.start(state=self._lots.choice([None, *dead]))

    async def _kill(self, member: Member) -> None:
        await member.kill()
        if self._lots.random() < 0.3:
            shutil.rmtree(member.state, ignore_errors=True)

    async def _leave(self, member: Member) -> None:
        member.signal(signal.SIGTERM)
        self._leaving.append(member)

    async def _pause(self, member: Member) -> None:
        member.signal(signal.SIGSTOP)
        self._paused.append(member)

    async def _wake(self, _: Member) -> None:
        member = self._paused.pop(self._lots.randrange(len(self._paused)))
        member.signal(signal.SIGCONT)

    async def end(self) -> list[Member]:
        """Wake all; the members that are left once all leaving ones have gone."""
        for member in self._paused:
            member.signal(signal.SIGCONT)
        for member in self._leaving:
            _ = await member.ended()
        return [member for member in self._app.members if member.alive]
