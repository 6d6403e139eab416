"""A plan decides its run whole: no hash of a string, no garbage collector and no other run does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Final, get_args

import pytest

from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.workloads.every import AnyWorkload

SECONDS: Final = 1.0
WHOLE: Final = (*range(300, 308), 54, 56)
WHOLE_SECONDS: Final = 2.0
RUN: Final = """
import gc, sys
import pytest

from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.run import run_quietly
gc.set_threshold(int(sys.argv[1]))
for line in sys.stdin:
    outcome = run_quietly(Plan.model_validate_json(line))
    print(outcome.trace, outcome.counts, outcome.virtual_s, outcome.problems)
"""


def plans_of_each_kind() -> list[Plan]:
    """One of each kind of workload, each under faults of its own."""
    drawn = [Plan.drawn(seed, SECONDS) for seed in range(200, 300)]
    alone = {
        workload.kind: plan.model_copy(update={"workloads": (workload,)})
        for plan in drawn
        if plan.faults
        for workload in plan.workloads
    }
    (union, _) = get_args(AnyWorkload)
    assert len(alone) == len(get_args(union))
    return list(alone.values())


def whole_plans() -> list[Plan]:
    """With several workloads each. The order of a set showed in one of sixteen of these, in none alone; in
    the last two, that of the partitions which members of a group commit."""
    return [Plan.drawn(seed, WHOLE_SECONDS) for seed in WHOLE]


def started(plans: list[Plan], hash_seed: str, threshold: int) -> subprocess.Popen[str]:
    """A process that runs the plans. `threshold` is that of the garbage collector."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, str(threshold)],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PYTHONHASHSEED": hash_seed},
    )
    assert process.stdin is not None
    process.stdin.write("".join(f"{plan.model_dump_json()}\n" for plan in plans))
    process.stdin.flush()
    return process


def shown(process: subprocess.Popen[str]) -> list[str]:
    """What the runs of a process showed."""
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    return out.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("plans", [plans_of_each_kind, whole_plans])
def test_a_plan_has_the_same_trace_in_any_process(plans: Callable[[], list[Plan]]) -> None:
    chosen = plans()
    with started(chosen, "0", 700) as one, started(chosen[::-1], "1", 50) as other:
        known = shown(one)
        assert shown(other)[::-1] == known
    assert len(known) == len(chosen)
