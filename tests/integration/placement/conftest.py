"""Replicas move and leaders change on virtual time."""

from __future__ import annotations

import pytest

from tests.integration.support.simulated_harness import SimulatedHarness


@pytest.fixture
def harness(simulated: SimulatedHarness) -> SimulatedHarness:
    return simulated
