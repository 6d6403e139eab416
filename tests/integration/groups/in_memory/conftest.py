"""A cluster in memory: these tests are about members, their coordinator, and what they say to each other."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from strandline.testing import MemoryCluster


@pytest.fixture(scope="module")
async def cluster() -> AsyncIterator[MemoryCluster]:
    """Three brokers for a module whose tests do no harm to them."""
    async with MemoryCluster(brokers=3) as cluster:
        yield cluster
