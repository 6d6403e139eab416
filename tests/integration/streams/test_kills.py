"""Members that are killed under a stream application (docs/use/streams.md). The simulation kills and pauses
any number of them, and the brokers of their changelogs (the workload `streams`)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from strandline import LocalCluster
from tests.integration.streams.application import SETTLE_S, feeding, fill, streaming
from tests.integration.streams.verdict import committed, exactly_once
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


async def test_the_leader_dies_while_a_learner_restores(cluster: LocalCluster, tmp_path: Path) -> None:
    """(CORRECTNESS S6, S7) the next leader knows no more than what members say: the task goes to its learner,
    ready or not, which restores on from where it is."""
    async with streaming(cluster, tmp_path, partitions=1, state_bytes=2_000, acceptable_lag=0) as app:
        leader = await app.start()
        await fill(app, 0, 20_000)
        await app.running(leader)
        await committed(app)
        async with feeding(app):
            others = [await app.start(), await app.start()]
            await app.until(lambda: any(other.with_role("learning") for other in others), "one learns")
            learner = next(other for other in others if other.with_role("learning"))
            learner.signal(signal.SIGSTOP)  # not for long: it only must not be done before the kill
            (learned,) = learner.with_role("learning")
            assert await app.leader() is leader
            await leader.kill()
            learner.signal(signal.SIGCONT)
            await app.running(*others)
            assert learner.running == {learned}
            assert learner.roles_ever(learned) == ["learning", "restoring", "running"]
        _ = await exactly_once(app)


async def test_outputs_of_a_killed_member_are_counted_once(cluster: LocalCluster, tmp_path: Path) -> None:
    """(CORRECTNESS S3, S9) it dies between its outputs and its commit, so its successor sends them again.
    Then it comes back with its old store."""
    async with streaming(cluster, tmp_path, commit_interval_ms=1_500) as app, feeding(app) as feed:
        victim = await app.start()
        await app.running(victim)
        other = await app.start()
        await app.running(victim, other)
        for _ in range(2):
            await feed.goes_on(400)
            await victim.kill()
            await app.running(other)
            victim = await app.start(state=victim.state)
            await app.running(other, victim)
        await feed.finish()
        history = await exactly_once(app)
        assert sum(map(len, history.lines.values())) == feed.written
        assert any(len({origin for _, origin in each}) < len(each) for each in history.repartitioned.values())


async def test_the_first_start_waits_for_a_broker_that_is_down(cluster: LocalCluster, tmp_path: Path) -> None:
    """The topics of its own get as many copies as those that it reads, which two brokers cannot hold."""
    async with streaming(cluster, tmp_path) as app:
        await cluster.stop_broker(3)
        member = await app.start()
        await eventually(lambda: "waits for brokers" in member.log, deadline_s=SETTLE_S)
        await cluster.start_broker(3)
        async with feeding(app) as feed:
            await app.running(member)
            await feed.goes_on(100)
            await feed.finish()
        _ = await exactly_once(app)
