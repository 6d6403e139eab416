"""One broker for all these tests, and what tasks and applications need of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from strandline import LocalCluster
from strandline.local.zookeeper_process import ZooKeeperProcess
from tests.forking.client import spawn
from tests.streams.runtime.applications import Application
from tests.streams.runtime.task_bench import Bench

NEVER_MS = 3_600_000


@pytest.fixture(scope="session")
async def cluster(
    tmp_path_factory: pytest.TempPathFactory, zookeeper_server: ZooKeeperProcess
) -> AsyncIterator[LocalCluster]:
    """Changelogs keep every commit. A test that kills the broker starts it again."""
    settings = {"group_initial_rebalance_delay_ms": 0, "compaction_check_ms": NEVER_MS}
    folder = tmp_path_factory.mktemp("streams") / "cluster"
    zookeeper = f"{zookeeper_server.address}/streams"
    async with LocalCluster(
        1, directory=folder, broker_settings=settings, zookeeper=zookeeper, spawn=spawn
    ) as cluster:
        yield cluster


@pytest.fixture
async def bench(cluster: LocalCluster, tmp_path: Path) -> AsyncIterator[Bench]:
    async with AsyncExitStack() as opened:
        yield await Bench.open(cluster.bootstrap, tmp_path, opened)


@pytest.fixture
async def application(cluster: LocalCluster, tmp_path: Path) -> AsyncIterator[Application]:
    """Its members are stopped at the end, in any state."""
    async with Application(cluster.bootstrap, tmp_path) as application:
        yield application
