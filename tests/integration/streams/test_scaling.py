"""Members of a stream application that come and go, while lines come all the time (docs/use/streams.md)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from strandline import LocalCluster
from tests.integration.streams.application import feeding, fill, streaming
from tests.integration.streams.verdict import committed, exactly_once

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

AT_ONCE_S = 10.0
"""Far less than what a member that leaves may take, and far more than it takes."""


async def test_from_one_member_to_three_and_to_two_each_line_is_counted_once(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """(CORRECTNESS S1, S2, S5) tasks move to their learners, and are not restored again on arrival; a
    leaving member goes when it has nothing left."""
    async with streaming(cluster, tmp_path, partitions=3) as app, feeding(app) as feed:
        one = await app.start()
        await app.running(one)
        two, three = await app.start(), await app.start()
        await app.running(one, two, three)
        for member in (two, three):
            for task in member.running:
                assert member.learned(task), (member.name, task, member.roles_ever(task))
        one.signal(signal.SIGTERM)
        assert await one.ended() == 0, one.log
        assert one.events("left")[0]["all"] is True
        assert one.roles == {}
        await app.running(two, three)
        for member in (two, three):
            for task in member.running:
                assert member.learned(task), (member.name, task, member.roles_ever(task))
        await feed.finish()
        _ = await exactly_once(app)


async def test_a_leave_that_takes_too_long_ends_at_its_deadline(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """The one that would learn its tasks hangs, so it goes with what it has; that is restored elsewhere."""
    long_session_ms = 20_000
    async with (
        streaming(cluster, tmp_path, leave_timeout_ms=1_500, session_timeout_ms=long_session_ms) as app,
        feeding(app) as feed,
    ):
        leaving, hanging = await app.start(), await app.start()
        await app.running(leaving, hanging)
        hanging.signal(signal.SIGSTOP)
        leaving.signal(signal.SIGTERM)
        assert await leaving.ended() == 0, leaving.log
        assert leaving.events("left")[0]["all"] is False
        hanging.signal(signal.SIGCONT)
        await app.running(hanging)
        await feed.finish()
        _ = await exactly_once(app)


async def test_the_last_member_leaves_without_waiting(cluster: LocalCluster, tmp_path: Path) -> None:
    """No other member could learn its tasks; a later one continues from where it ended."""
    async with streaming(cluster, tmp_path) as app, feeding(app) as feed:
        last = await app.start()
        await app.running(last)
        await feed.goes_on(100)
        last.signal(signal.SIGTERM)
        assert await last.ended() == 0, last.log
        assert last.events("left")[0]["at"] - last.events("leaving")[0]["at"] < AT_ONCE_S
        heir = await app.start()
        await app.running(heir)
        await feed.finish()
        _ = await exactly_once(app)


async def test_an_owner_continues_while_another_learns_a_large_state(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """(CORRECTNESS S4, S7) the learner restores some 40 MB; meanwhile lines are counted as they come."""
    async with streaming(cluster, tmp_path, partitions=1, state_bytes=2_000, acceptable_lag=100) as app:
        owner = await app.start()
        await fill(app, 0, 20_000)
        await app.running(owner)
        await committed(app)
        async with feeding(app) as feed:
            await feed.goes_on(100)
            before, written = len(owner.printed), feed.written
            learner = await app.start()
            await app.running(owner, learner)
            assert feed.written > written
            (moved,) = learner.running
            assert learner.learned(moved), learner.roles_ever(moved)
            late = [event["ms"] for event in owner.printed[before:] if event["event"] == "behind"]
            assert late, "it counted nothing meanwhile"
            print(f"lines were counted at most {max(late)} ms late")
        _ = await exactly_once(app)
