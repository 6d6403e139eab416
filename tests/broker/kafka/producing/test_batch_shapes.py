"""Bytes for a partition that are not one readable batch are refused by the codes of Kafka's brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.broker.kafka.handlers.producing.produce import ProduceApi
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.produce import (
    PartitionRecords,
    ProduceAnswer,
    ProducedPartition,
    ProduceRequest,
)
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.errors import ErrorCode
from strandline.ids import ACKS_ALL
from strandline.records import HEADER_BYTES, BatchHeader, Codec
from strandline.records.header import assemble
from tests.broker.kafka.support.asking import NO_HINTS, called, log_handlers, no_rights
from tests.broker.support.replicas import CLOCK, NAME, batch
from tests.broker.support.seat import Seat, seated

CALL = called(apis.PRODUCE, 9)
PLAIN = batch("x")
MAGIC_AT = 16


def with_codec(number: int) -> bytes:
    """The batch with its plain records, said to be of a codec; its checksum is right."""
    header = BatchHeader.parse(PLAIN)
    return assemble(header._replace(attributes=number), PLAIN[HEADER_BYTES:])


def with_magic(number: int) -> bytes:
    return PLAIN[:MAGIC_AT] + bytes([number]) + PLAIN[MAGIC_AT + 1 :]


async def produced(seat: Seat, records: bytes | None) -> ProducedPartition:
    answers: list[ProduceAnswer] = []
    given = None if records is None else memoryview(records)
    topics = (OfTopic(NAME.topic, (PartitionRecords(NAME.partition, given),)),)
    api = ProduceApi(log_handlers(seat), no_rights(seat), NO_HINTS, CLOCK)
    assert api.begin(ProduceRequest(ACKS_ALL, 1_000, topics), CALL, answers.append)
    ((found,),) = [topic.partitions for topic in answers[0].topics]
    return found


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (bytes(10), ErrorCode.INVALID_RECORD),
        (PLAIN[:-1], ErrorCode.INVALID_RECORD),
        (PLAIN + PLAIN, ErrorCode.INVALID_RECORD),
        (with_magic(0), ErrorCode.INVALID_RECORD),
        (with_magic(1), ErrorCode.INVALID_RECORD),
        (with_magic(3), ErrorCode.CORRUPT_MESSAGE),
        (PLAIN[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
        (with_codec(5), ErrorCode.UNKNOWN_SERVER_ERROR),
        (with_codec(7), ErrorCode.UNKNOWN_SERVER_ERROR),
        (with_codec(Codec.SNAPPY), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
    ids=[
        "null", "none", "few bytes", "cut", "two", "magic 0", "magic 1", "magic 3", "checksum", "codec 5",
        "codec 7", "snappy that is none",
    ],
)  # fmt: skip
async def test_what_is_not_one_readable_batch_is_not_appended(
    tmp_path: Path, records: bytes | None, code: ErrorCode
) -> None:
    async with seated(tmp_path) as seat:
        leadership = seat.lead_alone(6)
        leadership.core.assign(seat.replica.assignment, 1, CLOCK.monotonic())
        found = await produced(seat, records)
        assert (found.error, found.base_offset) == (code, -1)
        assert seat.replica.log.log_end_offset == 0


async def test_a_few_bytes_after_a_batch_are_left_out(tmp_path: Path) -> None:
    async with seated(tmp_path) as seat:
        leadership = seat.lead_alone(6)
        leadership.core.assign(seat.replica.assignment, 1, CLOCK.monotonic())
        found = await produced(seat, PLAIN + b"abc")
        assert (found.error, found.base_offset) == (0, 0)
        assert seat.replica.log.size_bytes == len(PLAIN)
