"""What is wrong with a partition, from its metadata and its leader's answer."""

from __future__ import annotations

import pytest

from strandline.client.admin.topics import Condition, conditions, described
from strandline.errors import BrokerNotAvailable
from strandline.ids import NO_BROKER, TopicId, TopicPartition
from strandline.vocabulary.log import DescribedReplicas, ListedOffset, ReplicaProgress
from strandline.vocabulary.metadata import PartitionMetadata, TopicMetadata

NAME = TopicPartition("orders", 0)
UNDER, LEADERLESS = Condition.UNDER_REPLICATED, Condition.LEADERLESS
BELOW, AT = Condition.BELOW_MIN_ISR, Condition.AT_MIN_ISR


def partition(*isr: int, leader: int = 1, replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionMetadata:
    return PartitionMetadata(0, leader, 5, replicas, isr)


@pytest.mark.parametrize(
    ("isr", "alive", "leader", "expected"),
    [
        ((1, 2, 3), {1, 2, 3}, 1, set()),
        ((1, 2), {1, 2, 3}, 1, {UNDER, AT}),
        ((1,), {1, 2, 3}, 1, {UNDER, BELOW}),
        ((1, 2, 3), {1, 2}, 1, {UNDER, AT}),
        ((2,), {1, 3}, NO_BROKER, {UNDER, LEADERLESS, BELOW}),
        ((1, 2, 3), {1, 2, 3}, NO_BROKER, {LEADERLESS}),
    ],
)
def test_the_conditions_of_three_replicas_of_which_two_have_to_be_in_sync(
    isr: tuple[int, ...], alive: set[int], leader: int, expected: set[Condition]
) -> None:
    """A member of the ISR whose broker is gone is not in sync, though the ISR of record has it."""
    assert conditions(partition(*isr, leader=leader), {}, alive, None) == expected


def test_the_bound_is_the_leaders_and_without_it_the_topics() -> None:
    """A caller may see the topic and not its config."""
    config = {"min.insync.replicas": "3"}
    assert conditions(partition(1, 2, 3), config, {1, 2, 3}, None) == {AT}
    assert conditions(partition(1, 2, 3), {}, {1, 2, 3}, DescribedReplicas(NAME, min_insync=3)) == {AT}
    unreadable = {"min.insync.replicas": "many"}
    assert conditions(partition(1, 2), unreadable, {1, 2, 3}, None) == {UNDER, AT}


def test_replicas_that_a_reassignment_adds_are_not_missed() -> None:
    """As in Kafka: a partition that moves without harm is no alarm."""
    moving = partition(1, 2, replicas=(1, 2, 3))
    adds = DescribedReplicas(NAME, min_insync=1, replicas=(ReplicaProgress(3, adding=True),))
    assert conditions(moving, {}, {1, 2, 3}, adds) == set()
    assert conditions(moving, {}, {1, 3}, adds) == {UNDER, AT}


def test_a_partition_is_described_as_far_as_its_leader_answered() -> None:
    """A leader of another epoch may have answered for another topic."""
    progress = (ReplicaProgress(1, in_sync=True, fetching=True, log_end_offset=9, lag=0),)
    answers = {
        NAME: DescribedReplicas(NAME, None, 5, 8, 0, 9, 700, 1, progress),
        TopicPartition("orders", 1): ListedOffset(NAME, None, 7, high_watermark=7, log_end_offset=7),
        TopicPartition("orders", 2): BrokerNotAvailable("gone"),
        TopicPartition("orders", 3): ListedOffset(NAME, None, 4, high_watermark=4, leader_epoch=6),
        TopicPartition("orders", 4): ListedOffset(NAME, None, 4, high_watermark=4, leader_epoch=4),
    }
    partitions = tuple(PartitionMetadata(number, 1, 5, (1,), (1,)) for number in range(5))
    found = described(TopicMetadata("orders", TopicId("t"), partitions), {1}, answers)
    assert [
        (each.high_watermark, each.log_end_offset, each.size_bytes, each.progress)
        for each in found.partitions
    ] == [(8, 9, 700, progress), (7, 7, None, None), *3 * [(None, None, None, None)]]
