"""Decides whether the first assigned replica should and can lead (checkLoadBalancing of Kafka's design V3, on
demand)."""

from __future__ import annotations

from collections.abc import Set

import pytest

from strandline.controller.core.election import check_preferred, is_led
from strandline.controller.core.reassignment import Placed
from strandline.controller.core.topics import Brokers
from strandline.errors import ElectionNotNeeded, PreferredLeaderNotAvailable, StrandlineError
from strandline.ids import BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition
from strandline.vocabulary.metadata import Endpoint, IsrMember, PartitionState, Registration

NAME = TopicPartition("t", 0)


def partition(leader: int, *isr: tuple[int, int]) -> Placed:
    """A partition of brokers 1 and 2, in sync in these lives; 1 is preferred."""
    members = tuple(IsrMember(BrokerId(b), BrokerEpoch(e)) for b, e in isr)
    return Placed(0, (BrokerId(1), BrokerId(2)), 0, PartitionState(BrokerId(leader), LeaderEpoch(1), members))


def live(*ids: int, leaving: Set[int] = frozenset()) -> Brokers:
    registered = {
        BrokerId(i): Registration(Endpoint(i, "h", 1), BrokerEpoch(10 * i), i in leaving) for i in ids
    }
    return Brokers(registered, registered.keys())


def test_it_is_asked_for_where_another_one_leads() -> None:
    found = check_preferred(NAME, partition(2, (2, 20), (1, 10)), live(1, 2), frozenset())
    assert found == 1


@pytest.mark.parametrize(
    ("now", "brokers", "drained", "error", "says"),
    [
        (partition(1, (1, 10)), live(1, 2), (), ElectionNotNeeded, "leads already"),
        (partition(2, (2, 20), (1, 10)), live(2), (), PreferredLeaderNotAvailable, "not alive"),
        (
            partition(2, (2, 20), (1, 10)),
            live(1, 2, leaving={1}),
            (),
            PreferredLeaderNotAvailable,
            "shuts down",
        ),
        (partition(2, (2, 20), (1, 10)), live(1, 2), (1,), PreferredLeaderNotAvailable, "drained"),
        (partition(2, (2, 20)), live(1, 2), (), PreferredLeaderNotAvailable, "in sync are 2"),
        (partition(2, (2, 20), (1, 7)), live(1, 2), (), PreferredLeaderNotAvailable, "not in sync"),
        (partition(1, (1, 10)), live(2), (), PreferredLeaderNotAvailable, "not alive; nobody leads"),
        (partition(1, (1, 7)), live(1, 2), (), PreferredLeaderNotAvailable, "not in sync.*; nobody leads"),
        (partition(2, (2, 20), (1, 10)), live(), (), PreferredLeaderNotAvailable, "not alive; nobody leads"),
    ],
)
def test_a_refusal_has_its_reason(
    now: Placed, brokers: Brokers, drained: tuple[int, ...], error: type[StrandlineError], says: str
) -> None:
    """CORRECTNESS I6, I7: another life of the broker is not the one that is in sync."""
    with pytest.raises(error, match=says) as caught:
        check_preferred(NAME, now, brokers, frozenset(map(BrokerId, drained)))
    assert "t-0: broker 1" in caught.value.message


def test_only_a_living_leader_can_be_asked_to_hand_over() -> None:
    """CORRECTNESS E4: in the life in which it was elected."""
    assert is_led(partition(2, (2, 20)), live(1, 2))
    assert not is_led(partition(2, (2, 20)), live(1))
    assert not is_led(partition(2, (2, 7)), live(1, 2))
    assert not is_led(partition(-1), live(1, 2))
