"""A ZooKeeper for each module: topics of thousands of partitions, test after test, make one server slow.

Most tests need the same three things there: a session, registered brokers, and an active controller.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from strandline.local.zookeeper_process import ZooKeeperProcess
from tests.conftest import SessionFactory, zookeeper_in
from tests.controller.support.running import SESSION_MS, Activate, Active, running
from tests.controller.support.znodes_seen import register


@pytest.fixture(scope="module")
async def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ZooKeeperProcess]:
    async for server in zookeeper_in(tmp_path_factory.mktemp("zookeeper")):
        yield server


@pytest.fixture
def active(zookeeper: str, open_session: SessionFactory) -> Activate:
    @asynccontextmanager
    async def activate(brokers: Sequence[int], **settings: Any) -> AsyncIterator[Active]:
        session = await open_session(zookeeper_session_timeout_ms=SESSION_MS)
        epochs = await register(session, brokers)
        async with running(zookeeper, **settings) as controller:
            await controller.wait_active()
            yield Active(session, controller, epochs)

    return activate
