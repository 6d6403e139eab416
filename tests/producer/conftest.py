"""Producers on virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from strandline.simulation.engine.loop import SimulatedLoop


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    """Its time passes only while all tasks wait."""
    loop = SimulatedLoop.new(Random(1))
    yield loop
    loop.close()
