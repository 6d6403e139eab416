"""Waiting for the leaders of thousands of new partitions costs brokers about one reading of each."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from strandline.client.admin.new_topics import TOPICS_ASKED_MAX, until_led
from strandline.client.retry import Tries
from strandline.config.client import ClientSettings
from strandline.errors import BrokerNotAvailable, RequestTimedOut
from strandline.ids import NO_BROKER, NO_EPOCH, TopicId, TopicPartition
from strandline.vocabulary.log import LeaderWait, MetadataAnswer, MetadataQuery
from strandline.vocabulary.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from tests.strandline.client.network import FastClock

OURS = TopicId("a" * 32)
NAMES = [f"t{number:03}" for number in range(2 * TOPICS_ASKED_MAX + 50)]


class Broker:
    """Knows all topics, with two partitions each; those of `leaderless` have no leader."""

    def __init__(self, *leaderless: TopicPartition) -> None:
        self.leaderless = set(leaderless)
        self.queries: list[MetadataQuery] = []
        self.failures = 0

    async def ask(self, query: MetadataQuery) -> MetadataAnswer:
        self.queries.append(query)
        if self.failures:
            self.failures -= 1
            raise BrokerNotAvailable("ZooKeeper is late")
        assert query.topics is not None
        topics = tuple(
            TopicMetadata(name, OURS, (self._partition(name, 0), self._partition(name, 1)))
            for name in query.topics
        )
        # Those that the broker was asked to wait for are led from the next answer on.
        self.leaderless -= {wait.name for wait in query.waits}
        return MetadataAnswer(ClusterMetadata("c", (), None, topics), {})

    def _partition(self, topic: str, number: int) -> PartitionMetadata:
        led = TopicPartition(topic, number) not in self.leaderless
        return PartitionMetadata(number, 1 if led else NO_BROKER, 5 if led else NO_EPOCH, (1,), (1,))


async def wait_for(broker: Broker, clock: FastClock) -> None:
    async def check_exist(unseen: Mapping[str, TopicId]) -> None:
        raise AssertionError(f"all are seen: {unseen}")

    tries = Tries(ClientSettings(), clock, limit_s=10)
    await until_led(dict.fromkeys(NAMES, OURS), broker.ask, check_exist, tries, clock)


async def test_a_thousand_topics_are_asked_about_in_lots() -> None:
    """Each question about all of them had a broker read each of their partitions, again and again."""
    broker = Broker()
    await wait_for(broker, FastClock())
    assert [query.topics for query in broker.queries] == [NAMES[:100], NAMES[100:200], NAMES[200:]]
    assert not any(query.waits for query in broker.queries)


async def test_only_what_has_no_leader_is_asked_about_again_before_the_next_lot() -> None:
    """The broker holds its answer for those that it hosts, and reads of the others only what is named."""
    late = [TopicPartition("t003", 1), TopicPartition("t007", 0), TopicPartition("t150", 1)]
    broker = Broker(*late)
    broker.failures = 1
    await wait_for(broker, FastClock())
    asked = [(len(query.topics or ()), query.waits, query.max_wait_ms > 0) for query in broker.queries]
    first = [LeaderWait(name, NO_EPOCH) for name in late[:2]]
    last = [LeaderWait(late[2], NO_EPOCH)]
    assert asked[:3] == [(100, [], False), (100, [], False), (100, first, True)]
    assert broker.queries[2].topics == ["t003", "t007", *NAMES[100:198]]
    assert [waits for _, waits, _ in asked].count(last) >= 1 and not broker.leaderless


async def test_the_error_names_topics_without_leaders_when_the_time_is_up() -> None:
    broker = Broker()
    broker.failures = 1_000_000
    with pytest.raises(RequestTimedOut, match=r"some partitions of t000, .* have no leader yet"):
        await wait_for(broker, FastClock())
