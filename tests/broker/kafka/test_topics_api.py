"""Requests about many topics."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from strandline.broker.kafka.handlers.controller import ControllerRequests
from strandline.broker.kafka.handlers.new_topics import Leaders, TopicDefaults
from strandline.broker.kafka.handlers.topics import TopicsApi
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.admin.configs import GivenConfig
from strandline.broker.kafka.wire.admin.topic_changes import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    TopicGrowth,
    UnwantedTopic,
    WantedTopic,
)
from strandline.broker.metadata.topic_outlines import Soon, TopicOutlines
from strandline.config.limits import TOPICS_PER_REQUEST_MAX
from strandline.errors import ErrorCode, ThrottlingQuotaExceeded
from strandline.ports import Coordination
from strandline.security.quotas.bill import ClientQuotas
from strandline.security.quotas.model import Quota, QuotaEntity, Quotas
from strandline.vocabulary.admin import CreateTopics, DeleteTopics, TopicResult
from strandline.vocabulary.log import MetadataAnswer, MetadataQuery
from tests.broker.kafka.support.asking import called
from tests.broker.kafka.support.controller import MemoryController, no_replica
from tests.broker.support.access import OPEN
from tests.broker.support.replicas import CLOCK, settings
from tests.hand_clock import HandClock

CALL = called(apis.CREATE_TOPICS, 7)
NAMES = tuple(f"t-{number}" for number in range(TOPICS_PER_REQUEST_MAX + 1))


def unread(*_: object) -> Coordination:
    raise AssertionError("ZooKeeper is read")


async def undescribed(query: MetadataQuery) -> MetadataAnswer:
    raise AssertionError("no topic is made")


@pytest.fixture
def api() -> TopicsApi:
    controller = partial(ControllerRequests, MemoryController(unread).link)
    outlines = TopicOutlines(unread, Soon, CLOCK)  # type: ignore[arg-type]  # nothing is read
    return TopicsApi(
        controller,
        outlines,
        Leaders(undescribed, no_replica, CLOCK),
        TopicDefaults(settings(), dict),
        OPEN,
        CLOCK,
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


async def test_who_is_over_the_quota_of_the_controller_waits_for_the_longest_wait() -> None:
    """KIP-599: a client that tries again by itself would otherwise do so at once."""

    def over(asked: CreateTopics | DeleteTopics) -> list[TopicResult]:
        waits_ms = iter((3_000, 1_000))
        names = [each if isinstance(each, str) else each.name for each in asked.topics]
        return [
            TopicResult(name, ThrottlingQuotaExceeded("x", retry_after_ms=next(waits_ms))) for name in names
        ]

    outlines = TopicOutlines(unread, Soon, CLOCK)  # type: ignore[arg-type]  # nothing is read
    defaults, leaders = TopicDefaults(settings(), dict), Leaders(undescribed, no_replica, CLOCK)
    requests = partial(ControllerRequests, MemoryController(over).link)
    topics = TopicsApi(requests, outlines, leaders, defaults, OPEN, CLOCK)
    clock = HandClock()
    quotas = ClientQuotas(lambda _: False, clock.monotonic, delay_ms_max=60_000)
    quotas.take(Quotas({QuotaEntity("ANONYMOUS"): {Quota.CONTROLLER_MUTATION_RATE: 1}}))
    for ask in (
        lambda call: topics.create(
            CreateTopicsRequest((WantedTopic("a", 1, 1), WantedTopic("b", 1, 1)), 0), call
        ),
        lambda call: topics.delete(DeleteTopicsRequest((UnwantedTopic("a"), UnwantedTopic("b")), 0), call),
    ):
        bill = quotas.of(CALL.caller)
        answered = await ask(replace(CALL, bill=bill))
        assert [each.error for each in answered.topics] == [ErrorCode.THROTTLING_QUOTA_EXCEEDED] * 2
        assert bill is not None and bill.wait_s == 3
        clock.now_s += 3
