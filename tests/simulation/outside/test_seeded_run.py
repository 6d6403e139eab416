"""Faults from a seed: what was acknowledged is there, everything heals, and the seed decides all of it."""

from __future__ import annotations

import pytest

from strandline.simulation.seeded_run import run_seed


@pytest.mark.parametrize("seed", range(100, 106))
def test_under_faults_nothing_that_was_acknowledged_is_lost(seed: int) -> None:
    outcome = run_seed(seed, 5.0)
    assert outcome.problems == [], "\n".join(outcome.faults)
    assert outcome.records > 0


def test_a_seed_decides_everything() -> None:
    first, again, other = run_seed(107, 3.0), run_seed(107, 3.0), run_seed(108, 3.0)
    assert first == again
    assert first.faults
    assert first.trace != other.trace
