"""Each request of the state queue ends once."""

from __future__ import annotations

from dataclasses import replace

from strandline.auditing.checks import REQUESTS
from strandline.ids import BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.vocabulary.state_changes import ChangeKind, Command, RequestState, StateChangeEvent
from strandline_lab.auditing.requests import findings

KEY = PartitionKey(TopicId("5f0c"), PartitionId(0))
SETTLED_MS = 1_000


def step(
    id: str, state: RequestState, command: Command | ChangeKind = Command.START_REPLICA, at_ms: int = 10
) -> StateChangeEvent:
    return StateChangeEvent(
        id, command, state, "orders", KEY, BrokerId(2), LeaderEpoch(1), at_ms, requester=BrokerId(-1)
    )


def life(id: str, *states: RequestState) -> list[StateChangeEvent]:
    return [step(id, state) for state in states]


REQUESTED, RECEIVED, COMPLETED = RequestState.REQUESTED, RequestState.RECEIVED, RequestState.COMPLETED
SUPERSEDED, FAILED = RequestState.SUPERSEDED, RequestState.FAILED
WHOLE = [
    *life("a", REQUESTED, RECEIVED, COMPLETED),
    *life("b", REQUESTED, REQUESTED, SUPERSEDED, SUPERSEDED),  # recorded twice by writers that could not know
    *life("c", REQUESTED, RECEIVED, FAILED),
    step("d", REQUESTED, ChangeKind.REASSIGN),
    step("d", COMPLETED, ChangeKind.REASSIGN),
    step("e", COMPLETED, ChangeKind.ELECT_LEADER),
]


def test_a_request_that_ended_once_is_sound_though_it_was_recorded_twice() -> None:
    assert findings(WHOLE, settled_ms=SETTLED_MS) == []


def test_a_request_that_never_ended_is_found_once_all_has_settled() -> None:
    """Q2."""
    changes = [*WHOLE, *life("x", REQUESTED, RECEIVED)]
    (found,) = findings(changes, settled_ms=SETTLED_MS)
    assert (found.check, found.topic, found.partition) == (REQUESTS.name, "orders", 0)
    assert found.detail == "start-replica x to broker 2, requested at 10, has no end"
    assert findings(changes, settled_ms=None) == []
    assert findings(changes, settled_ms=SETTLED_MS, gone={2}) == []
    late = [replace(change, at_ms=SETTLED_MS) for change in life("y", REQUESTED)]
    assert findings([*WHOLE, *late], settled_ms=SETTLED_MS) == []


def test_a_reassignment_that_never_ended_is_found_too() -> None:
    (found,) = findings([step("r", REQUESTED, ChangeKind.REASSIGN)], settled_ms=SETTLED_MS)
    assert found.detail.startswith("reassign-replicas r")


def test_a_request_that_was_never_made_is_found() -> None:
    (found,) = findings([*WHOLE, *life("x", RECEIVED, COMPLETED)])
    assert found.detail == "start-replica x to broker 2 was never requested"


def test_a_request_with_two_ends_is_found_whether_all_has_settled_or_not() -> None:
    """Q2."""
    for settled_ms in (SETTLED_MS, None):
        (found,) = findings([*WHOLE, step("c", SUPERSEDED)], settled_ms=settled_ms)
        assert found.detail == "start-replica c to broker 2 has the ends failed and superseded"
