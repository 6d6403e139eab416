"""A leader refuses a batch that it can recognize as invalid without decompressing it, before it takes
offsets."""

from __future__ import annotations

import random

import pytest

from strandline.broker.storage import admission
from strandline.broker.storage.admission import BYTES_NAMED_MAX, KEYED_RECORDS_MAX, RECORDS_NAMED_MAX
from strandline.config.limits import RECORDS_BYTES_MAX
from strandline.errors import CorruptMessage, InvalidRecord, InvalidTimestamp, UnsupportedCompression
from strandline.records import (
    HEADER_BYTES,
    BatchHeader,
    Codec,
    decode_columns,
    encode_batch,
    encode_values,
    with_append_time,
)
from strandline.records.compression import compress
from strandline.records.header import assemble
from strandline.records.scan import BROKER_DECOMPRESSED_BYTES_MAX, RECORDS_LOOKED_AT_MAX
from strandline.vocabulary.topic_config import TopicConfig
from tests.strandline.records.hostile_batches import timed

BYTES_MAX = RECORDS_BYTES_MAX
CODECS = [codec for codec in Codec if codec is not Codec.NONE]


def claiming(count: int, data: bytes) -> bytes:
    """The same body under a header that claims this number of records, with the right CRC."""
    header = BatchHeader.parse(data)
    changed = header._replace(record_count=count, last_offset_delta=count - 1)
    return assemble(changed, data[HEADER_BYTES:])


@pytest.mark.parametrize("count", [2, 1_000, 2**31 - 1])
def test_a_plain_batch_that_claims_more_records_than_fit_is_refused(count: int) -> None:
    """61 bytes took 2^31 - 1 offsets, and a segment of their own."""
    empty = assemble(BatchHeader.parse(encode_values([b""], 0)), b"")
    for data in (empty, encode_values([b""], 0)):
        with pytest.raises(InvalidRecord, match=f"claims {count} records in .* of codec none"):
            admission.from_producer(claiming(count, data), bytes_max=BYTES_MAX)


@pytest.mark.parametrize("codec", CODECS)
def test_a_compressed_batch_is_accepted_up_to_a_ratio(codec: Codec) -> None:
    data = encode_values([b""] * 100, 0, codec=codec)
    body = len(data) - HEADER_BYTES
    with pytest.raises(InvalidRecord, match="are believed"):
        admission.from_producer(claiming(body * 5, data), bytes_max=BYTES_MAX)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("count", [1, 2, 100, 10_000])
def test_the_smallest_records_there_are_pass_in_every_codec(codec: Codec, count: int) -> None:
    """A correctly encoded batch is never refused."""
    header = admission.from_producer(encode_values([b""] * count, 0, codec=codec), bytes_max=BYTES_MAX)
    assert header.record_count == count


# --- times ----------------------------------------------------------------------------------------

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize(
    ("times", "config", "wrong"),
    [
        ((NOW_MS, NOW_MS + HOUR_MS), TopicConfig(), None),
        ((0, -1), TopicConfig(), None),
        ((NOW_MS, NOW_MS + HOUR_MS + 1, NOW_MS * 1_000, -1), TopicConfig(), (1, 2)),
        ((NOW_MS + 6, NOW_MS), TopicConfig(message_timestamp_after_max_ms=5), (0,)),
        ((NOW_MS - 5, NOW_MS), TopicConfig(message_timestamp_before_max_ms=5), None),
        ((NOW_MS - 6, NOW_MS, -1), TopicConfig(message_timestamp_before_max_ms=5), (0,)),
        ((-1, NOW_MS), TopicConfig(message_timestamp_before_max_ms=5), None),
        ((0, NOW_MS * 1_000), TopicConfig(message_timestamp_type="LogAppendTime"), None),
    ],
)
def test_times_too_far_from_the_leaders_clock_are_refused(
    codec: Codec, times: tuple[int, ...], config: TopicConfig, wrong: tuple[int, ...] | None
) -> None:
    """Microseconds in place of milliseconds lie in the year 55840: look-ups by time never pass them."""
    data = encode_batch([(None, b"v", (), at) for at in times], codec=codec)
    header = BatchHeader.parse(data)
    if wrong is None:
        admission.check_times(data, header, config, NOW_MS)
        return
    with pytest.raises(InvalidTimestamp) as refused:
        admission.check_times(data, header, config, NOW_MS)
    assert refused.value.records == wrong and str(times[0]) in refused.value.message


def test_of_many_records_those_with_a_wrong_time_are_not_named() -> None:
    """Each record that is read keeps the event loop."""
    data = encode_values([b""] * (RECORDS_NAMED_MAX + 1), NOW_MS * 2)
    with pytest.raises(InvalidTimestamp) as refused:
        admission.check_times(data, BatchHeader.parse(data), TopicConfig(), NOW_MS)
    assert refused.value.records == ()


@pytest.mark.parametrize("garbled", [False, True])
def test_times_are_refused_as_such_though_the_records_cannot_be_read(garbled: bool) -> None:
    """Java sends a batch that is CORRUPT_MESSAGE again and again, each time to be decompressed."""
    data = encode_values([bytes(BYTES_NAMED_MAX)], NOW_MS * 2, codec=Codec.ZSTD)
    if garbled:
        data = data[:HEADER_BYTES] + bytes(len(data) - HEADER_BYTES)
    with pytest.raises(InvalidTimestamp) as refused:
        admission.check_times(data, BatchHeader.parse(data), TopicConfig(), NOW_MS)
    assert refused.value.records == ()


def test_a_producer_may_not_say_that_a_broker_gave_the_time() -> None:
    data = encode_values([b""], NOW_MS)
    stamped = with_append_time(data, BatchHeader.parse(data), NOW_MS)
    for config in (TopicConfig(), TopicConfig(message_timestamp_type="LogAppendTime")):
        with pytest.raises(InvalidTimestamp, match="claims"):
            admission.check_times(stamped, BatchHeader.parse(stamped), config, NOW_MS)


# --- headers --------------------------------------------------------------------------------------


def with_null_key(number: int, *, codec: Codec = Codec.NONE, value: bytes = b"v") -> bytes:
    """A batch whose record of this number has a header with a null key, behind one with a key."""
    headers = [("first", b""), ("bad", b"w")]
    records = [(None, value, headers if at == number else headers[:1], NOW_MS) for at in range(number + 1)]
    data = encode_batch(records)
    body = data[HEADER_BYTES:].replace(b"\x06bad", b"\x01bad")  # the value's length is read from the key then
    assert body != data[HEADER_BYTES:]
    header = BatchHeader.parse(data)
    return assemble(header._replace(attributes=codec), compress(codec, body))


@pytest.mark.parametrize("number", [0, RECORDS_LOOKED_AT_MAX - 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_header_without_a_key_is_refused(codec: Codec, number: int) -> None:
    """Java's consumers cannot read past it: one such record stopped all of them."""
    data = with_null_key(number, codec=codec)
    with pytest.raises(InvalidRecord, match="a record of the batch has a header without a key"):
        admission.check_client(data, BatchHeader.parse(data), TopicConfig(), NOW_MS)


def test_only_the_first_records_of_a_batch_are_read_for_headers() -> None:
    """To read each of many records takes 13 times as long as the other checks of a batch."""
    late = with_null_key(RECORDS_LOOKED_AT_MAX)
    large = with_null_key(0, codec=Codec.GZIP, value=random.Random(1).randbytes(5_000))
    nonsense = assemble(BatchHeader.parse(late), b"\xff" * 200)
    for data in (late, large, nonsense):
        admission.check_client(data, BatchHeader.parse(data), TopicConfig(), NOW_MS)


def test_snappy_that_is_none_is_refused() -> None:
    """No reader could pass it. Damage within other codecs looks like records that are too large."""
    data = encode_values([b"v"], NOW_MS)
    header = BatchHeader.parse(data)._replace(attributes=Codec.SNAPPY)
    data = assemble(header, data[HEADER_BYTES:])
    with pytest.raises(UnsupportedCompression, match="snappy do not decompress"):
        admission.check_client(data, BatchHeader.parse(data), TopicConfig(), NOW_MS)


def test_only_a_log_gives_offsets() -> None:
    data = encode_values([b""], NOW_MS)
    header = BatchHeader.parse(data)._replace(base_offset=5)
    with pytest.raises(InvalidRecord, match="base offset 5"):
        admission.check_client(data, header, TopicConfig(), NOW_MS)


# --- compacted topics -----------------------------------------------------------------------------


def test_a_batch_that_decompresses_beyond_the_brokers_bound_is_refused() -> None:
    """6 KB became 64 MiB on the event loop."""
    data = encode_batch([(b"k", bytes(BROKER_DECOMPRESSED_BYTES_MAX), (), 0)], codec=Codec.ZSTD)
    assert len(data) < 10_000
    with pytest.raises(CorruptMessage, match="do not decompress to at most"):
        admission.from_producer(data, bytes_max=BYTES_MAX, keyed=True)


def test_more_records_than_a_leader_looks_at_are_refused_with_the_limit() -> None:
    data = encode_batch([(b"", b"", (), 0)] * (KEYED_RECORDS_MAX + 1), codec=Codec.ZSTD)
    with pytest.raises(InvalidRecord, match=f"send at most {KEYED_RECORDS_MAX}") as raised:
        admission.from_producer(data, bytes_max=BYTES_MAX, keyed=True)
    assert raised.value.limit == KEYED_RECORDS_MAX


@pytest.mark.parametrize(("base", "delta"), [(2**63 - 1, 1), (-(2**63), -1)])
def test_a_timestamp_that_does_not_fit_64_bits_is_refused(base: int, delta: int) -> None:
    """CORRECTNESS X14: compaction could not keep it."""
    data = timed(base, (0, b"v"), (delta, b"v"))
    with pytest.raises(InvalidRecord, match=f"record 1 of the batch has a timestamp of {base + delta} ms"):
        admission.from_producer(data, bytes_max=BYTES_MAX, keyed=True)


@pytest.mark.parametrize(
    "body", [b"\xff" * 50, bytes(50), b"\x0d" + bytes(6)], ids=["noise", "zeros", "negative"]
)
def test_records_that_are_none_are_refused(body: bytes) -> None:
    data = assemble(BatchHeader.parse(encode_values([b""], 0)), body)
    with pytest.raises(CorruptMessage, match="malformed"):
        admission.from_producer(data, bytes_max=BYTES_MAX, keyed=True)
    with pytest.raises(CorruptMessage):
        decode_columns(data, BatchHeader.parse(data))
