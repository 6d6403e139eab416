"""Which requests the judge of a run misses an end of."""

from __future__ import annotations

from strandline.ids import NO_BROKER, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.vocabulary.state_changes import ChangeKind, RequestState, StateChangeEvent
from strandline_lab.simulation.judging.recorded_changes import with_crowded_out, without_end

KEY = PartitionKey(TopicId("5f0c"), PartitionId(0))


def reassignment(id: str, state: RequestState) -> StateChangeEvent:
    return StateChangeEvent(id, ChangeKind.REASSIGN, state, "orders", KEY, NO_BROKER, LeaderEpoch(1), 10)


ASKED, ENDED = reassignment("a", RequestState.REQUESTED), reassignment("a", RequestState.COMPLETED)


def test_a_request_that_is_due_and_has_no_end_is_found() -> None:
    (found,) = without_end([ASKED], {"a"})
    assert found.detail == "reassign-replicas a to broker -1, requested at 10, has no end"
    assert without_end([ASKED], set()) == []
    assert without_end([ASKED, ENDED], {"a"}) == []


def test_an_end_that_a_full_trail_had_no_room_for_is_an_end() -> None:
    """With seed 1190017 of 60 s, a reassignment ended while `__state_changes` was not writable."""
    assert without_end(with_crowded_out([ASKED], [ENDED]), {"a"}) == []


def test_what_was_recorded_after_all_counts_once() -> None:
    assert with_crowded_out([ASKED, ENDED], [ENDED]) == [ASKED, ENDED]
