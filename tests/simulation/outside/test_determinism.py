"""A plan decides its run whole: no hash of a string, no garbage collector and no other run does."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

from strandline.simulation.plan import Plan
from strandline.simulation.workloads.workload import WorkloadPlan

SECONDS: Final = 1.5
OTHERS: Final = [("1", 50), ("2", 0)]
"""Hash seeds of processes, and their thresholds of the garbage collector; 0 switches it off."""

RUN: Final = """
import gc, sys
from strandline.simulation.plan import Plan
from strandline.simulation.run import run_quietly
gc.set_threshold(int(sys.argv[1]))
for line in sys.stdin:
    outcome = run_quietly(Plan.model_validate_json(line))
    print(outcome.trace, outcome.counts, outcome.virtual_s, outcome.problems)
"""


def plans() -> list[Plan]:
    """One of each kind of workload, each under faults of its own."""
    drawn = [Plan.drawn(seed, SECONDS) for seed in range(200, 300)]
    alone = {
        workload.kind: plan.model_copy(update={"workloads": (workload,)})
        for plan in drawn
        if plan.faults
        for workload in plan.workloads
    }
    assert len(alone) == len(WorkloadPlan.__subclasses__())
    return list(alone.values())


def shown(plans: list[Plan], hash_seed: str, threshold: int) -> list[str]:
    """What the runs show, in a process of their own."""
    lines = "".join(f"{plan.model_dump_json()}\n" for plan in plans)
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(threshold)],
        input=lines,
        text=True,
        capture_output=True,
        env={"PYTHONHASHSEED": hash_seed},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def known() -> list[str]:
    return shown(plans(), "0", 700)


@pytest.mark.parametrize(("hash_seed", "threshold"), OTHERS)
def test_a_plan_has_the_same_trace_in_any_process(hash_seed: str, threshold: int, known: list[str]) -> None:
    assert shown(plans()[::-1], hash_seed, threshold)[::-1] == known
