"""Leaders, epochs and high watermarks: what observers and elections may say, and what is a fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.auditing.checks import FELL, LEADERSHIP
from strandline.auditing.cluster import NOBODY, Observation, findings
from strandline.ids import BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.vocabulary.state_changes import ChangeKind, RequestState, StateChangeEvent

KEY = PartitionKey(TopicId("5f0c"), PartitionId(1))
Seen = list[Observation]
Elections = list[StateChangeEvent]


def seen(at_ms: int, leader: int, epoch: int, watermark: int | None, *isr: int) -> Observation:
    return Observation(at_ms, "admin", "orders", 1, leader, epoch, isr or (1, 2, 3), watermark, watermark)


def elected(broker: int, epoch: int) -> StateChangeEvent:
    return StateChangeEvent(
        f"elect-5f0c-1-{epoch}",
        ChangeKind.ELECT_LEADER,
        RequestState.COMPLETED,
        "orders",
        KEY,
        BrokerId(broker),
        LeaderEpoch(epoch),
        at_ms=epoch,
        isr=(BrokerId(broker),),
    )


def sound() -> tuple[Seen, Elections]:
    """Broker 1 leads and dies, there is no leader, and then broker 2 leads; one report of the old leader
    comes late."""
    observations = [
        seen(10, 1, 3, 100),
        seen(20, 1, 3, 120),
        seen(30, NOBODY, 3, None, 2, 3),
        seen(40, 2, 4, None, 2, 3),
        seen(50, 2, 4, 130, 2, 3),
        seen(60, 1, 3, 120),
        seen(70, 2, 4, 131, 2, 3, 1),
    ]
    return observations, [elected(1, 3), elected(2, 4)]


def test_nothing_is_found_in_a_change_of_leader() -> None:
    assert findings(*sound()) == []


def _outside(observations: Seen, _: Elections) -> None:
    observations[1] = seen(20, 1, 3, 120, 2, 3)


def _two_observed(observations: Seen, _: Elections) -> None:
    observations[1] = replace(observations[1], leader=2)


def _another_elected(_: Seen, elections: Elections) -> None:
    elections[0] = elected(3, 3)


def _elected_twice(_: Seen, elections: Elections) -> None:
    elections.append(elected(3, 4))


def _epoch_fell(_: Seen, elections: Elections) -> None:
    elections.append(elected(2, 2))


def _fell_in_an_epoch(observations: Seen, _: Elections) -> None:
    observations[6] = replace(observations[6], watermark=129)


def _fell_with_a_leader(observations: Seen, _: Elections) -> None:
    """The second leader begins below the first one's last report."""
    observations[4] = replace(observations[4], watermark=119)
    observations[6] = replace(observations[6], watermark=119)


@pytest.mark.parametrize(
    ("harm", "check", "said"),
    [
        (_outside, LEADERSHIP, "admin saw leader 1 of epoch 3, and the ISR 2, 3, at 20"),
        (_two_observed, LEADERSHIP, "epoch 3 had leaders 1 (elect-5f0c-1-3) and 2 (admin at 20)"),
        (_another_elected, LEADERSHIP, "epoch 3 had leaders 3 (elect-5f0c-1-3) and 1 (admin at 10)"),
        (_elected_twice, LEADERSHIP, "epoch 4 had leaders 2 (elect-5f0c-1-4) and 3 (elect-5f0c-1-4)"),
        (
            _epoch_fell,
            LEADERSHIP,
            "the election of broker 2 in epoch 2 is recorded after that of broker 2 in epoch 4",
        ),
        (_fell_in_an_epoch, FELL, "admin received 129 in epoch 4, at 70, after 130 in epoch 4"),
        (_fell_with_a_leader, FELL, "admin received 119 in epoch 4, at 50, after 120 in epoch 3"),
    ],
)
def test_each_fault_is_found_with_its_evidence(
    harm: Callable[[Seen, Elections], None], check: object, said: str
) -> None:
    """I8, H1."""
    observations, elections = sound()
    harm(observations, elections)
    found = findings(observations, elections)
    assert {each.check for each in found} == {check.name}  # type: ignore[attr-defined]
    assert said in [each.detail for each in found]
    assert {(each.topic, each.partition) for each in found} == {("orders", 1)}


def test_an_election_that_had_no_room_in_its_trail_may_be_recorded_late() -> None:
    """E7: its leader records it when it can, and the leaders after it do not know of it."""
    observations, elections = sound()
    _epoch_fell(observations, elections)
    assert findings(observations, elections, crowded_out=elections[-1:]) == []
    assert findings(observations, elections, crowded_out=elections[:1]) != []


def test_partitions_and_observers_are_held_to_their_own_words() -> None:
    one = [seen(10, 1, 3, 100), seen(20, 1, 3, 110)]
    other_partition = [replace(each, partition=0, watermark=5, leader=2) for each in one]
    other_observer = replace(one[0], observer="second", watermark=3)
    assert findings([*one, *other_partition, other_observer]) == []


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), max_size=12))
def test_a_watermark_fell_if_and_only_if_one_of_its_epoch_or_before_had_been_higher(
    reported: list[tuple[int, int]],
) -> None:
    observations = [seen(at, epoch, epoch, mark, 1, 2, 3, 4) for at, (epoch, mark) in enumerate(reported)]
    fell = [
        at
        for at, (epoch, mark) in enumerate(reported)
        if any(before <= epoch and more > mark for before, more in reported[:at])
    ]
    found = findings(observations)
    assert sorted(int(each.detail.split("at ")[1].split(",")[0]) for each in found) == fell
