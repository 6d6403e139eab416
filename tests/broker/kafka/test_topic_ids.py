"""Fetch and Produce by topic ids: no batch and no read is ever of another topic than the client means."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from strandline.broker.kafka.handlers.producing.produce import ProduceApi
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.fetch import FetchAnswer, FetchedPartition, FetchRequest, PartitionPosition
from strandline.broker.kafka.wire.produce import (
    PartitionRecords,
    ProduceAnswer,
    ProducedPartition,
    ProduceRequest,
)
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.broker.replicas.replica import Replica
from strandline.errors import ErrorCode
from strandline.ids import ACKS_ALL, PartitionKey, TopicId
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.kafka.support.asking import NO_HINTS, called, fetch_api, log_handlers, no_rights
from tests.broker.kafka.support.memory_connection import turns
from tests.broker.support.replicas import CLOCK, KEY, NAME, batch, write
from tests.broker.support.seat import Seat, seated
from tests.waiting import eventually

EPOCH = 5
NEXT_ID = TopicId("f" * 32)
FETCH = called(apis.FETCH, 18)
PRODUCE = called(apis.PRODUCE, 13)


def fetch(topic_id: TopicId, *, offset: int = 0, wait_ms: int = 0) -> FetchRequest:
    position = PartitionPosition(NAME.partition, -1, offset, 1 << 20)
    return FetchRequest(wait_ms, 1, 1 << 20, 0, (OfTopic("", (position,), topic_id),))


def produce(
    topic_id: TopicId, *, acks: int = ACKS_ALL, producer: tuple[int, int] | None = None
) -> ProduceRequest:
    one = PartitionRecords(NAME.partition, memoryview(batch("x", producer=producer)))
    return ProduceRequest(acks, 1_000, (OfTopic("", (one,), topic_id),))


class World:
    """A leader of one topic, which can be replaced."""

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        write(seat.replica, 4, "a")
        self.lead(seat.replica)
        log = log_handlers(seat)
        self.fetches = fetch_api(log)
        self.produces = ProduceApi(log, no_rights(seat), NO_HINTS, CLOCK)

    def lead(self, replica: Replica, *others: int) -> None:
        """`others` are in sync, too."""
        self.seat.replica = replica
        leadership = self.seat.lead_alone(EPOCH + 1, *others)
        leadership.core.assign(replica.assignment, 1, CLOCK.monotonic())
        leadership.turn()

    def replace(self, *others: int) -> None:
        """The topic is deleted, and made anew with records under its name."""
        manager = self.seat.manager
        manager.delete(self.seat.replica)
        replica = manager.create(NAME, PartitionKey(NEXT_ID, KEY.partition), TopicConfig())
        write(replica, 4, "other", "another")
        self.lead(replica, *others)

    async def fetched(self, request: FetchRequest) -> FetchedPartition:
        answers: list[FetchAnswer] = []

        async def reply(answer: FetchAnswer) -> None:
            answers.append(answer)

        await self.fetches.handle(request, FETCH, reply)
        ((found,),) = [topic.partitions for topic in answers[0].topics]
        assert [topic.topic_id for topic in answers[0].topics] == [topic.topic_id for topic in request.topics]
        return found

    async def produced(self, request: ProduceRequest) -> ProducedPartition:
        answers: list[ProduceAnswer] = []

        async def reply(answer: ProduceAnswer) -> None:
            answers.append(answer)

        if not self.produces.begin(request, PRODUCE, answers.append):
            await self.produces.handle(request, PRODUCE, reply)
        await eventually(lambda: bool(answers))
        ((found,),) = [topic.partitions for topic in answers[0].topics]
        assert [topic.topic_id for topic in answers[0].topics] == [topic.topic_id for topic in request.topics]
        return found


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with seated(tmp_path) as seat:
        yield World(seat)


async def test_a_topic_is_read_and_written_by_its_id(world: World) -> None:
    found = await world.fetched(fetch(KEY.topic_id))
    assert (found.error, found.high_watermark, len(found.records) > 0) == (0, 1, True)
    assert await world.produced(produce(KEY.topic_id)) == ProducedPartition(
        NAME.partition, 0, 1, world.seat.replica.log.log_start_offset
    )


async def test_an_id_that_no_topic_has_is_unknown(world: World) -> None:
    """At once, also if the request would wait for records."""
    assert (await world.fetched(fetch(NEXT_ID, wait_ms=20_000))).error == ErrorCode.UNKNOWN_TOPIC_ID
    assert (await world.produced(produce(NEXT_ID))).error == ErrorCode.UNKNOWN_TOPIC_ID
    assert world.fetches.wait(fetch(NEXT_ID, wait_ms=20_000), FETCH, unanswered) is None
    assert world.seat.replica.log.log_end_offset == 1


async def test_the_id_of_a_topic_that_was_replaced_is_unknown(world: World) -> None:
    """CORRECTNESS K1, K2: neither read from the next topic of the name, nor appended to it."""
    world.replace()
    assert (await world.fetched(fetch(KEY.topic_id))).error == ErrorCode.UNKNOWN_TOPIC_ID
    assert (await world.produced(produce(KEY.topic_id))).error == ErrorCode.UNKNOWN_TOPIC_ID
    assert world.seat.replica.log.log_end_offset == 2
    assert (await world.fetched(fetch(NEXT_ID))).high_watermark == 2


async def test_a_topic_that_is_replaced_while_a_poll_waits_is_not_read(world: World) -> None:
    """CORRECTNESS K1: with a task and without one."""
    request = fetch(KEY.topic_id, offset=1, wait_ms=20_000)
    ended: list[FetchAnswer | None] = []
    assert world.fetches.wait(request, FETCH, ended.append) is not None
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(world.fetched(request._replace(bytes_min=2)))
        await turns()
        world.replace()
    assert waiting.result().error == ErrorCode.UNKNOWN_TOPIC_ID
    await eventually(lambda: bool(ended))
    assert ended == [None], "a task reads, and asks again which topic it is"
    assert (await world.fetched(request)).error == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_topic_that_is_replaced_before_the_append_gets_no_batch(world: World) -> None:
    """CORRECTNESS K2: the leader finds out with a wait whether it may acknowledge alone, and the next topic
    of the name has come meanwhile."""
    world.seat.lead(EPOCH + 2)
    answers: list[ProduceAnswer] = []

    async def reply(answer: ProduceAnswer) -> None:
        answers.append(answer)

    request = produce(KEY.topic_id, acks=1)
    assert not world.produces.begin(request, PRODUCE, answers.append), "its followers are silent"
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(world.produces.handle(request, PRODUCE, reply))
        await turns()
        assert not answers
        world.replace()
    assert answers[0].topics[0].partitions[0].error == ErrorCode.UNKNOWN_TOPIC_ID
    assert world.seat.replica.log.log_end_offset == 2


def unanswered(_: FetchAnswer | None) -> None:
    raise AssertionError("nothing waits")


async def test_a_batch_behind_one_whose_topic_was_not_known_is_out_of_order(world: World) -> None:
    """CORRECTNESS K2: the broker hears of the topic between the two; the first would be a duplicate."""
    first, second = (produce(NEXT_ID, producer=(7, sequence)) for sequence in (0, 1))
    assert (await world.produced(first)).error == ErrorCode.UNKNOWN_TOPIC_ID
    world.replace()
    assert (await world.produced(second)).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await world.produced(first)).error == 0
    assert (await world.produced(second)).error == 0


async def test_a_batch_with_the_next_id_does_not_overtake_one_with_the_old_id(world: World) -> None:
    """CORRECTNESS K2: Java's producer hears of the next topic while batches with the old id are in flight.
    The log would take the later one, and the earlier ones would be duplicates of what is older."""
    early, late = ((7, sequence) for sequence in (4, 5))
    world.replace()
    answers = [
        await world.produced(produce(topic_id, producer=producer))
        for topic_id, producer in ((KEY.topic_id, early), (NEXT_ID, late), (NEXT_ID, early), (NEXT_ID, late))
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    assert [(each.error, each.base_offset) for each in answers] == [
        (unknown, -1), (unknown, -1), (0, 2), (0, 3),
    ]  # fmt: skip


async def test_a_batch_before_the_first_one_that_a_log_took_is_no_success(world: World) -> None:
    """CORRECTNESS K2: another broker refused it. To clients, DUPLICATE_SEQUENCE_NUMBER is success."""
    later, earlier = (produce(KEY.topic_id, producer=(7, sequence)) for sequence in (5, 4))
    assert (await world.produced(later)).error == 0
    assert (await world.produced(earlier)).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert world.seat.replica.log.log_end_offset == 2


async def test_a_batch_that_is_being_replicated_does_not_keep_its_frame(world: World) -> None:
    """The memory of frames is counted until their batches are appended, and not until they are committed."""
    world.replace(1)
    frame, answers = bytearray(batch("x")), list[ProduceAnswer]()
    one = PartitionRecords(NAME.partition, memoryview(frame))
    request = ProduceRequest(ACKS_ALL, 60_000, (OfTopic("", (one,), NEXT_ID),))
    assert world.produces.begin(request, PRODUCE, answers.append)
    assert not answers, "the other one in sync does not have it yet"
    del request, one
    frame.clear()  # raises BufferError while a view of it is left
