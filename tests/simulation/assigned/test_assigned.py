"""Runs of a group whose coordinator assigns."""

from __future__ import annotations

import pytest

from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.run import run_quietly
from strandline_lab.simulation.workloads.assigned.group import Assigned
from strandline_lab.simulation.workloads.assigned.member import AssignedMember
from strandline_lab.simulation.workloads.every import drawn_workloads

MEMBER = AssignedMember(subscribes="all", assignor=None, by_hand=True, static=False, work_s=0.01)


@pytest.mark.timeout(120)
def test_a_group_whose_topics_and_members_change_has_one_owner_of_each_partition() -> None:
    """G24, G25"""
    members = (
        MEMBER,
        MEMBER.model_copy(update={"subscribes": "pattern", "assignor": "range", "by_hand": False}),
        MEMBER.model_copy(update={"subscribes": "steady", "static": True}),
    )
    group = Assigned(
        name="assigned",
        partitions=3,
        others=2,
        writers=1,
        pause_s=0.1,
        synced=False,
        members=members,
        change_s=1.0,
        topics_change_s=0.5,
        formed=True,
    )
    outcome = run_quietly(Plan(seed=1, seconds=8, workloads=(group,), faults=()))
    assert outcome.problems == ()
    assert outcome.counts["partitions given"] > 20 and outcome.counts["topics deleted"] > 0


def test_some_seeds_have_such_a_group() -> None:
    kinds = [[each.kind for each in drawn_workloads(seed)] for seed in range(300)]
    assert 10 < sum("assigned" in each for each in kinds) < 60
