"""Committed offsets: only written ones are visible, in any order of results (G12)."""

from __future__ import annotations

from strandline.broker.core.groups.state.offsets import Offsets
from strandline.vocabulary.groups import CommittedOffset
from tests.broker.core.groups.support.stage import partition

P0, P1 = partition(0), partition(1)


def at(offset: int, at_ms: int = 0) -> CommittedOffset:
    return CommittedOffset(offset, committed_at_ms=at_ms)


def test_an_offset_is_not_seen_before_it_is_written() -> None:
    """CORRECTNESS G12"""
    offsets = Offsets()
    offsets.writing([P0])
    assert offsets.get(P0) is None
    assert offsets.busy
    offsets.written(1, {P0: at(5)})
    assert offsets.get(P0) == at(5)
    assert not offsets.busy


def test_a_later_commit_is_not_undone_by_the_late_result_of_an_earlier_one() -> None:
    """CORRECTNESS G12: the log has them in the order of their writes."""
    offsets = Offsets()
    offsets.writing([P0])
    offsets.writing([P0])
    offsets.written(2, {P0: at(20)})
    offsets.written(1, {P0: at(10)})
    assert offsets.get(P0) == at(20)


def test_a_removed_offset_does_not_come_back_with_an_earlier_commit() -> None:
    offsets = Offsets()
    offsets.writing([P0])
    offsets.remove(2, [P0])
    offsets.written(1, {P0: at(10)})
    assert offsets.get(P0) is None
    offsets.writing([P0])
    offsets.written(3, {P0: at(30)})
    assert offsets.get(P0) == at(30)


def test_a_removal_leaves_what_was_committed_after_it() -> None:
    offsets = Offsets()
    offsets.load(P0, at(1))
    offsets.writing([P0])
    offsets.written(2, {P0: at(20)})
    offsets.remove(1, [P0])
    assert offsets.get(P0) == at(20)


def test_a_failed_commit_leaves_what_was_there() -> None:
    """CORRECTNESS G12"""
    offsets = Offsets()
    offsets.load(P0, at(1))
    offsets.writing([P0, P1])
    offsets.not_writing([P0, P1])
    assert offsets.everything() == {P0: at(1)}
    assert not offsets.busy


def test_an_offset_that_is_being_committed_again_is_not_old() -> None:
    offsets = Offsets()
    offsets.load(P0, at(1, at_ms=100))
    offsets.load(P1, at(1, at_ms=200))
    assert offsets.older_than(100) == [P0]
    offsets.writing([P0])
    assert offsets.older_than(200) == [P1]
