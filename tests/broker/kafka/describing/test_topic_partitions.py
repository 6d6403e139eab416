"""DescribeTopicPartitions gives some partitions at a time, and every one once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.broker.kafka.handlers.describing.topic_partitions import (
    PARTITIONS_MAX,
    Span,
    TopicPartitionsApi,
    page,
)
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.admin.topic_partitions import Cursor, DescribeTopicPartitionsRequest
from strandline.broker.kafka.wire.metadata import MetadataAnswer, MetadataRequest, PartitionFacts, TopicFacts
from strandline.errors import LeaderNotAvailable
from strandline.ports import Caller
from tests.broker.kafka.support.asking import called
from tests.broker.support.access import OPEN

SIZES = {"alpha": 3, "tides": 5}
CALL = called(apis.DESCRIBE_TOPIC_PARTITIONS, 0)
UNKNOWN, INVALID, NOT_AVAILABLE = 3, 42, 5
Found = tuple[list[tuple[int, str | None, list[int]]], tuple[str, int] | None]


class Cluster:
    """Two topics; or a broker that does not know them."""

    def __init__(self) -> None:
        self.sizes: Mapping[str, int] | None = SIZES

    async def metadata(self, request: MetadataRequest, call: object) -> MetadataAnswer:
        assert request.topics is not None and not request.auto_create and request.topic_operations
        return MetadataAnswer((), "c", 1, tuple(self._topic(each.name or "") for each in request.topics))

    def _topic(self, name: str) -> TopicFacts:
        if self.sizes is None:
            return TopicFacts(name, NOT_AVAILABLE)
        if name not in self.sizes:
            return TopicFacts(name, UNKNOWN)
        partitions = (PartitionFacts(number, 0, 1, 5, (1,), (1,)) for number in range(self.sizes[name]))
        return TopicFacts(name, 0, "a" * 32, False, tuple(partitions))

    async def counts(self, names: Sequence[str], caller: Caller) -> Mapping[str, int]:
        if self.sizes is None:
            raise LeaderNotAvailable("no session")
        return {name: size for name, size in self.sizes.items() if name in names or not names}

    async def described(self, *topics: str, limit: int = 2_000, cursor: Cursor | None = None) -> Found:
        api = TopicPartitionsApi(self.metadata, self.counts, OPEN)
        answer = await api.describe(DescribeTopicPartitionsRequest(topics, limit, cursor), CALL)
        return [
            (each.error, each.name, [partition.partition for partition in each.partitions])
            for each in answer.topics
        ], None if answer.next is None else (answer.next.topic, answer.next.partition)


@pytest.mark.parametrize(
    ("topics", "limit", "cursor", "found", "following"),
    [
        (["tides"], 1, None, [(0, "tides", [0])], ("tides", 1)),
        (["tides", "alpha"], 2, None, [(0, "alpha", [0, 1])], ("alpha", 2)),
        ([], 4, None, [(0, "alpha", [0, 1, 2]), (0, "tides", [0])], ("tides", 1)),
        ([], 4, ("b", 3), [(0, "tides", [0, 1, 2, 3])], ("tides", 4)),
        (["tides", "alpha"], 9, ("b", 0), [(INVALID, "alpha", []), (INVALID, "tides", [])], None),
        (["tides"], 2, ("tides", 3), [(0, "tides", [3, 4])], None),
        (["nope", "tides"], 3, None, [(UNKNOWN, "nope", []), (0, "tides", [0, 1, 2])], ("tides", 3)),
        (["tides"], 0, None, [(0, "tides", [0])], ("tides", 1)),
        (["tides"], -1, None, [(0, "tides", [0])], ("tides", 1)),
        (["tides"], 2, ("tides", 9), [(0, "tides", [])], None),
        (["tides"], 2, ("tides", -1), [(INVALID, "tides", [])], None),
        ([], 2, ("zzz", 0), [], None),
        (["alpha", "alpha"], 9, None, [(0, "alpha", [0, 1, 2])], None),
        (["alpha", "nope", "tides"], 3, None, [(0, "alpha", [0, 1, 2])], ("nope", 0)),
    ],
)
async def test_answers_are_those_of_a_broker_of_kafka(
    topics: Sequence[str],
    limit: int,
    cursor: tuple[str, int] | None,
    found: object,
    following: tuple[str, int] | None,
) -> None:
    """Kafka 4.4 answered each of these so, from the same two topics."""
    begin = None if cursor is None else Cursor(*cursor)
    assert await Cluster().described(*topics, limit=limit, cursor=begin) == (found, following)


async def test_a_broker_that_does_not_know_the_topics_says_so() -> None:
    """An empty list would say that there are none."""
    cluster = Cluster()
    cluster.sizes = None
    assert await cluster.described("tides") == ([(NOT_AVAILABLE, "tides", [])], None)
    with pytest.raises(LeaderNotAvailable):
        await cluster.described()


async def test_the_client_does_not_choose_the_bound() -> None:
    cluster = Cluster()
    cluster.sizes = {"wide": PARTITIONS_MAX + 1}
    (((_, _, partitions),), following) = await cluster.described("wide", limit=2**31 - 1)
    assert (len(partitions), following) == (PARTITIONS_MAX, ("wide", PARTITIONS_MAX))


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(0, 7), max_size=6),
    st.integers(1, 5),
)
def test_from_answer_to_answer_each_partition_comes_once(sizes: dict[str, int], limit: int) -> None:
    spans, cursor, topics = list[Span](), None, sorted(sizes.items())
    while True:
        more, cursor = page([each for each in topics if each[0] >= (cursor or [""])[0]], cursor, limit)
        assert sum(span.end - span.first for span in more) <= limit
        spans += more
        if cursor is None:
            break
    found = [(span.topic, number) for span in spans for number in range(span.first, span.end)]
    assert found == [(topic, number) for topic, size in topics for number in range(size)]
    assert {span.topic for span in spans} == set(sizes)
