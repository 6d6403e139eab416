"""The way from a key to its coordinator, for brokers that ask for others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from strandline.broker.coordinators.finding import CoordinatorFinder
from strandline.broker.coordinators.placement import partition_of
from strandline.broker.metadata.internal_topics import InternalTopic, transactions_topic
from strandline.broker.transactions.partition import TRANSACTIONS
from strandline.errors import CoordinatorNotAvailable, NotCoordinator, StrandlineError
from strandline.ids import NO_BROKER, TRANSACTIONS_TOPIC, TopicId, TopicPartition
from strandline.vocabulary.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from tests.broker.support.replicas import settings
from tests.broker.support.seat import seated

PARTITIONS = 7


@dataclass
class Topics:
    """`__transaction_state`, whose partitions one broker leads; fulfils what is asked of `InternalTopics` and
    `ClusterView`."""

    leader: int = 3
    error: StrandlineError | None = None
    looks: int = 0

    @property
    def topic(self) -> TopicMetadata:
        partitions = tuple(
            PartitionMetadata(number, self.leader, 7, (self.leader,), (self.leader,))
            for number in range(PARTITIONS)
        )
        return TopicMetadata(TRANSACTIONS_TOPIC, TopicId("1" * 32), partitions)

    async def find(self, topic: InternalTopic) -> TopicMetadata:
        assert topic == transactions_topic(settings())
        self.looks += 1
        if self.error is not None:
            raise self.error
        return self.topic

    async def describe(self, names: Collection[str]) -> tuple[ClusterMetadata, list[str]]:
        return ClusterMetadata("c", (), None, (self.topic,)), []


@asynccontextmanager
async def finding(tmp_path: Path, topics: Topics) -> AsyncIterator[CoordinatorFinder[Any]]:
    """By broker 2, which leads none of the partitions."""
    async with seated(tmp_path) as seat:
        leads_none = SimpleNamespace(topic_id=None)
        yield CoordinatorFinder(
            TRANSACTIONS,
            seat.manager,
            cast(Any, topics),
            cast(Any, leads_none),
            cast(Any, topics),
            transactions_topic(settings()),
        )


async def test_a_coordinator_that_was_found_is_not_looked_for_again_until_it_is_lost(tmp_path: Path) -> None:
    """A leader asks for each transaction."""
    topics = Topics(leader=3)
    async with finding(tmp_path, topics) as finder:
        assert [await finder.leader("payments") for _ in range(5)] == [3] * 5
        assert topics.looks == 1
        topics.leader = 1
        finder.forget("payments")
        assert await finder.leader("payments") == 1
        assert topics.looks == 2


async def test_a_partition_without_a_leader_has_no_coordinator_now(tmp_path: Path) -> None:
    async with finding(tmp_path, Topics(leader=NO_BROKER)) as finder:
        with pytest.raises(CoordinatorNotAvailable):
            await finder.leader("payments")


async def test_a_keys_place_is_that_of_kafka(tmp_path: Path) -> None:
    topics = Topics()
    async with finding(tmp_path, topics) as finder:
        place = TopicPartition(TRANSACTIONS_TOPIC, partition_of("payments", PARTITIONS))
        assert await finder.place("payments") == place
        topics.error = CoordinatorNotAvailable("no controller")
        assert await finder.place("payments") == place  # the number of partitions never changes


async def test_while_the_topic_cannot_be_created_nothing_has_a_place(tmp_path: Path) -> None:
    async with finding(tmp_path, Topics(error=CoordinatorNotAvailable("no controller"))) as finder:
        with pytest.raises(CoordinatorNotAvailable):
            await finder.place("payments")
        with pytest.raises(CoordinatorNotAvailable):
            await finder.leader("payments")


async def test_a_broker_that_does_not_coordinate_names_the_one_that_does(tmp_path: Path) -> None:
    async with finding(tmp_path, Topics(leader=3)) as finder:
        with pytest.raises(NotCoordinator) as raised:
            await finder.here("payments")
    assert raised.value.leader is not None and raised.value.leader.broker_id == 3
    assert "transactional id 'payments' of __transaction_state" in raised.value.message
