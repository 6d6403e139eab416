"""Messages of an admin client while it looks for the controller, and when it gives up."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from strandline import Admin
from strandline.client.waits import WAITS_LOGGER
from strandline.errors import NotController, UnknownTopicOrPartition
from strandline.vocabulary.log import MetadataAnswer
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
