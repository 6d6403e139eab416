"""A ZooKeeper with TLS, one for each module that wants it: it takes seconds to start."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.tls_zookeeper import TlsServer, tls_zookeeper


@pytest.fixture(scope="module")
async def tls_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TlsServer]:
    async with tls_zookeeper(tmp_path_factory.mktemp("tls")) as server:
        yield server
