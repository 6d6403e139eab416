"""Placement of new topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.controller.core.placement import ReplicaAssignment, place
from strandline.ids import BrokerId
from strandline.vocabulary.metadata import Endpoint


def brokers_in(racks: Sequence[str]) -> list[Endpoint]:
    """One broker a name of a rack; ids from 1, not in a row."""
    return [Endpoint(1 + 3 * i, "h", 1, rack) for i, rack in enumerate(racks)]


def spread(counts: Counter[int], brokers: Sequence[Endpoint]) -> int:
    """How much more the fullest has than the emptiest."""
    all_counts = [counts[broker.id] for broker in brokers]
    return max(all_counts) - min(all_counts)


def leaders(assignments: Sequence[ReplicaAssignment]) -> Counter[int]:
    return Counter(int(assignment[0]) for assignment in assignments)


def replicas(assignments: Sequence[ReplicaAssignment]) -> Counter[int]:
    return Counter(int(broker) for assignment in assignments for broker in assignment)


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[Endpoint], int, int, int, dict[BrokerId, int]]:
    """Brokers in any racks, partitions, replication factor, partitions before, load before."""
    racks = draw(st.lists(st.sampled_from(["", "a", "b", "c", "d"]), min_size=1, max_size=12))
    brokers = brokers_in(racks)
    replication_factor = draw(st.integers(1, len(brokers)))
    loads = draw(st.lists(st.integers(0, 50), min_size=len(brokers), max_size=len(brokers)))
    load = {BrokerId(broker.id): count for broker, count in zip(brokers, loads, strict=True)}
    return brokers, draw(st.integers(1, 60)), replication_factor, draw(st.integers(0, 1000)), load


@settings(deadline=None)  # a machine under load is no failure
@given(requests())
def test_each_partition_has_different_brokers_on_as_many_racks_as_there_are(
    request_: tuple[list[Endpoint], int, int, int, dict[BrokerId, int]],
) -> None:
    brokers, partitions, replication_factor, first, load = request_
    racks = {broker.id: broker.rack for broker in brokers}
    placed = place(
        brokers, partitions=partitions, replication_factor=replication_factor, first=first, load=load
    )
    assert len(placed) == partitions
    for assignment in placed:
        assert len(set(assignment)) == len(assignment) == replication_factor
        assert len({racks[b] for b in assignment}) == min(replication_factor, len(set(racks.values())))


@settings(deadline=None)  # a machine under load is no failure
@given(requests())
def test_leaders_of_a_topic_differ_by_at_most_one_between_brokers(
    request_: tuple[list[Endpoint], int, int, int, dict[BrokerId, int]],
) -> None:
    brokers, partitions, replication_factor, first, load = request_
    placed = place(
        brokers, partitions=partitions, replication_factor=replication_factor, first=first, load=load
    )
    assert spread(leaders(placed), brokers) <= 1


@settings(deadline=None)  # a machine under load is no failure
@given(requests())
def test_without_racks_replicas_of_a_topic_differ_by_at_most_one_between_brokers(
    request_: tuple[list[Endpoint], int, int, int, dict[BrokerId, int]],
) -> None:
    brokers, partitions, replication_factor, first, load = request_
    alike = [Endpoint(broker.id, broker.host, broker.port) for broker in brokers]
    placed = place(
        alike, partitions=partitions, replication_factor=replication_factor, first=first, load=load
    )
    assert spread(replicas(placed), alike) <= 1


@settings(deadline=None)  # a machine under load is no failure
@given(
    racks=st.integers(1, 5),
    brokers_per_rack=st.integers(1, 4),
    partitions=st.integers(1, 60),
    first=st.integers(0, 1000),
    data=st.data(),
)
def test_on_racks_of_one_size_replicas_of_a_topic_differ_by_at_most_two_between_brokers(
    racks: int, brokers_per_rack: int, partitions: int, first: int, data: st.DataObject
) -> None:
    brokers = brokers_in([str(rack) for rack in range(racks)] * brokers_per_rack)
    replication_factor = data.draw(st.integers(1, len(brokers)))
    placed = place(
        brokers, partitions=partitions, replication_factor=replication_factor, first=first, load={}
    )
    assert spread(replicas(placed), brokers) <= 2


@pytest.mark.parametrize("partitions", [1, 2, 3])
@pytest.mark.parametrize("racks", [[""] * 3, [""] * 5, ["a", "b", "a", "b"], ["a", "a", "b", "b", "c", "c"]])
def test_many_small_topics_are_as_even_as_one_large_one(racks: list[str], partitions: int) -> None:
    brokers = brokers_in(racks)
    led, held = Counter[int](), Counter[int]()
    for topic in range(300):
        placed = place(
            brokers,
            partitions=partitions,
            replication_factor=2,
            first=topic * partitions,
            load={BrokerId(broker): count for broker, count in held.items()},
        )
        led += leaders(placed)
        held += replicas(placed)
    assert spread(led, brokers) <= 1
    assert spread(held, brokers) <= 2 * len(brokers)


@pytest.mark.parametrize("racks", [[""] * 3, [""] * 6, ["a", "b", "a", "b"], ["a", "a", "b", "b", "c", "c"]])
def test_the_leaderships_of_a_dead_broker_fall_to_all_that_may_follow_it(racks: list[str]) -> None:
    brokers = brokers_in(racks)
    held, successors = Counter[int](), Counter[tuple[int, int]]()
    for topic in range(300):
        load = {BrokerId(broker): count for broker, count in held.items()}
        placed = place(brokers, partitions=1, replication_factor=2, first=topic, load=load)
        held += replicas(placed)
        successors.update((int(leader), int(second)) for leader, second in placed)
    others = len(brokers) - (racks.count("a") or 1)
    for broker in brokers:
        assert len([pair for pair in successors if pair[0] == broker.id]) == others


def test_three_brokers_share_the_leaderships_of_a_dead_one_equally() -> None:
    brokers = brokers_in([""] * 3)
    successors = Counter[tuple[int, int]]()
    for topic in range(100):
        placed = place(brokers, partitions=3, replication_factor=3, first=3 * topic, load={})
        successors.update((int(a[0]), int(a[1])) for a in placed)
    assert set(successors.values()) == {50}
    assert len(successors) == 6


def test_a_new_broker_gets_followers_until_it_has_as_many_as_the_others() -> None:
    brokers = brokers_in([""] * 4)
    load = {BrokerId(1): 90, BrokerId(4): 90, BrokerId(7): 90, BrokerId(10): 0}
    placed = place(brokers, partitions=1, replication_factor=2, first=0, load=load)
    assert placed == ((1, 10),)


def test_placement_depends_on_its_arguments_only() -> None:
    brokers = brokers_in(["b", "a", "b", "a"])
    assert place(brokers, partitions=8, replication_factor=3, first=5, load={}) == place(
        list(reversed(brokers)), partitions=8, replication_factor=3, first=5, load={}
    )


@pytest.mark.parametrize("replication_factor", [0, 4])
def test_a_replication_factor_that_the_brokers_cannot_hold_is_an_error_of_the_caller(
    replication_factor: int,
) -> None:
    with pytest.raises(ValueError, match="on 3 brokers"):
        place(brokers_in([""] * 3), partitions=1, replication_factor=replication_factor, first=0, load={})
