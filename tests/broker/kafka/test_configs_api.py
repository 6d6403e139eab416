"""What an answer to DescribeConfigs counts as until its client has read it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from strandline.broker.kafka.answers import Answers, AnswerSize
from strandline.broker.kafka.call import Api, Call
from strandline.broker.kafka.handlers.configs import ConfigsApi
from strandline.broker.kafka.handlers.controller import ControllerRequests
from strandline.broker.kafka.router import Asked
from strandline.broker.kafka.wire.admin.configs import (
    BROKER,
    DescribeConfigsRequest,
    Resource,
    WantedConfigs,
)
from strandline.broker.kafka.wire.apis import DESCRIBE_CONFIGS
from strandline.broker.kafka.wire.header import RequestHeader
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.ports import Caller, Listener
from strandline.vocabulary.metadata import Endpoint
from tests.broker.kafka.support.controller import MemoryController
from tests.broker.support.access import OPEN
from tests.broker.support.replicas import CLOCK
from tests.broker.support.seat import seated

HEADER = RequestHeader(DESCRIBE_CONFIGS.key, DESCRIBE_CONFIGS.last, 1, "t")
CALL = Call(HEADER, Caller("kafka:192.0.2.1:1", "192.0.2.1", Listener.INTERNAL))


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
