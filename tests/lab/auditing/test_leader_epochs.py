"""Leader epochs from the recorded events: each begins in the ISR of the one before, and no change is
missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from strandline.auditing.checks import LEADERSHIP
from strandline.ids import BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.vocabulary.state_changes import ChangeKind, RequestState, StateChangeEvent
from strandline_lab.auditing.leader_epochs import findings

KEY = PartitionKey(TopicId("5f0c"), PartitionId(1))
FinishedRun = list[StateChangeEvent]


def brokers(*ids: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, ids))


def event(id: str, what: ChangeKind, broker: int, epoch: int, *isr: int) -> StateChangeEvent:
    who, when = BrokerId(broker), LeaderEpoch(epoch)
    return StateChangeEvent(id, what, RequestState.COMPLETED, "t", KEY, who, when, 0, isr=brokers(*isr))


def sound() -> FinishedRun:
    """Broker 1 leads, loses broker 3, gives up; broker 2 leads, without broker 1, and has it back."""
    return [
        event("elect-1", ChangeKind.ELECT_LEADER, 1, 1, 1, 2, 3),
        replace(event("isr-1-7", ChangeKind.CHANGE_ISR, 1, 1, 1, 2), left=brokers(3)),
        event("resign-1", ChangeKind.RESIGN_LEADER, 1, 1, 1, 2),
        event("elect-4", ChangeKind.ELECT_LEADER, 2, 4, 2),
        replace(event("isr-4-10", ChangeKind.CHANGE_ISR, 2, 4, 2, 1, 3), joined=brokers(3)),
        replace(event("isr-4-9", ChangeKind.CHANGE_ISR, 2, 4, 2, 1), joined=brokers(1)),
    ]


def test_nothing_is_found_in_epochs_that_follow_each_other() -> None:
    assert findings(sound()) == []


def _set(at: int, **facts: object) -> Callable[[FinishedRun], None]:
    def doctor(finished_run: FinishedRun) -> None:
        finished_run[at] = replace(finished_run[at], **facts)  # type: ignore[arg-type]

    return doctor


@pytest.mark.parametrize(
    ("doctor", "said"),
    [
        (_set(3, broker=BrokerId(3), isr=brokers(3)), "and epoch 4 began with broker 3 of (3,)"),
        (_set(3, isr=brokers(2, 3)), "[1, 2] were in sync, and epoch 4 began with broker 2 of (2, 3)"),
        (lambda finished_run: finished_run.pop(3), "in epoch 4 no broker was elected"),
        (
            lambda finished_run: finished_run.append(replace(finished_run[3], broker=BrokerId(1))),
            "in epoch 4 2 and 1 was elected",
        ),
        (_set(1, broker=BrokerId(2)), "broker 2 did isr-1-7 in epoch 1, which it did not win"),
        (
            lambda finished_run: finished_run.append(finished_run[2]),
            "epoch 1 was given up more than once: resign-1, resign-1",
        ),
        (
            lambda finished_run: finished_run.pop(5),
            "epoch 4: the ISR was (2,) by elect-4, then () left and (3,) joined",
        ),
    ],
)
def test_each_fault_is_found(doctor: Callable[[FinishedRun], object], said: str) -> None:
    """E1, E2, I1, I3: a broker that was not in sync must not lead, and an epoch has one leader."""
    finished_run = sound()
    doctor(finished_run)
    found = findings(finished_run)
    assert {each.check for each in found} == {LEADERSHIP.name}
    assert any(said in each.detail for each in found), found


def test_an_unclean_election_may_take_any_replica() -> None:
    finished_run = sound()
    finished_run[3:] = [replace(event("elect-4", ChangeKind.ELECT_LEADER, 3, 4, 3), unclean=True)]
    assert findings(finished_run) == []
