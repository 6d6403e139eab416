"""Waiting for the leaders of a new topic ends when the topic is deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strandline import Admin
from strandline.adapters.codecs.admin import CREATE_TOPICS
from strandline.adapters.codecs.log import METADATA
from strandline.errors import (
    BrokerNotAvailable,
    NotController,
    RequestTimedOut,
    StrandlineError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from strandline.ids import NO_BROKER, TopicId
from strandline.ports import Method, Request, Response, Stream
from strandline.vocabulary.admin import CreateTopics, TopicResult
from strandline.vocabulary.log import MetadataAnswer, MetadataQuery
from strandline.vocabulary.metadata import ClusterMetadata, Endpoint, PartitionMetadata, TopicMetadata
from tests.strandline.client.network import FastClock, memory_host

OURS, OTHER = TopicId("a" * 32), TopicId("b" * 32)
BROKER, CONTROLLER = Endpoint(1, "broker1", 9092), Endpoint(9, "controller9", 9093)


class Cluster:
    """A broker that knows `topics` by now, each with its id and leader, and a controller with `exists`."""

    def __init__(self) -> None:
        self.topics: dict[str, tuple[TopicId, int]] = {}
        self.exists: dict[str, TopicId] = {}
        self.refusals = 0
        """Requests that the controller still refuses, since it is not the active one."""
        self.looks = 0
        self.on_look: Callable[[], None] = lambda: None

    async def call(
        self, address: str, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        answer: Any
        if method.path == METADATA.path:
            assert isinstance(request, MetadataQuery)
            answer = self._metadata(request)
        else:
            assert method.path == CREATE_TOPICS.path and address == CONTROLLER.address
            assert isinstance(request, CreateTopics)
            answer = tuple(self._created(new.name, request) for new in request.topics)
        return answer  # type: ignore[no-any-return]  # the method's own

    def _metadata(self, query: MetadataQuery) -> MetadataAnswer:
        found = tuple(
            TopicMetadata(name, topic_id, (PartitionMetadata(0, leader, 1, (1,), (1,)),))
            for name, (topic_id, leader) in self.topics.items()
            if query.topics is not None and name in query.topics
        )
        return MetadataAnswer(ClusterMetadata("c", (BROKER,), CONTROLLER, found), {})

    def _created(self, name: str, request: CreateTopics) -> TopicResult:
        error: StrandlineError | None = None
        if self.refusals:
            self.refusals -= 1
            return TopicResult(name, NotController("no controller is active"), "")
        if request.validate_only:
            self.looks += 1
            self.on_look()
            if name in self.exists:
                error = TopicAlreadyExists(f"topic {name!r} exists already")
            return TopicResult(name, error, self.exists.get(name, ""))
        self.exists[name] = OURS
        return TopicResult(name, None, OURS)

    async def open(
        self, address: str, method: Method[Request, Response], *, timeout_s: float
    ) -> Stream[Request, Response]:
        raise BrokerNotAvailable(f"{address} takes no streams")

    async def close(self) -> None:
        self.topics.clear()


def admin_of(cluster: Cluster, clock: FastClock) -> Admin:
    return Admin("broker1:9092", host=memory_host(cluster, clock))


async def test_a_controller_that_is_not_active_is_asked_again() -> None:
    """It did nothing, so the request may be repeated; another takes over meanwhile."""
    cluster, clock = Cluster(), FastClock()
    cluster.refusals = 2
    async with admin_of(cluster, clock) as admin:
        assert await admin.create_topic("t", wait=False) == OURS
    assert not cluster.refusals


@pytest.mark.parametrize("created_again", [False, True])
async def test_a_topic_deleted_during_the_wait_is_reported_as_deleted(created_again: bool) -> None:
    """Long before the time is up, and also if another topic has its name by then."""
    cluster, clock = Cluster(), FastClock()

    def deleted() -> None:
        if cluster.looks == 2:
            del cluster.exists["t"]
            if created_again:
                cluster.exists["t"] = OTHER
                cluster.topics["t"] = OTHER, 1

    cluster.on_look = deleted
    async with admin_of(cluster, clock) as admin:
        with pytest.raises(UnknownTopicOrPartition, match=r"deleted while .*: t$"):
            await admin.create_topic("t")
    assert clock.monotonic() < 3, "of ten seconds"


@pytest.mark.parametrize("known_id", [OURS, ""], ids=["a controller that says the id", "one that does not"])
async def test_a_broker_that_does_not_know_a_new_topic_yet_is_awaited(known_id: str) -> None:
    """It may still know an older topic of the name."""
    cluster, clock = Cluster(), FastClock()
    cluster.topics["t"] = OTHER, 1

    def heard() -> None:
        cluster.exists["t"] = TopicId(known_id)
        if cluster.looks == 3:
            cluster.topics["t"] = OURS, 1

    cluster.on_look = heard
    async with admin_of(cluster, clock) as admin:
        assert await admin.create_topic("t") == OURS


async def test_a_topic_that_exists_and_gets_no_leader_is_waited_for_until_the_time_is_up() -> None:
    cluster, clock = Cluster(), FastClock()
    cluster.topics["t"] = OURS, NO_BROKER
    async with admin_of(cluster, clock) as admin:
        with pytest.raises(RequestTimedOut, match="some partitions of t have no leader yet"):
            await admin.create_topic("t")
    assert cluster.looks == 0, "a broker knows the topic"
