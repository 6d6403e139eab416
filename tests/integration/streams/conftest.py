"""The cluster that stream applications of a module run on."""

from __future__ import annotations

import pytest

from strandline import LocalCluster
from tests.conftest import ClusterFactory
from tests.integration.support.harness import FAULT_SETTINGS

NEVER_MS = 3_600_000


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    """Three brokers with short times, whose changelogs keep every commit, for the judge to replay."""
    settings = {**FAULT_SETTINGS, "compaction_check_ms": NEVER_MS, "group_initial_rebalance_delay_ms": 0}
    return await make_module_cluster(brokers=3, broker_settings=settings)
