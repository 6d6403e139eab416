"""DescribeConfigs: what an answer counts as until its client has read it, and that it waits for ZooKeeper."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.broker.kafka.answers import Answers, AnswerSize
from strandline.broker.kafka.call import Api, Call
from strandline.broker.kafka.handlers.configs import ConfigsApi
from strandline.broker.kafka.handlers.controller import ControllerRequests
from strandline.broker.kafka.router import Asked
from strandline.broker.kafka.wire.admin.configs import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    SET,
    TOPIC,
    ConfigChange,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    Resource,
    ResourceChanges,
    WantedConfigs,
)
from strandline.broker.kafka.wire.apis import DESCRIBE_CONFIGS
from strandline.broker.kafka.wire.header import RequestHeader
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.broker.metadata.topic_outlines import TopicOutlines
from strandline.ids import TopicId
from strandline.ports import Caller, ConnectionLost, Listener, Znode
from strandline.vocabulary.metadata import Endpoint
from tests.broker.kafka.support.controller import MemoryController
from tests.broker.support.access import OPEN
from tests.broker.support.replicas import CLOCK
from tests.broker.support.seat import seated
from tests.hand_clock import HandClock
from tests.znode_tree import ZnodeTree

T = TypeVar("T")
INVALID = 42
HEADER = RequestHeader(DESCRIBE_CONFIGS.key, DESCRIBE_CONFIGS.last, 1, "t")
CALL = Call(HEADER, Caller("kafka:192.0.2.1:1", "192.0.2.1", Listener.INTERNAL))


class OneTopic(TopicOutlines):
    """ZooKeeper does not answer the first readings."""

    def __init__(self, stalls: int) -> None:
        tree = ZnodeTree()
        node = znodes.TopicNode(TopicId("a" * 32), 1, {"retention.ms": "1"})
        tree.nodes |= {
            znodes.topic("t"): Znode(znodes.dump_topic(node), 0, 0, 0, 0),
            znodes.replicas("t", 0): Znode(znodes.dump_replicas((1,)), 0, 0, 0, 0),
        }
        session, readings = tree.open_session(), iter(range(stalls))

        async def soon(answer: Awaitable[T]) -> T:
            found = await answer
            if next(readings, None) is not None:
                raise ConnectionLost("ZooKeeper did not answer within 2.0 s")
            return found

        super().__init__(lambda: session, soon, HandClock())


async def test_a_zookeeper_that_stalls_is_no_error_of_a_client_that_has_time(tmp_path: Path) -> None:
    """Programs that describe a topic's configs at their start end at an error that passes."""
    async with seated(tmp_path) as seat:
        settings = seat.manager.settings
        controller = partial(ControllerRequests, MemoryController(lambda _: ()).link)
        own = Endpoint(settings.broker_id, "b", 1)
        api = ConfigsApi(controller, OneTopic(stalls=3), settings, own, OPEN, CLOCK)
        wanted = WantedConfigs(Resource(TOPIC, "t"), ("retention.ms",))
        answer = await api.describe(DescribeConfigsRequest((wanted,)), CALL, AnswerSize(CLOCK))
    (described,) = answer.resources
    assert described.error == 0, described.message
    assert [each.value for each in described.configs] == ["1"]


async def test_configs_count_as_no_less_than_they_have_bytes(tmp_path: Path) -> None:
    """CORRECTNESS X6: one request names up to 1,000 topics, each with all of its configs."""
    async with seated(tmp_path) as seat:
        settings = seat.manager.settings
        outlines = ClusterView(seat.manager, settings, CLOCK).outlines
        controller = partial(ControllerRequests, MemoryController(lambda _: ()).link)
        api = ConfigsApi(controller, outlines, settings, Endpoint(settings.broker_id, "b", 1), OPEN, CLOCK)
        own = WantedConfigs(Resource(BROKER, str(settings.broker_id)), None)
        other = WantedConfigs(Resource(BROKER, "77"), None)
        size = AnswerSize(CLOCK)
        request = DescribeConfigsRequest((own, other, own), synonyms=True, documentation=True)
        answer = await api.describe(request, CALL, size)
    assert [bool(each.configs) for each in answer.resources] == [True, False, True]
    served = Api(DESCRIBE_CONFIGS, Answers(CLOCK).bounded(api.describe))
    written = sum(map(len, Asked(served, HEADER).answer(answer)))
    assert written <= size.bytes < 4 * written


@pytest.mark.parametrize(
    ("kind", "name", "error", "configs"),
    [
        (BROKER_LOGGER, "own", 0, {"root": "WARN"}),
        (BROKER_LOGGER, "77", INVALID, {}),
        (BROKER_LOGGER, "", INVALID, {}),
        (CLIENT_METRICS, "m", 0, {}),
        (CLIENT_METRICS, "", INVALID, {}),
        (GROUP, "", INVALID, {}),
        (64, "x", INVALID, {}),
    ],
)
async def test_loggers_and_metrics_have_the_configs_that_there_are(
    tmp_path: Path, kind: int, name: str, error: int, configs: dict[str, str]
) -> None:
    """With the errors of a broker of Kafka 4.4. None can be altered, and the refusal says why."""
    async with seated(tmp_path) as seat:
        settings = seat.manager.settings.model_copy(update={"log_level": "warning"})
        resource = Resource(kind, str(settings.broker_id) if name == "own" else name)
        controller = partial(ControllerRequests, MemoryController(lambda _: ()).link)
        own = Endpoint(settings.broker_id, "b", 1)
        api = ConfigsApi(controller, OneTopic(stalls=0), settings, own, OPEN, CLOCK)
        asked = DescribeConfigsRequest((WantedConfigs(resource, None),))
        (described,) = (await api.describe(asked, CALL, AnswerSize(CLOCK))).resources
        change = ResourceChanges(resource, (ConfigChange("root", SET, "INFO"),))
        altered = await api.alter_incrementally(IncrementalAlterConfigsRequest((change,), False), CALL)
    assert (described.error, {each.name: each.value for each in described.configs}) == (error, configs)
    assert all(each.read_only for each in described.configs)
    (outcome,) = altered.outcomes
    assert outcome.error == (40 if kind == BROKER_LOGGER else INVALID) and outcome.message
