"""A turn that fails ends its group and nothing else (CORRECTNESS X2).

No input is known that makes one fail: a defect is played by taking a member out of a group's books.
"""

from __future__ import annotations

import pytest

from strandline.broker.core.groups.requests import Commit
from strandline.errors import CoordinatorNotAvailable
from strandline.vocabulary.groups import CommittedOffset, LeaveGroup, LeavingMember, OffsetCommit, OffsetFetch
from tests.broker.core.groups.support.stage import GROUP, Stage, partition


def broken() -> Stage:
    """A stable group with an offset, whose timers know a member that it does not have."""
    stage = Stage()
    stage.expects_failures = True
    generation = stage.stable("a", "b")
    stage.commit({partition(0): 7}, "a", generation)
    stage.commit({partition(0): 1}, group="other")
    del stage.core._groups[GROUP].members["a"]
    return stage


def test_a_timer_that_fails_ends_its_group_only() -> None:
    stage = broken()
    held = stage.heartbeat("b", stage.generation, wait_ms=4_000)
    stage.later(11)
    (failure,) = stage.failures
    assert failure.name == GROUP
    assert isinstance(failure.error, KeyError)
    assert "Stable, generation" in failure.held
    assert stage.state == "Dead"
    assert not stage.waits(held)
    assert stage.committed("other") == {partition(0): 1}
    assert stage.elsewhere().committed() == {partition(0): 7}  # the log has lost nothing


def test_waiting_calls_are_answered_and_later_ones_refused() -> None:
    """Each call is answered once; the group's name is not given to a new group that knows no offsets."""
    stage = broken()
    waiting = stage.join("b", reason="again")
    stage.later(61)
    assert stage.state == "Dead"
    assert not stage.waits(waiting)
    for token in (
        stage.join(""),
        stage.heartbeat("b", 1),
        stage.commit({partition(0): 9}),
        stage.ask(OffsetFetch(GROUP)),
        stage.ask(LeaveGroup(GROUP, (LeavingMember("b"),))),
    ):
        refused = stage.answer(token, CoordinatorNotAvailable)
        assert "Dead" in refused.message
    assert len(stage.failures) == 1


def test_a_dead_group_is_described_with_its_reason_and_can_be_deleted() -> None:
    """The way out without a restart; its offsets go with it, those that were being written too."""
    stage = broken()
    stage.writing = False
    request = OffsetCommit(GROUP, "b", stage.generation, {partition(1): CommittedOffset(3)})
    under_way = stage.ask(Commit(request))
    stage.later(11)
    assert "KeyError" in stage.describe().reason
    assert isinstance(stage.answer(under_way, CoordinatorNotAvailable), CoordinatorNotAvailable)
    deleted = stage.delete()
    while stage.wanted:
        stage.written()
    assert stage.answer(deleted, type(None)) is None
    stage.writing = True
    assert stage.committed() == {}
    assert stage.elsewhere().committed() == {}
    assert stage.stable("c") == 1


def test_a_write_whose_result_fails_the_group_ends_it_only() -> None:
    stage = broken()
    stage.writing = False
    stage.join("b", reason="again")
    stage.core._groups[GROUP].members.clear()
    stage.commit({partition(0): 2}, group="other")
    stage.later(70)
    while stage.wanted:
        stage.written()
    assert stage.committed("other") == {partition(0): 2}


@pytest.mark.parametrize("seconds", [0, 11])
def test_the_end_of_the_leadership_ends_a_dead_group_too(seconds: int) -> None:
    stage = broken()
    stage.later(seconds)
    waiting = stage.join("", "new", instance="i")
    stage.unload()
    assert not stage.waits(waiting)
