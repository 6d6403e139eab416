"""What has configs, and what its configs are: the answers do not name what is not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pytest

from strandline.broker.kafka.answers import AnswerSize
from strandline.broker.kafka.handlers.controller import ControllerRequests
from strandline.broker.kafka.handlers.describing.resources import ResourcesApi, Topics
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.admin.resources import ListedResource, ListResourcesRequest
from strandline.errors import ErrorCode, LeaderNotAvailable
from strandline.ids import BrokerId
from strandline.ports import Caller
from strandline.vocabulary.configs.groups import GroupConfigs
from tests.broker.kafka.support.asking import called
from tests.broker.kafka.support.controller import MemoryController
from tests.broker.support.access import OPEN
from tests.broker.support.replicas import CLOCK

CALL = called(apis.LIST_CONFIG_RESOURCES, 1)
TOPICS = [("alpha", 2), ("tides", 2)]
BROKERS, LOGGERS = [("1", 4), ("2", 4)], [("1", 8), ("2", 8)]
GROUPS = [("billing", 32), ("readers", 32)]
UNSUPPORTED = 35


async def topics(names: Sequence[str], caller: Caller) -> Mapping[str, int]:
    assert not names
    return {"tides": 5, "alpha": 3}


async def away(names: Sequence[str], caller: Caller) -> Mapping[str, int]:
    raise LeaderNotAvailable("no session")


def resources(found: Topics, live: Sequence[int]) -> ResourcesApi:
    controller = MemoryController(lambda _: [GroupConfigs(name) for name, _ in GROUPS])
    requests = partial(ControllerRequests, controller.link)
    return ResourcesApi(found, lambda: map(BrokerId, live), requests, OPEN, CLOCK)


@pytest.mark.parametrize(
    ("kinds", "error", "found"),
    [
        ((), 0, [*TOPICS, *BROKERS, *LOGGERS, *GROUPS]),
        ((2,), 0, TOPICS),
        ((8,), 0, LOGGERS),
        ((2, 32), 0, [*TOPICS, *GROUPS]),
        ((16,), 0, []),
        ((32,), 0, GROUPS),
        ((0,), UNSUPPORTED, []),
        ((2, 99), UNSUPPORTED, []),
    ],
)
async def test_resources_are_listed_by_type(
    kinds: tuple[int, ...], error: int, found: list[tuple[str, int]]
) -> None:
    """With the errors of a broker of Kafka 4.4."""
    api = resources(topics, [2, 1])
    answer = await api.list(ListResourcesRequest(kinds), CALL, AnswerSize(CLOCK))
    assert (answer.error, answer.resources) == (error, tuple(ListedResource(*each) for each in found))


async def test_a_broker_that_does_not_know_the_topics_says_so() -> None:
    api = resources(away, [1])
    answer = await api.list(ListResourcesRequest((2,)), CALL, AnswerSize(CLOCK))
    assert (answer.error, answer.resources) == (ErrorCode.LEADER_NOT_AVAILABLE, ())
