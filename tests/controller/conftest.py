"""A ZooKeeper for each module: topics of thousands of partitions, test after test, make one server slow."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from strandline.local.zookeeper_process import ZooKeeperProcess
from tests.conftest import zookeeper_in


@pytest.fixture(scope="module")
async def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ZooKeeperProcess]:
    async for server in zookeeper_in(tmp_path_factory.mktemp("zookeeper")):
        yield server
