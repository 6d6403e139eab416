"""DescribeConfigs: what an answer counts as until its client has read it, and that it waits for ZooKeeper."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from pathlib import Path
from typing import TypeVar

from strandline.adapters.zookeeper import znodes
from strandline.broker.kafka.answers import Answers, AnswerSize
from strandline.broker.kafka.call import Api, Call
from strandline.broker.kafka.handlers.configs import ConfigsApi
from strandline.broker.kafka.handlers.controller import ControllerRequests
from strandline.broker.kafka.router import Asked
from strandline.broker.kafka.wire.admin.configs import (
    BROKER,
    TOPIC,
    DescribeConfigsRequest,
    Resource,
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
