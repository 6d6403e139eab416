"""A batch from which no records can be had: it is named, it can be passed over, and it stops nothing else."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from strandline.client.core.effects import Arrived
from strandline.client.reading.batches import batches_of
from strandline.client.reading.records import ConsumerRecord
from strandline.errors import CorruptMessage, UndecodableBatch
from strandline.ids import TopicPartition
from strandline.records import HEADER_BYTES, BatchHeader, Codec, encode_batch, encode_values, split
from strandline.records.header import assemble
from strandline.records.varint import encode_varint
from tests.consumer.brokers import Parts, SlowClock
from tests.waiting import eventually

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def good(offset: int, count: int = 5) -> bytes:
    return encode_values([b"v"] * count, 0, base_offset=offset)


def made(offset: int, body: bytes, **fields: int) -> bytes:
    """A batch of five offsets whose header and CRC are right, around any body."""
    [header] = split(good(offset))
    return assemble(header._replace(**fields), body)


def record(delta: int) -> bytes:
    """One record without key and with an empty value, whose offset delta is this."""
    fields = b"\x00\x00" + encode_varint(delta) + b"\x01\x00\x00"
    return encode_varint(len(fields)) + fields


NOISE = bytes(range(40, 90))
BAD: dict[str, Callable[[int], bytes]] = {
    "noise": lambda offset: made(offset, NOISE),
    "compressed noise": lambda offset: made(offset, NOISE, attributes=Codec.GZIP),
    "an unknown codec": lambda offset: made(offset, good(offset)[HEADER_BYTES:], attributes=7),
    "more records than bytes": lambda offset: made(offset, b"", record_count=5),
    "more records than offsets": lambda offset: made(
        offset, good(0, 6)[HEADER_BYTES:], record_count=6, last_offset_delta=4
    ),
    "fewer than no records": lambda offset: made(offset, b"", record_count=-1),
    "an offset behind its end": lambda offset: made(offset, record(0) + record(5), record_count=2),
    "an offset before its start": lambda offset: made(offset, record(-1) + record(4), record_count=2),
    "offsets that go back": lambda offset: made(offset, record(3) + record(1) + record(4), record_count=3),
}
bad = pytest.mark.parametrize("bad", BAD.values(), ids=BAD)


class Log(Parts):
    """Partitions A and B, which are fed by the test as a fetch would."""

    async def __aenter__(self) -> Log:
        await super().__aenter__()
        self.reader.start()
        self.assign(A, B)
        return self

    def fetched(self, name: TopicPartition, *batches: bytes) -> None:
        offset = self.reader.positions[name].fetch_offset
        self.reader.carry_out([Arrived(name, offset, b"".join(batches))])

    def fetches(self, name: TopicPartition) -> bool:
        """True if the next fetch asks for the partition."""
        self.reader.positions.led(name, 1, self.brokers.epoch)
        plan = self.reader.positions.plan(1)
        return plan is not None and name in [wanted.name for wanted in plan.wanted]

    async def all(self) -> list[tuple[int, int]]:
        """The result of one get call."""
        found = await self.delivery.getmany((), 0, None)
        return [(record.partition, record.offset) for records in found.values() for record in records]


@bad
async def test_it_is_raised_with_all_that_there_is_to_say(bad: Callable[[int], bytes]) -> None:
    """(G16) topic, partition, offsets and what is wrong, before other records come; the position stays."""
    async with Log() as log:
        log.fetched(A, good(0), bad(5), good(10))
        log.fetched(B, good(0))
        assert await log.all() == [(0, n) for n in range(5)] + [(1, n) for n in range(5)]
        log.fetched(B, good(5))
        with pytest.raises(
            UndecodableBatch, match=r"^t-0: offsets 5 to 9 cannot .* at offset 10: seek"
        ) as raised:
            _ = await log.all()
        error = raised.value
        assert (error.partition, error.offset, error.next_offset) == (A, 5, 10)
        assert isinstance(error, CorruptMessage)
        assert log.reader.positions[A].position == 5
        assert await log.all() == [(1, n) for n in range(5, 10)], "it holds up no other partition"
        assert not log.fetches(A), "it is not fetched again and again"
        log.reader.seek(A, error.next_offset)
        assert log.fetches(A)
        log.fetched(A, good(10))
        assert await log.all() == [(0, n) for n in range(10, 15)]


async def test_it_is_raised_again_where_a_get_call_would_wait_for_nothing_else() -> None:
    """An application that ignores the error is not left waiting forever."""
    async with Log() as log:
        log.fetched(A, BAD["noise"](0))
        for _ in range(3):
            with pytest.raises(UndecodableBatch):
                _ = await log.delivery.getone()
            with pytest.raises(UndecodableBatch):
                _ = await log.all()
        log.reader.pause(A)
        assert await log.all() == [], "the application has put it aside"
        log.reader.positions.resume(A)
        assert log.fetches(A)
        log.fetched(A, BAD["noise"](0))
        with pytest.raises(UndecodableBatch):
            _ = await log.all()


@bad
async def test_it_is_left_out_on_request(
    bad: Callable[[int], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """(G16) with an error in the log that names the offsets; and it is committed with what lies around it."""
    async with Log(on_undecodable="skip") as log:
        log.fetched(A, good(0), bad(5), good(10), bad(15))
        with caplog.at_level(logging.ERROR, "consumer"):
            seen: list[ConsumerRecord] = [await log.delivery.getone() for _ in range(10)]
            assert [record.offset for record in seen] == [*range(5), *range(10, 15)]
            assert await log.all() == []
        assert len(caplog.messages) == 2
        assert "left out: t-0: offsets 5 to 9 cannot be decoded" in caplog.messages[0]
        assert log.reader.positions[A].position == 20
        assert await log.all() == []
        assert log.reader.positions[A].processed == 20


async def test_as_a_batch_it_is_handed_out_and_named_when_it_is_decoded() -> None:
    async with Log() as log:
        log.fetched(A, BAD["noise"](0), good(5))
        first, second = await log.delivery.getbatches((), 0)
        for decode in (first.columns, first.records):
            with pytest.raises(UndecodableBatch, match="t-0: offsets 0 to 4 cannot be decoded"):
                _ = decode()
        assert [record.offset for record in second.records()] == [*range(5, 10)]


# --- what did not come whole ------------------------------------------------------------------


def damaged(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


async def test_a_damaged_batch_is_fetched_again_and_what_came_before_it_is_handed_out() -> None:
    """Its CRC is not that of its bytes: another replica may have it whole, so it is not left out."""
    async with Log(SlowClock(), on_undecodable="skip", retry_backoff_ms=1) as log:
        log.fetched(A, good(0), damaged(good(5)), good(10))
        assert await log.all() == [(0, n) for n in range(5)]
        assert log.fetches(A)
        for tries in range(1, 4):
            log.fetched(A, damaged(good(5)), good(10))
            assert log.reader.positions[A].attempts == tries, "the pauses grow"
            with pytest.raises(UndecodableBatch, match="t-0: the batch at offset 5 is damaged") as raised:
                _ = await log.all()
            assert raised.value.next_offset == 10
            assert not log.fetches(A), "not without a pause"
            await eventually(lambda: not log.reader.positions[A].backing_off, what="the end of the pause")
        log.fetched(A, good(5), good(10))
        assert await log.all() == [(0, n) for n in range(5, 15)]
        assert log.reader.positions[A].attempts == 0


@pytest.mark.parametrize(
    ("records", "next_offset"),
    [
        (good(7)[:-1], 8),
        (good(7)[:20], 8),
        (damaged(good(7)), 12),
        (made(7, b"", last_offset_delta=-9, record_count=0), 8),
        (b"", None),
    ],
)
def test_the_offset_to_continue_at_is_behind_the_damage(records: bytes, next_offset: int | None) -> None:
    """A guess where the header cannot be trusted, but never the same place again."""
    batches, error = batches_of(A, 7, records)
    assert batches == []
    assert (None if error is None else (error.offset, error.next_offset)) == (
        None if next_offset is None else (7, next_offset)
    )


def test_batches_before_the_wanted_offset_are_skipped() -> None:
    batches, error = batches_of(A, 7, good(0) + good(5))
    assert error is None
    [batch] = batches
    assert (batch.base_offset, batch.next_offset) == (7, 10)
    assert isinstance(batch.header, BatchHeader)


def test_any_offsets_of_a_compacted_batch_are_taken_that_ascend_within_it() -> None:
    fields = made(5, record(1) + record(2) + record(4), record_count=3)
    [batch], error = batches_of(A, 0, fields)
    assert error is None and batch.columns().offsets == [6, 7, 9]
    encoded = encode_batch([(None, b"", (), 0)] * 5, base_offset=5)
    assert encoded[HEADER_BYTES:] == b"".join(map(record, range(5))), "as an encoder writes them"
