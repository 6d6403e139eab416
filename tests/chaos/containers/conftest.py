"""One cluster of containers for all tests that want one, whole again after each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from strandline_lab.chaos.containers.compose import OVERLAY
from strandline_lab.chaos.containers.engine import Engine, engine
from strandline_lab.chaos.containers.world import container_world
from strandline_lab.chaos.world import World
from tests.chaos.containers.sight import Sight


@pytest.fixture(scope="session")
async def docker() -> AsyncIterator[Engine]:
    """The engine that `make chaos` has found or started."""
    async with engine() as running:
        yield running


@pytest.fixture(scope="session")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Compose takes besides docker-compose.yml for `cluster`."""
    return tmp_path_factory.mktemp("containers") / OVERLAY


@pytest.fixture(scope="session")
async def cluster(docker: Engine, overlay: Path) -> AsyncIterator[World]:
    async with container_world(
        overlay.parent,
        on=docker,
        zookeepers=3,
        disk_mb=64,
        zookeeper_session_timeout_ms=3_000,
        keep_in_sync_ms=2_000,
        preferred_leader_check_ms=3_600_000,
        offsets_topic_partitions=3,
    ) as world:
        yield world


@pytest.fixture
async def sight(cluster: World) -> AsyncIterator[Sight]:
    """A topic on all three brokers, and what a client on the host sees of it."""
    async with Sight(cluster) as sight:
        yield sight
        for member in cluster.members:
            await cluster.resume(member)
            await cluster.connect(member)
            await cluster.start(member)
        await sight.isr_is(1, 2, 3)
