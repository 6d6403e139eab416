"""Requests about many topics."""

from __future__ import annotations

import pytest

from strandline.broker.kafka.call import Call
from strandline.broker.kafka.handlers.controller import ControllerRequests
from strandline.broker.kafka.handlers.new_topics import Leaders, TopicDefaults
from strandline.broker.kafka.handlers.topics import TopicsApi
from strandline.broker.kafka.wire.admin.configs import GivenConfig
from strandline.broker.kafka.wire.admin.topic_changes import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    TopicGrowth,
    UnwantedTopic,
    WantedTopic,
)
from strandline.broker.kafka.wire.header import RequestHeader
from strandline.broker.metadata.topic_outlines import Soon, TopicOutlines
from strandline.config.limits import TOPICS_PER_REQUEST_MAX
from strandline.errors import ErrorCode
from strandline.ports import Caller, Coordination, Listener
from strandline.vocabulary.log import MetadataAnswer, MetadataQuery
from tests.broker.kafka.support.controller import MemoryController
from tests.broker.support.access import OPEN
from tests.broker.support.replicas import CLOCK, settings

CALL = Call(RequestHeader(19, 7, 1, "t"), Caller("kafka:192.0.2.1:1", "192.0.2.1", Listener.INTERNAL))
NAMES = tuple(f"t-{number}" for number in range(TOPICS_PER_REQUEST_MAX + 1))


def unread(*_: object) -> Coordination:
    raise AssertionError("ZooKeeper is read")


async def undescribed(query: MetadataQuery) -> MetadataAnswer:
    raise AssertionError("no topic is made")


@pytest.fixture
def api() -> TopicsApi:
    controller = ControllerRequests(MemoryController(unread).link)
    outlines = TopicOutlines(unread, Soon)  # type: ignore[arg-type]  # nothing is read
    return TopicsApi(
        controller, outlines, Leaders(undescribed, CLOCK), TopicDefaults(settings(), dict), OPEN, CLOCK
    )


async def test_too_many_topics_are_refused_before_any_is_looked_at(api: TopicsApi) -> None:
    """CORRECTNESS X6: the message about an unknown config is a hundred times longer than the config."""
    wrong = (GivenConfig("x", None),)
    created = await api.create(
        CreateTopicsRequest(tuple(WantedTopic(name, 1, 1, (), wrong) for name in NAMES), 0), CALL
    )
    unwanted = (*map(UnwantedTopic, NAMES[1:]), UnwantedTopic(None, "7" * 32))
    deleted = await api.delete(DeleteTopicsRequest(unwanted, 0), CALL)
    growths = tuple(TopicGrowth(name, 5) for name in NAMES)
    grown = await api.grow(CreatePartitionsRequest(growths, 0, validate_only=False), CALL)
    for answer in (created, deleted, grown):
        assert {each.error for each in answer.topics} == {ErrorCode.INVALID_REQUEST}
        assert len(answer.topics) == len(NAMES)
