"""Messages of an admin client while it looks for the controller, and when it gives up."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from strandline import Admin
from strandline.client.waits import WAITS_LOGGER
from strandline.errors import (
    BrokerNotAvailable,
    LeaderNotAvailable,
    NotController,
    UnknownTopicOrPartition,
)
from strandline.ids import NO_BROKER
from strandline.vocabulary.log import MetadataAnswer, MetadataQuery
from tests.strandline.client.network import FastClock, Network, answering, memory_host, metadata

CUT_OFF = "broker 1 cannot ask ZooKeeper for it: ZooKeeper cannot be reached right now"


def admin(answer: MetadataAnswer) -> tuple[Admin, Network]:
    network = Network()
    network.brokers["broker1:9092"] = answering(answer)
    return Admin("broker1:9092", host=memory_host(network, FastClock())), network


def cut_off() -> MetadataAnswer:
    answer = metadata()
    return replace(answer, cluster=replace(answer.cluster, controller_unknown=CUT_OFF))


@pytest.mark.parametrize(
    ("answer", "why"),
    [(metadata(), "no broker knows of one; is a controller running?"), (cut_off(), CUT_OFF)],
    ids=["none", "cut-off"],
)
async def test_a_wait_is_reported_once_and_long_before_the_end(
    answer: MetadataAnswer, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """ZooKeeper that is down is no reason to look for a controller's process."""
    client, _ = admin(answer)
    with caplog.at_level(logging.WARNING, WAITS_LOGGER):
        async with client:
            with pytest.raises(NotController, match="no active controller within 10") as caught:
                await client.describe_cluster()
    assert caught.value.message.endswith(why)
    (record,) = [each for each in caplog.records if each.name == WAITS_LOGGER]
    assert record.getMessage() == f"waiting up to 10 s for an active controller: {why}"


async def test_a_topic_that_a_broker_does_not_find_is_not_waited_for() -> None:
    """The broker has looked after a sync: it is certain."""
    missing = UnknownTopicOrPartition("topic 'x' does not exist")
    client, network = admin(replace(metadata(), errors={"x": missing}))
    async with client:
        with pytest.raises(UnknownTopicOrPartition, match="'x'"):
            await client.describe_topics(["x"])
    assert len(network.asked) == 1


async def _described(client: Admin) -> list[str]:
    return [topic.name for topic in await client.describe_topics(["t"])]


async def _read(client: Admin) -> list[str]:
    return [topic.name for topic in (await client.metadata(["t"])).topics]


@pytest.mark.parametrize("stalls_s", [5.0, 60.0])
@pytest.mark.parametrize("ask", [_described, _read, Admin.list_topics])
async def test_topics_are_asked_for_again_while_brokers_cannot_tell(
    ask: Callable[[Admin], Awaitable[list[str]]], stalls_s: float
) -> None:
    """ZooKeeper stalls, and no broker knows the topic yet: these calls failed after a second."""
    network, clock = Network(), FastClock()

    async def stalled(_query: MetadataQuery) -> MetadataAnswer:
        if clock.now < stalls_s:
            raise LeaderNotAvailable("topic 't' cannot be read from ZooKeeper now")
        return metadata((NO_BROKER, 5))

    network.brokers["broker1:9092"] = stalled
    host = memory_host(network, clock)
    async with Admin("nowhere:1,broker1:9092", host=host, request_timeout_ms=10_000) as client:
        if stalls_s < 10:
            assert await ask(client) == ["t"]
        else:
            with pytest.raises(BrokerNotAvailable, match="cannot be read from ZooKeeper now"):
                await ask(client)
            assert 10 <= clock.now < 11
