"""Faults between two parts of what is too large for one write leave nothing half done (CORRECTNESS Q9)."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import pytest

from strandline_lab.simulation.faults.every import AIMED_AT_PARTS
from strandline_lab.simulation.faults.fault import Fault
from strandline_lab.simulation.faults.parts import GAP_S_MAX
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.run import run_quietly
from strandline_lab.simulation.workloads.dividing import Dividing

DIVIDING: Final = Dividing(name="dividing", topics=3, partitions=24, pause_s=0.2, multi_kib=72, merged=1)


@pytest.mark.parametrize("kind", AIMED_AT_PARTS)
def test_a_fault_hits_right_after_a_part_and_nothing_is_half_done(kind: str) -> None:
    faults = tuple(Fault(kind=kind, at_s=at_s, lasts_s=1.0, lot=number) for number, at_s in enumerate((1, 4)))
    outcome = run_quietly(Plan(seed=1, seconds=12.0, workloads=(DIVIDING,), faults=faults))
    assert outcome.problems == (), "\n".join(outcome.steps)
    steps = [step.split(" ", 1) for step in outcome.steps]
    hits = [(before, hit) for before, hit in pairwise(steps) if "between parts" in hit[1]]
    assert hits
    for (written_s, written), (hit_s, _) in hits:
        assert "parts in a row" in written
        assert float(hit_s) - float(written_s) <= (GAP_S_MAX if "ZooKeeper" in kind else 0)


def test_only_seeds_with_small_writes_have_these_faults() -> None:
    plans = [Plan.drawn(seed, 12.0) for seed in range(200)]
    for plan in plans:
        divides = any(isinstance(each, Dividing) for each in plan.workloads)
        assert divides or not any(fault.kind in AIMED_AT_PARTS for fault in plan.faults)
