"""A failing plan is made as small as what makes it fail, and the search ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_lab.simulation.judging.judge import Problem
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.reporting.runs import Ran
from strandline_lab.simulation.reporting.shrink import shrink
from strandline_lab.simulation.workloads.writing import Writing

FAILS = Problem("loss", "a record was lost")
OTHER = Problem("healing", "it did not heal")


def searched(plan: Plan, fails: Callable[[Plan], bool]) -> Plan:
    """The smallest plan, if a plan has both problems or only the other one."""

    def run(proposal: Plan) -> Ran:
        found = (OTHER, FAILS) if fails(proposal) else (OTHER,)
        return Ran(proposal, found, None, 0.0)

    assert fails(plan)
    shrunk = shrink(Ran(plan, (FAILS, OTHER), None, 0.0), run, runs_max=10_000)
    assert shrunk.whole
    assert fails(shrunk.ran.plan)
    return shrunk.ran.plan


@given(seed=st.integers(0, 1000), lots=st.lists(st.integers(0, 10_000), min_size=1, max_size=3))
def test_only_the_faults_that_matter_are_left(seed: int, lots: list[int]) -> None:
    plan = Plan.drawn(seed)
    needed = {plan.faults[lot % len(plan.faults)] for lot in lots} if plan.faults else set()
    smallest = searched(plan, lambda proposal: needed <= set(proposal.faults))
    assert set(smallest.faults) == needed
    assert smallest.controllers == 1
    assert len(smallest.workloads) == 1
    # It ends within a quarter of the last fault that matters.
    assert smallest.seconds <= max(1.0, 4 / 3 * max((fault.at_s for fault in needed), default=0.0) + 1)


def test_a_workload_is_made_smaller_than_what_is_needed_only_where_it_fails_so() -> None:
    writing = Writing(name="w", partitions=4, writers=3, pause_s=0.1, synced=False)

    def fails(plan: Plan) -> bool:
        [workload] = plan.workloads
        return isinstance(workload, Writing) and workload.writers >= 2

    smallest = searched(Plan.drawn(3).model_copy(update={"workloads": (writing,)}), fails)
    assert smallest.workloads[0] == writing.model_copy(
        update={"partitions": 1, "writers": 2, "min_insync": 1}
    )


@pytest.mark.parametrize(("runs_max", "cpu_s_max", "runs"), [(7, 1e9, 7), (1000, 30.0, 3)])
def test_a_search_is_bounded(runs_max: int, cpu_s_max: float, runs: int) -> None:
    plan = Plan.drawn(3)
    shrunk = shrink(
        Ran(plan, (FAILS,), None, 0.0),
        lambda proposal: Ran(proposal, (), None, 10.0),
        runs_max=runs_max,
        cpu_s_max=cpu_s_max,
    )
    assert (shrunk.runs, shrunk.whole, shrunk.ran.plan) == (runs, False, plan)
