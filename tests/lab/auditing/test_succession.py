"""Who leads the partitions of a broker that hangs, and how soon."""

from __future__ import annotations

from strandline.auditing.checks import LEADERLESS
from strandline.ids import BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId, TopicPartition
from strandline.vocabulary.state_changes import ChangeKind, RequestState, StateChangeEvent
from strandline_lab.auditing.succession import Elected, Hang, findings, next_leaders

A, B = TopicPartition("a", PartitionId(0)), TopicPartition("b", PartitionId(0))
WITHIN_MS = 6_000


def elected(at_ms: int, place: TopicPartition, broker: int, *isr: int) -> StateChangeEvent:
    return StateChangeEvent(
        id=f"{place} {at_ms}",
        command=ChangeKind.ELECT_LEADER,
        state=RequestState.COMPLETED,
        topic=place.topic,
        key=PartitionKey(TopicId("5f0c"), PartitionId(place.partition)),
        broker=BrokerId(broker),
        epoch=LeaderEpoch(at_ms),
        at_ms=at_ms,
        isr=tuple(BrokerId(each) for each in isr),
    )


def test_the_next_leaders_are_those_of_what_it_led_then() -> None:
    elections = [Elected(10, A, 2), Elected(0, A, 1), Elected(5, B, 1), Elected(120, B, 3), Elected(90, B, 1)]
    assert next_leaders(elections, 1, 100, 200) == {B: 20}
    assert next_leaders(elections, 1, 100, 110) == {B: None}
    assert next_leaders(elections, 2, 100, 200) == {A: None}
    assert next_leaders(elections, 3, 100, 200) == {}


def test_a_broker_that_hangs_is_replaced_in_time() -> None:
    before = [elected(0, A, 1, 1, 2, 3), elected(0, B, 1, 1, 2, 3)]
    hang = Hang(1, 1_000, 8_000)
    in_time = [elected(1_800, A, 2, 2, 3), elected(7_000, B, 3, 2, 3)]
    assert findings([*before, *in_time], [hang], within_ms=WITHIN_MS) == []
    (found,) = findings([*before, in_time[0], elected(7_001, B, 3, 2, 3)], [hang], within_ms=WITHIN_MS)
    assert (found.check, found.topic) == (LEADERLESS.name, "b")
    assert "broker 1 hung from 1000 to 8000" in found.detail


def test_a_short_hang_and_one_that_nobody_could_replace_are_no_fault() -> None:
    alone, others = elected(0, A, 1, 1), elected(0, A, 1, 1, 2)
    assert findings([others], [Hang(1, 1_000, 1_000 + WITHIN_MS - 1)], within_ms=WITHIN_MS) == []
    assert findings([alone], [Hang(1, 1_000, 9_000)], within_ms=WITHIN_MS) == []
    assert len(findings([others], [Hang(1, 1_000, 9_000)], within_ms=WITHIN_MS)) == 1
