"""Rare sequences reach the moment that they aim at, and nothing that was acknowledged is lost."""

from __future__ import annotations

from typing import Final

import pytest

from strandline_lab.simulation.faults.every import AIMED, AIMED_AT_CONTROLLERS, APART
from strandline_lab.simulation.faults.fault import Fault
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.run import run_quietly
from strandline_lab.simulation.workloads.operations import Operations
from strandline_lab.simulation.workloads.writing import Writing

WRITING: Final = Writing(name="writing", partitions=1, writers=2, pause_s=0.05, min_insync=2, synced=False)
OPERATING: Final = Operations(name="operations", topics=2, pause_s=0.2, moves=False)
REACHED: Final = {
    "two leaders in turn": "the next leader",
    "return on a slow way": "the way is slow",
    "return to an old watermark": "the way is slow",
    "lose the ZooKeeper leader as a controller writes": "ZooKeeper loses its leader",
    "kill a controller that deletes": "kill controller",
    "shrink in doubt": "off ZooKeeper",
    "set ZooKeeper back": "set ZooKeeper back to",
    "lose answers": "lose the answers",
    "lose ZooKeeper's answers to a leader": "lose ZooKeeper's answers",
}


@pytest.mark.parametrize("kind", [*AIMED, *AIMED_AT_CONTROLLERS])
def test_a_sequence_reaches_its_moment_and_the_cluster_is_sound(kind: str) -> None:
    workload = OPERATING if kind in AIMED_AT_CONTROLLERS else WRITING
    faults = (Fault(kind=kind, at_s=1.0, lasts_s=1.0, lot=2),)
    outcome = run_quietly(Plan(seed=1, seconds=12.0, workloads=(workload,), faults=faults))
    assert outcome.problems == (), "\n".join(outcome.steps)
    assert any(REACHED[kind] in step for step in outcome.steps), outcome.steps


def test_some_seeds_have_such_sequences_and_only_operators_meet_those_of_controllers() -> None:
    plans = [Plan.drawn(seed, 12.0) for seed in range(300)]

    def having(kinds: tuple[str, ...]) -> list[Plan]:
        return [plan for plan in plans if any(fault.kind in kinds for fault in plan.faults)]

    assert all(having((kind,)) for kind in APART)
    assert 0 < len(having(AIMED)) < len(plans) / 2
    for plan in having(AIMED_AT_CONTROLLERS):
        assert any(isinstance(each, Operations) for each in plan.workloads)
