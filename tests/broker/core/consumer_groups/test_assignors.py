"""The assignors: every partition has one member that subscribes to it, numbers are even, and little moves."""

from __future__ import annotations

from collections.abc import Mapping, Set

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.broker.core.consumer_groups.assignors.range import ranges
from strandline.broker.core.consumer_groups.assignors.subscribers import Subscriber
from strandline.broker.core.consumer_groups.assignors.uniform import uniform
from strandline.broker.core.consumer_groups.target import Assign
from strandline.broker.core.consumer_groups.topics import Topic, partitions_of
from strandline.ids import PartitionKey, TopicId

IDS = [TopicId(letter * 32) for letter in "abc"]
TOPICS = st.dictionaries(st.sampled_from(IDS), st.integers(0, 7), min_size=1).map(
    lambda found: {topic_id: Topic(topic_id, count) for topic_id, count in found.items()}
)
READS = st.dictionaries(
    st.sampled_from(["m1", "m2", "m3", "m4", "m5"]), st.frozensets(st.sampled_from(IDS)), min_size=1
)
EACH = pytest.mark.parametrize("assign", [uniform, ranges])

Targets = Mapping[str, Set[PartitionKey]]


def members(reads: Mapping[str, Set[TopicId]], before: Targets | None = None) -> dict[str, Subscriber]:
    had = before or {}
    return {
        name: Subscriber(name, frozenset(topics), had.get(name, frozenset()))
        for name, topics in reads.items()
    }


@EACH
@given(READS, READS, TOPICS)
def test_each_partition_has_one_member_that_subscribes_to_it(
    assign: Assign,
    reads: Mapping[str, Set[TopicId]],
    earlier: Mapping[str, Set[TopicId]],
    topics: Mapping[TopicId, Topic],
) -> None:
    """With any target before."""
    target = assign(members(reads, assign(members(earlier), topics)), topics)
    given_out = [(key, name) for name, keys in target.items() for key in keys]
    assert all(key.topic_id in reads[name] for key, name in given_out)
    read = {topic_id for each in reads.values() for topic_id in each} & topics.keys()
    assert sorted(key for key, _ in given_out) == sorted(
        key for topic_id in read for key in partitions_of(topics[topic_id])
    )
    assert target.keys() == reads.keys()


@EACH
@given(READS, TOPICS)
def test_what_is_even_stays(
    assign: Assign, reads: Mapping[str, Set[TopicId]], topics: Mapping[TopicId, Topic]
) -> None:
    target = assign(members(reads), topics)
    assert assign(members(reads, target), topics) == target


@given(READS, TOPICS)
def test_no_member_could_take_one_from_another_that_has_two_more(
    reads: Mapping[str, Set[TopicId]], topics: Mapping[TopicId, Topic]
) -> None:
    target = uniform(members(reads), topics)
    for name, keys in target.items():
        for key in keys:
            takers = [other for other, subscribed in reads.items() if key.topic_id in subscribed]
            assert len(keys) <= min(len(target[other]) for other in takers) + 1, name


@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 30))
def test_only_what_has_to_move_moves(before: int, after: int, count: int) -> None:
    """Members with the same subscriptions join or leave: one that stays keeps as many as the even share
    allows."""
    topics = {IDS[0]: Topic(IDS[0], count)}
    first = uniform(members({f"m{n}": {IDS[0]} for n in range(before)}), topics)
    second = uniform(members({f"m{n}": {IDS[0]} for n in range(after + 1)}, first), topics)
    for name in first.keys() & second.keys():
        share = min(len(first[name]), count // (after + 1))
        assert len(first[name] & second[name]) >= share


def test_ranges_of_two_topics_have_the_same_numbers() -> None:
    """So a member can join their records."""
    topics = {topic_id: Topic(topic_id, 5) for topic_id in IDS[:2]}
    target = ranges(members({"m1": set(IDS), "m2": set(IDS)}), topics)
    numbers = {
        name: [sorted(key.partition for key in keys if key.topic_id == topic) for topic in IDS[:2]]
        for name, keys in target.items()
    }
    assert numbers == {"m1": [[0, 1, 2], [0, 1, 2]], "m2": [[3, 4], [3, 4]]}
