"""(CORRECTNESS S13) members and brokers that are killed under an application with
processing_guarantee="exactly_once"."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from strandline import LocalCluster
from tests.integration.streams.application import feeding, streaming
from tests.integration.streams.test_mayhem import Mayhem
from tests.integration.streams.verdict import exactly_once

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

EXACTLY: Final[dict[str, Any]] = {"processing_guarantee": "exactly_once", "transaction_timeout_ms": 3_000}


async def test_a_member_that_is_killed_doubles_no_output(cluster: LocalCluster, tmp_path: Path) -> None:
    """It comes back with its old store. Commits are long, so that most kills are within one."""
    async with streaming(cluster, tmp_path, **EXACTLY, commit_interval_ms=1) as app, feeding(app) as feed:
        victim = await app.start()
        await app.running(victim)
        other = await app.start()
        await app.running(victim, other)
        for _ in range(3):
            await feed.goes_on(400)
            await victim.kill()
            await app.running(other)
            victim = await app.start(state=victim.state)
            await app.running(other, victim)
        await feed.finish()
        history = await exactly_once(app)
        assert sum(map(len, history.lines.values())) == feed.written


async def test_brokers_that_are_killed_double_no_output(cluster: LocalCluster, tmp_path: Path) -> None:
    """Each of them leads some of the logs, and coordinates some of the transactions."""
    async with streaming(cluster, tmp_path, **EXACTLY) as app, feeding(app) as feed:
        members = [await app.start(), await app.start()]
        await app.running(*members)
        for broker in cluster.broker_ids:
            await feed.goes_on(300)
            await cluster.kill_broker(broker)
            await feed.goes_on(300)
            await cluster.start_broker(broker)
        await feed.finish()
        history = await exactly_once(app)
        assert sum(map(len, history.lines.values())) == feed.written


async def test_under_any_faults_of_members_each_output_is_there_once(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """They are started, killed, asked to leave, paused and woken in any order."""
    async with (
        streaming(cluster, tmp_path, **EXACTLY, partitions=2, num_standbys=1) as app,
        feeding(app) as feed,
    ):
        await app.running(await app.start())
        mayhem = Mayhem(app, feed, Random(app.id))
        for _ in range(10):
            await mayhem.happen()
        await app.running(*await mayhem.end())
        await feed.finish()
        history = await exactly_once(app)
        assert sum(map(len, history.lines.values())) == feed.written
