"""Fetch answers to Kafka clients: their memory, and batches without records."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.broker.kafka.handlers.fetching.fetch import end_without_records
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.fetch import FetchAnswer, FetchRequest, PartitionPosition
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.config.limits import KIB, RECORDS_BYTES_MAX
from strandline.errors import ErrorCode
from strandline.ids import Offset
from strandline.records import encode_values, gap_batch
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.kafka.support.asking import called, fetch_api, log_handlers
from tests.broker.kafka.support.memory_connection import turns
from tests.broker.support.replicas import ASSIGNED, NAME, settings, write
from tests.broker.support.seat import ME, Seat, led_by, seated

EPOCH = 5
BATCH_BYTES = 300 * KIB
BOUNDS = {"fetch_connection_bytes_max": RECORDS_BYTES_MAX, "fetch_bytes_max": RECORDS_BYTES_MAX}
TINY = FetchRequest(
    wait_ms=0,
    bytes_min=0,
    bytes_max=1,
    isolation_level=0,
    topics=(OfTopic(NAME.topic, (PartitionPosition(NAME.partition, -1, 0, 1),)),),
)


@pytest.mark.parametrize(("in_sync", "watermark"), [((2,), 2), ((1, 2), -1)])
async def test_a_watermark_that_cannot_move_is_the_one_that_the_leader_knows(
    tmp_path: Path, in_sync: tuple[int, ...], watermark: int
) -> None:
    """CORRECTNESS H1: with enough replicas in sync the HW is unknown for moments only. With too few it may be
    days, and a client that reads to the end of the log would wait for as long."""
    answers: list[FetchAnswer] = []

    async def reply(answer: FetchAnswer) -> None:
        answers.append(answer)

    async with seated(tmp_path) as seat:
        write(seat.replica, 4, "a", "b", "c")
        seat.replica.raise_watermark(Offset(2))
        config = TopicConfig(min_insync_replicas=2)
        seat.manager.reconfigure(seat.replica, PartitionAssignment(ASSIGNED), config)
        state = led_by(ME, *in_sync, epoch=EPOCH)
        seat.manager.lead(seat.replica, state, seat.write(state))
        handlers = log_handlers(seat)
        api = fetch_api(handlers)
        await api.handle(TINY, called(apis.FETCH, 12), reply)
    (found,) = answers[0].topics[0].partitions
    assert (found.error, found.high_watermark, found.last_stable_offset) == (0, watermark, watermark)


async def test_a_first_batch_that_is_larger_than_asked_counts_as_what_it_is(tmp_path: Path) -> None:
    """CORRECTNESS X6: clients that ask for one byte, get a batch, and do not read it, share the bound. With
    the allowance for connections that have nothing, four batches pass it."""
    answered: list[int] = []

    async def unread(answer: FetchAnswer) -> None:
        answered.append(len(answer.topics[0].partitions[0].records))
        await asyncio.Event().wait()

    async with seated(tmp_path) as seat:
        write(seat.replica, 4, "a" * BATCH_BYTES)
        seat.lead(EPOCH)
        seat.commit(1)
        handlers = log_handlers(seat)
        api = fetch_api(handlers, own=settings(**BOUNDS))
        async with asyncio.TaskGroup() as tasks:
            waiting = []
            for number in range(6):
                call = called(apis.FETCH, 12, host=f"192.0.2.{number}")
                waiting.append(tasks.create_task(api.handle(TINY, call, unread)))
                await turns()
            for task in waiting:
                task.cancel()
    assert len(answered) == 4 and min(answered) > BATCH_BYTES


def test_batches_without_records_have_an_end_and_others_have_none() -> None:
    """CORRECTNESS X6: the broker reads on from there, so that an answer has a record if there is one."""
    first, second = gap_batch(0, 20, 1), gap_batch(20, 30, 2)
    records = encode_values([b"v"], 1)
    assert end_without_records(b"") is None
    assert end_without_records(first) == 20 and end_without_records(first + second) == 30
    assert end_without_records(first + records) is None and end_without_records(records + first) is None


def of(topic: str = NAME.topic, bytes_max: int = 1) -> tuple[OfTopic[PartitionPosition], ...]:
    return (OfTopic(topic, (PartitionPosition(NAME.partition, -1, 0, bytes_max),)),)


async def asked(seat: Seat, version: int, **more: Any) -> FetchAnswer:
    """The answer to a request for the first record, with other fields."""
    answers: list[FetchAnswer] = []

    async def reply(answer: FetchAnswer) -> None:
        answers.append(answer)

    call = called(apis.FETCH, version)
    await fetch_api(log_handlers(seat)).handle(TINY._replace(**more), call, reply)
    return answers[0]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({}, 0),
        ({"isolation_level": 1}, 0),
        ({"isolation_level": 2}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ({"topics": of(bytes_max=-1)}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ({"topics": of("other")}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"replica": ME}, 0),
        ({"replica": 9}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)  # fmt: skip
async def test_what_cannot_be_fetched_is_refused_by_kafkas_codes(
    tmp_path: Path, more: Mapping[str, Any], code: int
) -> None:
    """A broker's id in the place of a follower's is let through: nothing follows by this port."""
    async with seated(tmp_path) as seat:
        seat.lead_alone(6)
        found = await asked(seat, 12, **more)
    assert [each.error for each in found.topics[0].partitions] == [code]


@pytest.mark.parametrize(("version", "topics"), [(12, 1), (13, 0)])
async def test_an_isolation_level_that_is_none_is_an_error_of_the_whole_request(
    tmp_path: Path, version: int, topics: int
) -> None:
    async with seated(tmp_path) as seat:
        found = await asked(seat, version, isolation_level=2)
    assert (found.error, len(found.topics)) == (ErrorCode.UNKNOWN_SERVER_ERROR, topics)
