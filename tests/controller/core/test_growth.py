"""Which brokers get added partitions, and when none can be added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from strandline.config.limits import PARTITIONS_PER_TOPIC_MAX
from strandline.controller.core.cluster import ClusterPicture, PlacedTopic
from strandline.controller.core.growth import plan_growth
from strandline.controller.core.placement import ReplicaAssignment
from strandline.controller.core.topics import Brokers
from strandline.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidTopic,
    StrandlineError,
)
from strandline.ids import BrokerEpoch, BrokerId, TopicId
from strandline.vocabulary.metadata import Endpoint, Registration

TOPIC_ID = TopicId("0" * 32)


def live(*ids: int) -> Brokers:
    registered = {BrokerId(i): Registration(Endpoint(i, "h", 1), BrokerEpoch(i)) for i in ids}
    return Brokers(registered, registered.keys())


def grow(
    wanted: int,
    *,
    now: int = 3,
    name: str = "t",
    replication_factor: int = 2,
    assignments: Sequence[Sequence[int]] = (),
    brokers: Brokers | None = None,
    picture: ClusterPicture | None = None,
) -> Sequence[ReplicaAssignment]:
    return plan_growth(
        name,
        now=now,
        wanted=wanted,
        replication_factor=replication_factor,
        assignments=assignments,
        brokers=brokers or live(1, 2, 3),
        picture=picture or ClusterPicture(),
    )


def test_new_partitions_continue_where_the_others_ended() -> None:
    """Leaders go round over all partitions of the cluster, as in a creation."""
    picture = ClusterPicture()
    first = grow(4, now=0, picture=picture)
    picture.add("t", PlacedTopic(TOPIC_ID, first))
    second = grow(9, now=4, picture=picture)
    leaders = Counter(assigned[0] for assigned in (*first, *second))
    assert leaders == {1: 3, 2: 3, 3: 3}
    assert {len(assigned) for assigned in second} == {2}


def test_growth_to_the_present_size_does_nothing() -> None:
    assert grow(3) == ()


def test_assignments_are_taken_as_they_are_given() -> None:
    assert grow(5, assignments=[(3, 1), (2, 3)]) == ((3, 1), (2, 3))


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (
            lambda: grow(2),
            InvalidPartitions,
            "has 3 partitions, 2 are fewer: partitions cannot be taken away",
        ),
        (lambda: grow(-1), InvalidPartitions, "-1 partitions"),
        (lambda: grow(PARTITIONS_PER_TOPIC_MAX + 1), InvalidPartitions, str(PARTITIONS_PER_TOPIC_MAX)),
        (lambda: grow(4, name="__consumer_offsets"), InvalidTopic, "the system's own"),
        (lambda: grow(4, brokers=live(1)), InvalidReplicationFactor, "1 broker is alive"),
        (lambda: grow(5, assignments=[(1, 2)]), InvalidReplicaAssignment, "gets 2 more"),
        (lambda: grow(3, assignments=[(1, 2)]), InvalidReplicaAssignment, "gets 0 more"),
        (lambda: grow(4, assignments=[(1, 2, 3)]), InvalidReplicaAssignment, "equally many"),
        (lambda: grow(4, assignments=[(1, 9)]), InvalidReplicaAssignment, "partition 3: replicas [1, 9]"),
    ],
)
def test_an_impossible_request_is_refused_with_the_value(
    call: object, error: type[StrandlineError], says: str
) -> None:
    assert callable(call)
    with pytest.raises(error) as caught:
        call()
    assert says in caught.value.message


def test_partitions_that_are_not_added_after_all_do_not_count() -> None:
    picture = ClusterPicture()
    picture.add("t", PlacedTopic(TOPIC_ID, [(BrokerId(1),)]))
    picture.grow("t", TOPIC_ID, [(BrokerId(2),), (BrokerId(2),)])
    assert dict(picture.replicas) == {1: 1, 2: 2}
    picture.shrink("t", TOPIC_ID, 1)
    assert +Counter(picture.replicas) == {1: 1}
    picture.remove("t", TOPIC_ID)
    assert not +Counter(picture.replicas)


def test_another_incarnation_of_a_topic_does_not_grow_shrink_or_move() -> None:
    """CORRECTNESS E6."""
    picture, other = ClusterPicture(), TopicId("1" * 32)
    picture.add("t", PlacedTopic(TOPIC_ID, [(BrokerId(1),)]))
    picture.grow("t", other, [(BrokerId(2),)])
    picture.shrink("t", other, 0)
    picture.place("t", other, 0, (BrokerId(3),))
    assert dict(picture.replicas) == {1: 1}
