"""Tests of the checks of recorded lives: each check refuses a manipulated record that breaks just its rule
(CORRECTNESS Q2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from strandline.broker.core.state_changes.events import elected, isr_changed, resigned
from strandline.ids import (
    NO_BROKER,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionId,
    PartitionKey,
    TopicId,
    TopicPartition,
)
from strandline.vocabulary.metadata import IsrMember, PartitionState, Reassignment
from strandline.vocabulary.reassignment_events import reassignment_ended
from strandline.vocabulary.state_changes import (
    Command,
    End,
    RequestState,
    StateChange,
    StateChangeEvent,
    life_of,
)
from tests.integration.support.lives import (
    Lives,
    Present,
    contradicted,
    disconnected,
    elected_out_of_sync,
    faults,
    moves_without_an_end,
    out_of_order,
    unfinished,
    unrecorded,
    usurped,
)

NAME = TopicPartition("orders", 0)
KEY = PartitionKey(TopicId("ab" * 16), PartitionId(0))


def state(leader: int, epoch: int, *isr: int) -> PartitionState:
    members = tuple(IsrMember(BrokerId(broker), BrokerEpoch(1)) for broker in isr)
    return PartitionState(BrokerId(leader), LeaderEpoch(epoch), members)


REQUEST = StateChange(
    "asked",
    Command.START_REPLICA,
    NAME.topic,
    KEY,
    LeaderEpoch(1),
    BrokerId(1),
    at_ms=12,
    end=End(RequestState.COMPLETED, at_ms=14, received_at_ms=13),
)
MOVE = Reassignment(
    KEY.topic_id,
    (BrokerId(2), BrokerId(1)),
    (BrokerId(1), BrokerId(2), BrokerId(3)),
    request_id="move",
    at_ms=15,
)


def sound() -> Lives:
    """Broker 1 is elected, has a follower started, loses one and gets it back, and hands over to broker 2."""
    first, second = state(1, 1, 1, 2, 3), state(2, 4, 2, 1)
    given_up = state(NO_BROKER, 1, 1, 2)
    three = (BrokerId(3),)
    records = [
        elected(NAME.topic, KEY, first, at_ms=10, reason="first election"),
        *life_of(replace(REQUEST, end=None), BrokerId(2)),
        *life_of(REQUEST, BrokerId(2)),
        isr_changed(NAME.topic, KEY, state(1, 1, 1, 2), 2, at_ms=20, reason="3 is late", left=three),
        isr_changed(NAME.topic, KEY, state(1, 1, 1, 2, 3), 3, at_ms=21, reason="3 is back", joined=three),
        isr_changed(NAME.topic, KEY, state(1, 1, 1, 2), 4, at_ms=22, reason="3 is closed", left=three),
        *reassignment_ended(NAME.topic, KEY, MOVE, given_up, BrokerId(1), at_ms=30),
        resigned(NAME.topic, KEY, BrokerId(1), given_up, at_ms=30, reason="reassignment"),
        elected(NAME.topic, KEY, second, at_ms=31, reason="handed over"),
    ]
    return Lives(records, {}, [Present(NAME, KEY, second)])


ELECTION, EARLY, REQUESTED, RECEIVED, COMPLETED = 0, 1, 2, 3, 4
LEFT, JOINED, CLOSED, MOVE_ASKED, MOVED, RESIGNED, SECOND = 5, 6, 7, 8, 9, 10, 11


def test_a_sound_story_passes() -> None:
    assert faults(sound()) == []


def test_a_history_with_repeated_records_passes() -> None:
    lives = sound()
    lives.records += lives.records
    assert faults(lives) == []


def without(*indices: int) -> Callable[[Lives], None]:
    def doctor(lives: Lives) -> None:
        lives.records = [event for index, event in enumerate(lives.records) if index not in indices]

    return doctor


def changed(index: int, **facts: object) -> Callable[[Lives], None]:
    def doctor(lives: Lives) -> None:
        lives.records[index] = replace(lives.records[index], **facts)  # type: ignore[arg-type]  # a test's own

    return doctor


def again(index: int, **facts: object) -> Callable[[Lives], None]:
    def doctor(lives: Lives) -> None:
        lives.records.append(replace(lives.records[index], **facts))  # type: ignore[arg-type]  # a test's own

    return doctor


def ends_otherwise(leader: int, epoch: int, *isr: int, trail: int | None = None) -> Callable[[Lives], None]:
    def doctor(lives: Lives) -> None:
        left = () if trail is None else (replace(lives.records[trail], id="not recorded"),)
        lives.present = [Present(NAME, KEY, replace(state(leader, epoch, *isr), trail=left))]

    return doctor


def of_events(check: Callable[[list[StateChangeEvent]], list[str]]) -> Callable[[Lives], list[str]]:
    return lambda lives: check(lives.first())


@pytest.mark.parametrize(
    ("doctor", "check"),
    [
        pytest.param(again(REQUESTED, at_ms=11), "contradicted", id="another time"),
        pytest.param(again(ELECTION, broker=BrokerId(2)), "contradicted", id="two winners of one id"),
        pytest.param(again(COMPLETED, state=RequestState.FAILED), "unfinished", id="two ends"),
        pytest.param(without(COMPLETED), "unfinished", id="no end"),
        pytest.param(without(EARLY, REQUESTED), "unfinished", id="never requested"),
        pytest.param(without(RECEIVED), "out_of_order", id="completed and not received"),
        pytest.param(changed(COMPLETED, at_ms=12), "out_of_order", id="completed before it was received"),
        pytest.param(changed(RECEIVED, broker=BrokerId(3)), "out_of_order", id="received by another broker"),
        pytest.param(without(ELECTION), "usurped", id="no election"),
        pytest.param(again(ELECTION, id="x", broker=BrokerId(2)), "usurped", id="two winners of an epoch"),
        pytest.param(
            changed(LEFT, broker=BrokerId(3)), "usurped", id="an ISR by a broker that does not lead"
        ),
        pytest.param(again(RESIGNED, id="x"), "usurped", id="given up twice"),
        pytest.param(without(JOINED), "disconnected", id="a change without a record"),
        pytest.param(changed(RESIGNED, isr=(1, 2, 3)), "disconnected", id="an ISR out of nothing"),
        pytest.param(changed(SECOND, isr=(2, 1, 3)), "elected_out_of_sync", id="let into the ISR"),
        pytest.param(changed(SECOND, broker=BrokerId(3)), "elected_out_of_sync", id="not in sync"),
        pytest.param(ends_otherwise(3, 5, 3), "unrecorded", id="an epoch without a record"),
        pytest.param(ends_otherwise(2, 4, 2), "unrecorded", id="an ISR without a record"),
        pytest.param(ends_otherwise(2, 4, 2, 1, trail=SECOND), "unrecorded", id="only in a trail"),
        pytest.param(without(MOVED), "moves_without_an_end", id="moves forever"),
        pytest.param(
            again(MOVED, state=RequestState.SUPERSEDED), "moves_without_an_end", id="moved, and did not"
        ),
    ],
)
def test_a_doctored_story_is_refused_by_the_check_that_is_about_it(
    doctor: Callable[[Lives], None], check: str
) -> None:
    lives = sound()
    doctor(lives)
    checks: dict[str, Callable[[Lives], list[str]]] = {
        "contradicted": lambda lives: contradicted(lives.records),
        "unfinished": of_events(unfinished),
        "out_of_order": of_events(out_of_order),
        "usurped": of_events(usurped),
        "disconnected": of_events(disconnected),
        "elected_out_of_sync": of_events(elected_out_of_sync),
        "unrecorded": lambda lives: unrecorded(lives.first(), lives.present),
        "moves_without_an_end": lambda lives: moves_without_an_end(lives.first(), lives.present),
    }
    assert checks[check](lives)
    assert faults(lives)


def test_waiting_requests_are_named() -> None:
    lives = sound()
    lives.waiting["asked"] = "in the queue of broker 2"
    assert faults(lives) == ["asked waits still, in the queue of broker 2"]


def test_an_unclean_winner_need_not_be_in_sync() -> None:
    lives = sound()
    changed(SECOND, broker=BrokerId(3), isr=(BrokerId(3),), unclean=True)(lives)
    assert elected_out_of_sync(lives.first()) == []


def test_a_move_that_stands_has_no_end_yet() -> None:
    lives = sound()
    without(MOVED)(lives)
    lives.present = [replace(lives.present[0], moving=True)]
    assert moves_without_an_end(lives.first(), lives.present) == []
