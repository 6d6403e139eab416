"""The Kafka client of the simulation: its messages are those that brokers read and write, and it works."""

from __future__ import annotations

from typing import Any

import pytest
from strandline_lab.simulation.kafka import messages
from strandline_lab.simulation.kafka.messages import Api, answer_in, frame
from strandline_lab.simulation.kafka.producer import is_passing
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.run import run_quietly
from strandline_lab.simulation.workloads.kafka import Kafka

from strandline.broker.kafka.call import Api as BrokerApi
from strandline.broker.kafka.router import Arrived, Asked, Router
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.fetch import FetchAnswer, FetchedPartition, FetchRequest, PartitionPosition
from strandline.broker.kafka.wire.header import RequestHeader
from strandline.broker.kafka.wire.metadata import (
    BrokerAddress,
    MetadataAnswer,
    MetadataRequest,
    PartitionFacts,
    TopicFacts,
    TopicWanted,
)
from strandline.broker.kafka.wire.offsets import (
    EpochEndsAnswer,
    EpochEndsRequest,
    PartitionEpoch,
    PartitionEpochEnd,
)
from strandline.broker.kafka.wire.produce import (
    PartitionRecords,
    ProduceAnswer,
    ProducedPartition,
    ProduceRequest,
)
from strandline.broker.kafka.wire.producer_id import InitProducerIdAnswer, InitProducerIdRequest
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.errors import ErrorCode

CASES: list[tuple[Api[Any, Any], Any, Any]] = [
    (
        messages.PRODUCE,
        ProduceRequest(-1, 1_000, (OfTopic("t", (PartitionRecords(2, memoryview(b"batch")),)),)),
        ProduceAnswer(
            (
                OfTopic(
                    "t",
                    (ProducedPartition(2, 0, 7, 1), ProducedPartition(3, 6)),
                ),
            )
        ),
    ),
    (
        messages.FETCH,
        FetchRequest(500, 1, 9_000, 0, (OfTopic("t", (PartitionPosition(2, 4, 17, 600),)),)),
        FetchAnswer(
            (OfTopic("t", (FetchedPartition(2, 0, 20, 20, 1, b"batches"), FetchedPartition(3, 74))),)
        ),
    ),
    (
        messages.METADATA,
        MetadataRequest((TopicWanted("t"),), False),
        MetadataAnswer(
            (BrokerAddress(1, "10.0.0.1", 9093), BrokerAddress(2, "10.0.0.2", 9093, "rack")),
            "cluster",
            1,
            (
                TopicFacts("t", partitions=(PartitionFacts(0, 0, 1, 5, (1, 2), (2,), (1,)),)),
                TopicFacts("u", 3),
            ),
        ),
    ),
    (messages.INIT_PRODUCER_ID, InitProducerIdRequest(None), InitProducerIdAnswer(1 << 40, 0)),
    (
        messages.OFFSET_FOR_LEADER_EPOCH,
        EpochEndsRequest((OfTopic("t", (PartitionEpoch(2, 5, 4),)),)),
        EpochEndsAnswer((OfTopic("t", (PartitionEpochEnd(2, 0, 4, 18), PartitionEpochEnd(3, 75))),)),
    ),
]


async def _unanswered(*_: object) -> None:
    raise AssertionError("nothing is handled here")


SERVED = {
    wire.key: wire
    for wire in (
        apis.PRODUCE, apis.FETCH, apis.METADATA, apis.INIT_PRODUCER_ID, apis.OFFSET_FOR_LEADER_EPOCH,
    )
}  # fmt: skip
ROUTER = Router(BrokerApi(wire, _unanswered) for wire in SERVED.values())


@pytest.mark.parametrize("flexible", [False, True])
@pytest.mark.parametrize(("api", "request_", "answer"), CASES, ids=lambda each: type(each).__name__)
def test_brokers_read_its_requests_and_it_reads_their_answers(
    api: Api[Any, Any], request_: Any, answer: Any, flexible: bool
) -> None:
    whole = frame(api, request_, flexible=flexible, correlation=9, client="me")
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    arrived = ROUTER.read(whole[4:])
    assert isinstance(arrived, Arrived)
    assert arrived.value == request_
    wire, version = SERVED[api.key], api.version(flexible=flexible)
    assert arrived.asked.header == RequestHeader(api.key, version, 9, "me")
    assert (version >= wire.flexible_since) is flexible
    answered = b"".join(Asked(BrokerApi(wire, _unanswered), arrived.asked.header).answer(answer))
    assert answer_in(api, answered[4:], flexible=flexible) == answer


@pytest.mark.parametrize("seed", [1, 2])
def test_it_writes_and_reads_under_faults(seed: int) -> None:
    """CORRECTNESS K1, K2: in both kinds of versions."""
    plan = Plan.drawn(seed, 4.0)
    kafka = Kafka(name="kafka", partitions=2, writers=2, pause_s=0.1, synced=True, flexible=bool(seed % 2))
    outcome = run_quietly(plan.model_copy(update={"workloads": (kafka,)}))
    assert outcome.problems == ()
    assert outcome.counts["records"] > 100


def test_only_a_batch_behind_a_failed_one_may_have_a_gap_before_it() -> None:
    """CORRECTNESS K2: no broker forgets a producer within a run, also if it has refused its first batch."""
    gap = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (is_passing(gap, after_error=True), is_passing(gap, after_error=False)) == (True, False)
    assert not is_passing(ErrorCode.UNKNOWN_PRODUCER_ID, after_error=True)
