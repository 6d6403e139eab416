"""A group's committed offsets: they rise, and every record below them was received."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from strandline.auditing.checks import COMMITTED
from strandline.auditing.commits import Committed, findings

LANE = ("orders", 0)
TOLD = [Committed(at, "g", "orders", 0, offset) for at, offset in ((1, 2), (2, 2), (3, 5), (4, 6))]
RECEIVED = {"g": {LANE: {0, 1, 2, 3, 4, 5, 6}}}
LOG = {LANE: list(range(8))}


def test_commits_that_follow_the_received_records_are_correct() -> None:
    assert findings(TOLD, RECEIVED, LOG) == []


def test_a_group_that_began_in_the_middle_need_not_receive_earlier_records() -> None:
    assert findings(TOLD, {"g": {LANE: {4, 5}}}, LOG) == []
    assert findings(TOLD, {"g": {}}, LOG) == []


def test_a_committed_offset_that_fell_is_found() -> None:
    """G1."""
    (found,) = findings([*TOLD, replace(TOLD[2], at_ms=9, offset=4)], RECEIVED, LOG)
    assert (found.check, found.partition, found.offset) == (COMMITTED.name, 0, 4)
    assert found.detail == "group g had 6 at 4, and this at 9"


def test_offsets_of_other_groups_and_partitions_are_not_compared() -> None:
    others = [replace(TOLD[0], group="h", at_ms=9), replace(TOLD[0], partition=1, at_ms=9)]
    assert findings([*TOLD, *others], RECEIVED, LOG) == []


def test_a_record_that_was_committed_and_that_no_member_received_is_found() -> None:
    """G6, G14: a commit without its records is a loss that no log knows of."""
    (found,) = findings(TOLD, {"g": {LANE: {0, 1, 2, 4, 5}}}, LOG)
    assert (found.check, found.offset) == (COMMITTED.name, 3)
    assert found.detail == "group g has committed 6, and none of its members received this record"


def test_an_offset_without_a_record_is_not_missed() -> None:
    assert findings(TOLD, {"g": {LANE: {0, 1, 2, 4, 5}}}, {LANE: [0, 1, 2, 4, 5, 6, 7]}) == []


def test_an_offset_behind_the_end_of_the_log_is_found() -> None:
    (found,) = findings([replace(TOLD[3], offset=9)], {"g": {LANE: set(range(8))}}, LOG)
    assert found.detail == "group g has committed this, and the last record of the log is 7"


def test_an_acknowledged_commit_that_the_group_does_not_have_is_found() -> None:
    """G12. Only by what was asked for after the acknowledgement, and of the same group and partition."""
    acked = Committed(1, "g", "orders", 0, 7)
    late = replace(TOLD[3], at_ms=9_000)
    (found,) = findings([*TOLD, late], RECEIVED, LOG, [acked])
    assert (found.check, found.offset) == (COMMITTED.name, 7)
    assert found.detail == "a commit of this was acknowledged at 1, and group g had 6 at 9000"
    for well in (replace(acked, offset=6), replace(acked, at_ms=8_999), replace(acked, group="h")):
        assert findings([*TOLD, late], RECEIVED, LOG, [well]) == []


@given(st.lists(st.integers(0, 6), max_size=8))
def test_offsets_fell_if_and_only_if_they_are_not_in_order(offsets: list[int]) -> None:
    answers = [Committed(at, "g", "orders", 0, offset) for at, offset in enumerate(offsets)]
    assert bool(findings(answers, {}, {})) == (offsets != sorted(offsets))
