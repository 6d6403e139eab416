"""A topic's `compression.type`: its leader stores batches of another codec compressed anew."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from strandline.broker.kafka.handlers.producing.produce import ProduceApi
from strandline.broker.kafka.wire.produce import ProduceAnswer, ProducedPartition
from strandline.errors import ErrorCode
from strandline.records import BatchHeader, Codec, decode, encode_batch, split
from strandline.records.header import assemble
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.kafka.producing.test_produce_api import CALL, api_of, request
from tests.broker.support.replicas import CLOCK
from tests.broker.support.seat import Seat, seated

FIELDS = [(b"k", b"v" * 200, (), 1) for _ in range(100)]
Handle = Callable[[ProduceApi, bytes], Awaitable[ProducedPartition]]


@asynccontextmanager
async def leading(tmp_path: Path, **config: str) -> AsyncIterator[Seat]:
    """A broker that leads the only in-sync replica of a topic with this config."""
    async with seated(tmp_path) as seat:
        named = {name.replace("_", "."): value for name, value in config.items()}
        seat.manager.reconfigure(seat.replica, seat.replica.assignment, TopicConfig.parse(named))
        seat.lead(5)
        seat.lead_alone(6).core.assign(seat.replica.assignment, 1, CLOCK.monotonic())
        yield seat


async def handled(api: ProduceApi, records: bytes) -> ProducedPartition:
    answers: list[ProduceAnswer] = []

    async def reply(answer: ProduceAnswer) -> None:
        answers.append(answer)

    await api.handle(request(records), CALL, reply)
    ((found,),) = [topic.partitions for topic in answers[0].topics]
    return found


def stored(seat: Seat) -> bytes:
    log = seat.replica.log
    return b"".join(path.read_bytes() for path in sorted(log.directory.glob("*.log")))


@pytest.mark.parametrize(
    ("named", "codec"),
    [("uncompressed", Codec.NONE), *((codec.name.lower(), codec) for codec in Codec if codec)],
)
async def test_batches_of_another_codec_are_stored_in_the_topics(
    tmp_path: Path, named: str, codec: Codec
) -> None:
    batches = [
        encode_batch(FIELDS, codec=each, producer_id=7, producer_epoch=0, base_sequence=100 * each)
        for each in Codec
    ]
    async with leading(tmp_path, compression_type=named) as seat:
        api, unanswered = api_of(seat), list[ProduceAnswer]()
        for number, batch in enumerate(batches):
            at_once = api.begin(request(batch), CALL, unanswered.append)
            assert at_once == (number == codec), "a batch of the topic's codec needs no step of its own"
            if not at_once:
                assert (await handled(api, batch)).base_offset == number * len(FIELDS)
        again = await handled(api, batches[1])
        log = stored(seat)
    assert (again.error, again.base_offset) == (0, len(FIELDS)), "a batch that comes twice is there once"
    assert [header.codec for header in split(log)] == [codec] * len(batches)
    assert [record.value for record in decode(log)] == [b"v" * 200] * len(FIELDS) * len(batches)


async def test_a_batch_is_known_again_after_the_codec_changed(tmp_path: Path) -> None:
    """It has other bytes then, and to refuse it would end its producer."""
    batches = [
        encode_batch(FIELDS, producer_id=7, producer_epoch=0, base_sequence=100 * number)
        for number in range(3)
    ]
    async with leading(tmp_path) as seat:
        api = api_of(seat)
        for number, named in enumerate(("producer", "gzip", "zstd", "producer")):
            config = TopicConfig(compression_type=named, min_insync_replicas=1)
            seat.manager.reconfigure(seat.replica, seat.replica.assignment, config)
            for sent, batch in enumerate(batches[: number + 1]):
                found = await handled(api, batch)
                assert (found.error, found.base_offset) == (0, sent * len(FIELDS))
        assert [header.codec for header in split(stored(seat))] == [Codec.NONE, Codec.GZIP, Codec.ZSTD]


async def test_a_batch_that_becomes_too_large_and_one_that_is_broken_are_refused(tmp_path: Path) -> None:
    small = encode_batch(FIELDS, codec=Codec.ZSTD)
    broken = assemble(BatchHeader.parse(small), b"no zstd")
    async with leading(tmp_path, compression_type="uncompressed", max_message_bytes="10000") as seat:
        api = api_of(seat)
        too_large, corrupt = await handled(api, small), await handled(api, broken)
        fitting = await handled(api, encode_batch(FIELDS[:10], codec=Codec.ZSTD))
    assert (too_large.error, too_large.base_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
    assert corrupt.error == ErrorCode.CORRUPT_MESSAGE
    assert (fitting.error, fitting.base_offset) == (0, 0)


@pytest.mark.parametrize("config", [{}, {"compression_type": "producer"}])
async def test_without_a_codec_of_the_topic_batches_stay_as_they_came(
    tmp_path: Path, config: dict[str, str]
) -> None:
    batch, unanswered = encode_batch(FIELDS, codec=Codec.GZIP), list[ProduceAnswer]()
    async with leading(tmp_path, **config) as seat:
        assert api_of(seat).begin(request(batch), CALL, unanswered.append)
        assert [header.codec for header in split(stored(seat))] == [Codec.GZIP]
