"""One broker for all tests of a module, and a restorer with stores on disk for each."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from strandline.local.cluster import LocalCluster
from strandline.streams.restore.restorer import Restorer
from strandline.streams.storage.task_store import TaskStore
from tests.conftest import ClusterFactory

BROKER_SETTINGS = {"compaction_check_ms": 100, "flush_check_ms": 50}
"""So that a changelog is compacted while a test looks."""

OpenStore = Callable[..., TaskStore]


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    return await make_module_cluster(brokers=1, broker_settings=BROKER_SETTINGS)


@pytest.fixture
async def restorer(cluster: LocalCluster) -> AsyncIterator[Restorer]:
    async with Restorer(cluster.bootstrap, settings={}) as running:
        yield running


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[OpenStore]:
    """Opens stores, each in a folder of its own unless one is named; closed at the end."""
    names = (f"store-{number}" for number in itertools.count(1))
    opened: list[TaskStore] = []

    def open_one(name: str | None = None, identity: str = "a changelog") -> TaskStore:
        opened.append(TaskStore.open(tmp_path / (name or next(names)), identity))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()
