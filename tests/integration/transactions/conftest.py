"""A cluster on virtual time: a test that waits for the end of a session waits for nothing."""

from __future__ import annotations

import pytest

from strandline.testing import SimulatedCluster


@pytest.fixture
def cluster(simulated_cluster: SimulatedCluster) -> SimulatedCluster:
    return simulated_cluster
