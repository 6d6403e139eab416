"""Two members hold a partition at once: when that is a fault, and when one of them was expelled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.auditing.checks import HANDOVER, TWO_OWNERS
from strandline_lab.auditing.member_ownership import Change, MemberHistory, findings
from strandline_lab.auditing.ownership import GroupEvent

Step = tuple[str, int, int]
"""Event, time, generation; all of partition 0."""


def history(name: str, *step: Step, last_ms: int = 1_000, group: str = "g") -> MemberHistory:
    changes = [Change(event, at, f"{name}-id", generation, "t", (0,)) for event, at, generation in step]
    return MemberHistory(name, group, changes, last_ms)


ORDERLY = history("a", ("assigned", 10, 1), ("revoked", 90, 2))
NEXT = history("b", ("assigned", 90, 3))


def coordinator(event: str, at_ms: int, member: str, generation: int = 1) -> GroupEvent:
    partitions = {} if event == "member_left" else {"t": [0]}
    return GroupEvent(event, "g", generation, at_ms, member, partitions)


def test_a_partition_that_is_revoked_before_it_is_assigned_has_one_owner() -> None:
    assert findings([ORDERLY, NEXT], []) == []


def test_a_partition_that_is_assigned_before_it_is_revoked_has_two() -> None:
    """G9: the order in which a group hands over."""
    early = history("b", ("assigned", 89, 3))
    (found,) = findings([ORDERLY, early], [])
    assert (found.check, found.topic, found.partition) == (TWO_OWNERS.name, "t", 0)
    assert (
        found.detail
        == "a held this for group g from 10 until 90 (revoked), and b from 89 on: generations 1 and 3"
    )


def test_two_holders_until_the_end_are_two_owners_even_without_a_release() -> None:
    (found,) = findings([history("a", ("assigned", 10, 1)), history("b", ("assigned", 50, 2))], [])
    assert "until 1000 (its last word)" in found.detail


def test_a_dead_member_holds_nothing_after_its_last_event() -> None:
    assert findings([history("a", ("assigned", 10, 1), last_ms=80), NEXT], []) == []


def test_an_expelled_member_claims_ownership_for_a_while() -> None:
    hung = history("a", ("assigned", 10, 1), ("lost", 200, 1))
    assert findings([hung, NEXT], []) == []


@pytest.mark.parametrize("event", ["member_left", "lost"])
def test_an_expelled_member_that_closed_before_it_knew_is_excused_by_the_coordinators_event(
    event: str,
) -> None:
    closed = history("a", ("assigned", 10, 1), ("revoked", 200, 1))
    assert findings([closed, NEXT], [coordinator(event, 85, "a-id")]) == []
    for late_or_other in (coordinator(event, 91, "a-id"), coordinator(event, 85, "b-id")):
        assert [each.check for each in findings([closed, NEXT], [late_or_other])] == [TWO_OWNERS.name]


def test_groups_share_nothing() -> None:
    assert findings([ORDERLY, history("b", ("assigned", 20, 1), group="h")], []) == []


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (("assigned", 50, 2), "a was notified at 50 that this was assigned, and held it already"),
        (("revoked", 95, 2), "a was notified at 95 that this was revoked, and did not hold it"),
        (("lost", 95, 2), "a was notified at 95 that this was lost, and did not hold it"),
    ],
)
def test_a_call_of_a_listener_out_of_turn_is_found(step: Step, said: str) -> None:
    """The listener's contract: assigned, then one of revoked and lost, once."""
    steps = sorted([("assigned", 10, 1), ("revoked", 90, 2), step], key=lambda each: each[1])
    (found,) = findings([history("a", *steps)], [])
    assert (found.check, found.detail) == (HANDOVER.name, said)


def test_members_without_a_history_are_judged_by_the_events() -> None:
    step = [
        coordinator("assigned", 10, "x"),
        coordinator("assigned", 50, "y"),
        coordinator("revoked", 90, "x"),
    ]
    assert [each.check for each in findings([], step)] == [TWO_OWNERS.name]


def test_a_report_that_died_with_its_coordinator_makes_no_second_owner() -> None:
    """The member's own history says that it gave the partition up, so the events need not."""
    step = [coordinator("assigned", 10, "a-id"), coordinator("assigned", 90, "b-id", 3)]
    assert findings([ORDERLY, NEXT], step) == []


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(0, 5)), max_size=6))
def test_two_own_a_partition_if_and_only_if_their_times_overlap(turns: list[tuple[int, int, int]]) -> None:
    """Each turn: whose, how long, and how long after the end of the one before (5: two before its end)."""
    step: dict[int, list[Step]] = {}
    now, overlapping = 100, False
    ends: dict[int, int] = {}
    spans: list[tuple[int, int, int]] = []
    for who, lasts, gap in turns:
        begin = now - 2 if gap == 5 else now + gap
        begin = max(begin, ends.get(who, 0))
        end = begin + lasts
        overlapping |= any(other != who and begin < until and since < end for other, since, until in spans)
        spans.append((who, begin, end))
        step.setdefault(who, []).extend([("assigned", begin, 1), ("revoked", end, 1)])
        ends[who] = end
        now = max(now, end)
    found = findings([history(f"m{who}", *each) for who, each in step.items()], [])
    assert {each.check for each in found} == ({TWO_OWNERS.name} if overlapping else set())
