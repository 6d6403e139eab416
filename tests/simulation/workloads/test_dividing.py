"""What is asked for is written in parts, and is there as a whole in the end (CORRECTNESS Q9)."""

from __future__ import annotations

from collections import Counter

from strandline.adapters.zookeeper import znodes
from strandline.ports import Create, Delete
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.run import run_quietly
from strandline_lab.simulation.stage import Stage
from strandline_lab.simulation.workloads.dividing import Dividing


def test_without_faults_creations_and_deletions_take_several_writes_and_merged_ones_are_small() -> None:
    dividing = Dividing(name="dividing", topics=3, partitions=24, pause_s=0.2, multi_kib=72, merged=8)
    plan = Plan(seed=3, seconds=12.0, workloads=(dividing,), faults=())
    stages: list[Stage] = []
    outcome = run_quietly(plan, stages.append)
    assert outcome.problems == ()
    assert outcome.counts["divided operations answered"] > 5
    created, deleted, claims = Counter[str](), Counter[str](), 0
    for entry in stages[0].world.zookeeper.log:
        operations = entry.request.operations
        topics = {each.path.split("/")[3] for each in operations if each.path.startswith(znodes.TOPICS + "/")}
        if any(isinstance(each, Create) and each.path.endswith("/isr") for each in operations):
            created.update(topics)
        if any(isinstance(each, Delete) and each.path.endswith("/isr") for each in operations):
            deleted.update(topics)
        if any(isinstance(each, Create) and each.path.endswith("/leader") for each in operations):
            claims += 1
            assert len(operations) <= dividing.merged
    assert max(created.values()) > 3
    assert max(deleted.values()) > 3
    assert claims > 20


def test_a_part_of_all_seeds_divides_and_does_nothing_else() -> None:
    drawn = [Plan.drawn(seed, 12.0).workloads for seed in range(120)]
    dividing = [each for each in drawn if any(isinstance(workload, Dividing) for workload in each)]
    assert 0 < len(dividing) < len(drawn) / 6
    assert all(len(each) == 1 for each in dividing)
