"""Answers that may be large: others have their turns while one is written."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from strandline.broker.kafka.call import Api
from strandline.broker.kafka.router import Asked
from strandline.broker.kafka.wire.admin.replicas import (
    ActiveProducer,
    DescribeProducersAnswer,
    PartitionProducers,
)
from strandline.broker.kafka.wire.apis import (
    DESCRIBE_GROUPS,
    DESCRIBE_PRODUCERS,
    LIST_GROUPS,
    METADATA,
    OFFSET_FETCH,
    ApiWire,
)
from strandline.broker.kafka.wire.fields import ELEMENTS_PER_STEP
from strandline.broker.kafka.wire.groups.administration import (
    DescribeGroupsAnswer,
    GroupDescription,
    GroupInList,
    ListGroupsAnswer,
    MemberDescription,
)
from strandline.broker.kafka.wire.groups.offsets import OffsetFetchAnswer, OffsetsOfGroup, PartitionOffset
from strandline.broker.kafka.wire.header import RequestHeader
from strandline.broker.kafka.wire.metadata import MetadataAnswer, PartitionFacts, TopicFacts
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.tasks import Slices
from tests.broker.kafka.test_cluster_api import HurriedClock

MANY = 10 * ELEMENTS_PER_STEP
MEMBERS = tuple(MemberDescription(f"m-{n}", None, "c", "h", b"m", b"a") for n in range(MANY))
PARTITIONS = tuple(PartitionFacts(number, 0, 1, 1, (1,), (1,)) for number in range(MANY))
PRODUCERS = PartitionProducers(0, producers=tuple(ActiveProducer(n, 0, 5, 1) for n in range(MANY)))
OFFSETS = tuple(PartitionOffset(number, 5) for number in range(MANY))


async def unanswered(*_: object) -> None:
    raise AssertionError("nothing is handled here")


@pytest.mark.parametrize(
    ("wire", "answer"),
    [
        (LIST_GROUPS, ListGroupsAnswer(0, tuple(GroupInList(f"g-{n}", "c", "Empty") for n in range(MANY)))),
        (DESCRIBE_GROUPS, DescribeGroupsAnswer((GroupDescription("g", members=MEMBERS),))),
        (DESCRIBE_GROUPS, DescribeGroupsAnswer(tuple(GroupDescription(f"g-{n}") for n in range(MANY)))),
        (OFFSET_FETCH, OffsetFetchAnswer((OffsetsOfGroup("g", (OfTopic("t", OFFSETS),)),))),
        (METADATA, MetadataAnswer((), "c", 1, tuple(TopicFacts(f"t-{n}") for n in range(MANY)))),
        (METADATA, MetadataAnswer((), "c", 1, (TopicFacts("t", partitions=PARTITIONS),))),
        (DESCRIBE_PRODUCERS, DescribeProducersAnswer((OfTopic("t", (PRODUCERS,)),))),
    ],
    ids=["list", "members", "groups", "offsets", "topics", "partitions", "producers"],
)
async def test_others_have_their_turns_while_an_answer_is_written(
    wire: ApiWire[Any, Any], answer: Any
) -> None:
    """CORRECTNESS X6: one group may have 100,000 offsets."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    asked = Asked(Api(wire, unanswered), RequestHeader(wire.key, wire.last, 1, ""))
    async with asyncio.TaskGroup() as tasks:
        counting = tasks.create_task(count())
        written = await asked.answer_in_slices(answer, Slices(HurriedClock()))
        counting.cancel()
    assert b"".join(written) == b"".join(asked.answer(answer))
    assert turns >= MANY // ELEMENTS_PER_STEP
