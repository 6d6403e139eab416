"""Removals of members on the clock of the world, where the coordinators' clocks say nothing of it."""

from __future__ import annotations

import pytest

from strandline_lab.auditing.member_ownership import ASSIGNED, LOST, REVOKED, Change, MemberHistory
from strandline_lab.auditing.member_ownership import findings as ownership_findings
from strandline_lab.auditing.ownership import LEFT, GroupEvent
from strandline_lab.simulation.workloads.removals import placed

COORDINATOR_MS = 1_700_000_000_000


def life(name: str, member: str, *changes: tuple[str, int, int]) -> MemberHistory:
    """Its changes are (event, time, generation) of partition 0."""
    seen = [Change(event, at_ms, member, generation, "t", (0,)) for event, at_ms, generation in changes]
    return MemberHistory(name, "g", seen, seen[-1].at_ms)


def left(member: str, generation: int) -> GroupEvent:
    return GroupEvent(LEFT, "g", generation, COORDINATOR_MS, member)


PAUSED = life("one life 1", "m1", (ASSIGNED, 100, 1), (REVOKED, 900, 1))
RETURNED = life("one life 2", "m2", (ASSIGNED, 500, 1))
NEXT = life("two life 1", "m3", (ASSIGNED, 700, 2))
STATIC = {"one life 1": "one", "one life 2": "one"}


def test_a_removal_came_before_the_first_assignment_in_a_later_generation() -> None:
    (removal,) = placed([left("m1", 1)], [PAUSED, NEXT], {})
    assert removal.at_ms == 700


def test_a_static_member_was_removed_before_its_next_process_got_partitions() -> None:
    """KIP-345: a static member that returns has no rebalance, so the generation stays. Its last process may
    give its partitions up in order long after, since it is paused. The coordinator's event of that may be
    lost with the coordinator."""
    (removal,) = placed([], [PAUSED, RETURNED], STATIC)
    assert (removal.member, removal.at_ms) == ("m1", 500)
    assert ownership_findings([PAUSED, RETURNED], [removal]) == []


@pytest.mark.parametrize("instances", [{}, {"one life 1": "one", "one life 2": "another"}])
def test_another_member_does_not_take_the_place_of_one(instances: dict[str, str]) -> None:
    """CORRECTNESS G2: two owners in one generation are a fault."""
    removals = placed([left("m1", 1)], [PAUSED, RETURNED, NEXT], instances)
    assert [removal.at_ms for removal in removals] == [700]
    assert len(ownership_findings([PAUSED, RETURNED], removals)) == 1


def test_a_member_that_was_replaced_does_not_replace_the_next_one() -> None:
    """CORRECTNESS G2: it got a partition that the process after it owned."""
    again = life("one life 1", "m1", (ASSIGNED, 100, 1), (REVOKED, 400, 1), (ASSIGNED, 600, 1))
    owner = life("one life 2", "m2", (ASSIGNED, 500, 1), (REVOKED, 900, 1))
    removals = placed([left("m2", 1), GroupEvent(LOST, "g", 1, COORDINATOR_MS, "m2")], [again, owner], STATIC)
    assert [(removal.member, removal.at_ms) for removal in removals] == [("m1", 500)]
    assert len(ownership_findings([again, owner], removals)) == 1
