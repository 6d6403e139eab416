"""Brokers that get an empty disk refill, also under all other faults, and no acknowledged record is lost."""

from __future__ import annotations

from random import Random

import pytest

from strandline_lab.simulation.faults.drawing import drawn_faults
from strandline_lab.simulation.faults.every import APART, LOST_DISK
from strandline_lab.simulation.faults.fault import Fault
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.run import Outcome, run_quietly

SECONDS = 6.0
EMPTY = "gets an empty disk"


def with_lost_disks(seed: int) -> Plan:
    """The plan of the seed, and three brokers or fewer whose disks die."""
    drawn = Plan.drawn(seed, SECONDS)
    lost = [
        Fault(kind=LOST_DISK, at_s=at_s, lasts_s=0, lot=seed + number)
        for number, at_s in enumerate((0, 1, 2))
    ]
    return drawn.model_copy(update={"faults": (*drawn.faults, *lost)})


def check(outcome: Outcome) -> None:
    assert outcome.problems == (), "\n".join((*map(str, outcome.problems), *outcome.steps))


def test_without_other_faults_disks_are_lost_and_refilled() -> None:
    plan = with_lost_disks(400)
    only = [fault for fault in plan.faults if fault.kind == LOST_DISK]
    outcome = run_quietly(plan.model_copy(update={"faults": tuple(only)}))
    check(outcome)
    assert any(EMPTY in step for step in outcome.steps)


def test_a_few_seeds_draw_it_and_their_other_faults_do_not_depend_on_it() -> None:
    """So the seeds that show what broken rules lead to stay what they are."""
    losing = 0
    for seed in range(100):
        plan = Plan.drawn(seed, 30.0)
        power = all(workload.survives_power_loss for workload in plan.workloads)
        kinds = {fault.kind for fault in plan.faults}
        losing += LOST_DISK in kinds
        others = tuple(fault for fault in plan.faults if fault.kind not in APART)
        assert others == drawn_faults(Random(f"{seed} faults"), 30.0, power=power)
    assert 0 < losing < 30


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(400, 410))
def test_under_all_faults_nothing_that_was_acknowledged_is_lost(seed: int) -> None:
    check(run_quietly(with_lost_disks(seed)))
