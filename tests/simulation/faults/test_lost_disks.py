"""Brokers that get an empty disk refill, also under all other faults, and no acknowledged record is lost."""

from __future__ import annotations

import pytest

from strandline.simulation.faults.fault import Fault
from strandline.simulation.plan import Plan
from strandline.simulation.run import Outcome, run_quietly

SECONDS = 6.0
EMPTY = "gets an empty disk"


def with_lost_disks(seed: int) -> Plan:
    """The plan of the seed, and three brokers or fewer whose disks die."""
    drawn = Plan.drawn(seed, SECONDS)
    lost = [
        Fault(kind="lose disk", at_s=at_s, lasts_s=0, lot=seed + number)
        for number, at_s in enumerate((0, 1, 2))
    ]
    return drawn.model_copy(update={"faults": (*drawn.faults, *lost)})


def check(outcome: Outcome) -> None:
    assert outcome.problems == (), "\n".join((*map(str, outcome.problems), *outcome.steps))


def test_without_other_faults_disks_are_lost_and_refilled() -> None:
    plan = with_lost_disks(400)
    only = [fault for fault in plan.faults if fault.kind == "lose disk"]
    outcome = run_quietly(plan.model_copy(update={"faults": tuple(only)}))
    check(outcome)
    assert any(EMPTY in step for step in outcome.steps)


def test_no_seed_draws_it() -> None:
    """So the seeds that show what broken rules lead to stay what they are."""
    plans = [Plan.drawn(seed, 30.0) for seed in range(100)]
    assert not any(fault.kind == "lose disk" for plan in plans for fault in plan.faults)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(400, 410))
def test_under_all_faults_nothing_that_was_acknowledged_is_lost(seed: int) -> None:
    check(run_quietly(with_lost_disks(seed)))
