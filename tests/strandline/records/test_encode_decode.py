"""Records go into batches and come out again as they were, here and in Kafka's own format."""

from __future__ import annotations

from contextlib import suppress

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.errors import CorruptMessage, UnsupportedCompression
from strandline.records import (
    Codec,
    RecordFields,
    decode,
    decode_columns,
    decode_lazily,
    encode_batch,
    encode_values,
    pack,
    pack_values,
    split,
    validate,
)
from strandline.records.compression import compress, decompress

CODECS = tuple(Codec)

TYPICAL: list[RecordFields] = [
    (None, b"value", (), 1_700_000_000_000),
    (b"key", b"", (("name", b"value"), ("null", None), ("", b"")), 1_700_000_000_007),
    (b"", None, (), 1_699_999_999_000),
    (b"k" * 70, b"v" * 20_000, (("häder", b"\x00\xff"),), 1_700_000_001_000),
]

nullable = st.none() | st.binary(max_size=200)
record = st.tuples(
    nullable,
    nullable,
    st.lists(st.tuples(st.text(max_size=10), nullable), max_size=3).map(tuple),
    st.integers(0, 2**45),
)


def fields(data: bytes) -> list[RecordFields]:
    return [(r.key, r.value, r.headers, r.timestamp) for r in decode(data)]


@pytest.mark.parametrize("codec", CODECS)
def test_kafkas_client_reads_our_batches(codec: Codec) -> None:
    """Byte-compatible with RecordBatch v2, every codec, null keys and values, headers."""
    data = encode_batch(
        TYPICAL, codec=codec, producer_id=7, producer_epoch=2, base_sequence=9, base_offset=100
    )
    batch = DefaultRecordBatch(data)
    assert batch.validate_crc()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 2, 9)
    assert (batch.compression_type, batch.base_offset, batch.next_offset) == (codec, 100, 104)
    assert (batch.first_timestamp, batch.max_timestamp) == (TYPICAL[0][3], TYPICAL[3][3])
    read = [(r.key, r.value, tuple(r.headers), r.timestamp) for r in batch]
    assert read == TYPICAL


@pytest.mark.parametrize("codec", CODECS)
def test_batches_of_kafkas_client_are_read(codec: Codec) -> None:
    """The other direction; and without compression the bytes are the same."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=False, producer_id=7, producer_epoch=2,
        base_sequence=9, batch_size=1 << 20,
    )  # fmt: skip
    for offset, (key, value, headers, timestamp) in enumerate(TYPICAL):
        builder.append(offset, timestamp, key, value, list(headers))
    data = bytes(builder.build())
    assert fields(data) == TYPICAL
    header = validate(data)[0]
    assert (header.codec, header.record_count, header.producer_id) == (codec, 4, 7)
    if codec is Codec.NONE:
        ours = encode_batch(TYPICAL, producer_id=7, producer_epoch=2, base_sequence=9)
        assert ours[16:] == data[16:]


@settings(deadline=None)
@given(st.lists(record, min_size=1, max_size=20), st.sampled_from(CODECS), st.integers(0, 2**40))
def test_records_survive_encoding_and_decoding(
    records: list[RecordFields], codec: Codec, base_offset: int
) -> None:
    data = encode_batch(records, codec=codec, base_offset=base_offset)
    assert fields(data) == records
    assert [r.offset for r in decode(data)] == list(range(base_offset, base_offset + len(records)))
    assert [header.size for header in validate(data)] == [len(data)]


few = st.sampled_from([(), (("h", b"v"),), (("h", b"w"),), (("h", b""),), (("h", None),), (("", b"v"),)])


@settings(deadline=None)
@given(st.lists(st.tuples(st.just(b"k") | st.none(), st.just(b"v"), few, st.just(7)), min_size=1))
def test_headers_that_are_alike_from_record_to_record_are_read_back(records: list[RecordFields]) -> None:
    """A reader takes the bytes of the record before for granted only where they are the same."""
    assert fields(data := encode_batch(records)) == records
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=False, producer_id=-1, producer_epoch=-1,
        base_sequence=-1, batch_size=1 << 20,
    )  # fmt: skip
    for offset, (key, value, headers, timestamp) in enumerate(records):
        builder.append(offset, timestamp, key, value, list(headers))
    assert data[16:] == bytes(builder.build())[16:]


@settings(deadline=None)
@given(
    st.lists(st.binary(max_size=90), min_size=1, max_size=200)
    | st.integers(0, 300).flatmap(
        lambda n: st.lists(st.binary(min_size=n, max_size=n), min_size=1, max_size=150)
    ),
    st.integers(0, 2**45),
)
def test_the_bulk_call_writes_the_same_as_the_general_one(values: list[bytes], timestamp: int) -> None:
    bulk = encode_values(values, timestamp, producer_id=3, producer_epoch=0, base_sequence=1)
    one_by_one = encode_batch(
        [(None, value, (), timestamp) for value in values], producer_id=3, producer_epoch=0, base_sequence=1
    )
    assert bulk == one_by_one
    assert [r.value for r in decode(bulk)] == values


@pytest.mark.parametrize("count", [1, 63, 64, 65, 8191, 8192, 8193, 20_000])
@pytest.mark.parametrize("lengths", [(0,), (1,), (58,), (59, 60)])
def test_offsets_and_lengths_of_any_width_are_read_back(count: int, lengths: tuple[int, ...]) -> None:
    """Varints grow at 64 and 8,192: the fast ways take every width, alike for equal and mixed lengths."""
    values = [bytes([index % 251]) * lengths[index % len(lengths)] for index in range(count)]
    columns = decode_columns(data := encode_values(values, 5, base_offset=10), split(data)[0])
    assert columns.values == values
    assert columns.offsets == list(range(10, 10 + count))
    assert columns.timestamps == [5] * count


def test_packed_records_are_sealed_again_without_encoding() -> None:
    """Idempotence: a producer that got a new id sends the same records under it."""
    packed = pack(TYPICAL, codec=Codec.ZSTD)
    first = packed.seal(producer_id=1, producer_epoch=0, base_sequence=5)
    again = packed.seal(producer_id=2, producer_epoch=0, base_sequence=0)
    assert len(first) == len(again) == packed.size
    for data, producer_id, sequence in ((first, 1, 5), (again, 2, 0)):
        header = validate(data)[0]
        assert (header.producer_id, header.base_sequence) == (producer_id, sequence)
        assert fields(data) == TYPICAL


def test_records_below_an_offset_are_left_out() -> None:
    """A fetch begins with the batch that contains its offset."""
    data = b"".join(encode_values([b"a", b"b", b"c"], 1, base_offset=base) for base in (10, 13, 16))
    assert [r.offset for r in decode(data, from_offset=14)] == [14, 15, 16, 17, 18]
    assert [header.base_offset for header, _ in decode_lazily(data, from_offset=14)] == [13, 16]


def test_control_batches_are_skipped_and_append_time_is_one_for_all() -> None:
    """KIP-98: control batches are no records; attribute 3: the batch's time is that of each record."""
    packed = pack([(b"k", b"v", (), 5), (b"k", b"v", (), 9)])
    control = type(packed)(packed.body, 0x20, 2, 5, 9).seal()
    append_time = type(packed)(packed.body, 0x08, 2, 5, 9).seal()
    assert decode(control) == []
    assert [r.timestamp for r in decode(append_time)] == [9, 9]


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        pack([])
    with pytest.raises(ValueError, match="at least one record"):
        pack_values([], 0)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_bomb_is_refused_before_it_takes_memory(codec: Codec) -> None:
    """Garbage and malice meet a limit with a name (CONTRIBUTING 7)."""
    bomb = compress(codec, bytes(1 << 20))
    assert decompress(codec, bomb, bytes_max=1 << 20) == bytes(1 << 20)
    with pytest.raises(CorruptMessage, match="bytes") as caught:
        decompress(codec, bomb, bytes_max=(1 << 20) - 1)
    assert caught.value.limit == (1 << 20) - 1


@pytest.mark.parametrize("codec", CODECS[1:])
@settings(deadline=None)
@given(garbage=st.binary(max_size=300))
def test_garbage_under_a_codec_is_corrupt(codec: Codec, garbage: bytes) -> None:
    with suppress(CorruptMessage):
        decompress(codec, garbage, bytes_max=1 << 16)


def test_raw_snappy_is_read_too() -> None:
    """Some clients leave xerial's framing out."""
    framed = compress(Codec.SNAPPY, b"abc" * 20_000)
    assert framed.startswith(b"\x82SNAPPY\x00")
    assert decompress(Codec.SNAPPY, framed) == b"abc" * 20_000
    block = framed[20 : 20 + int.from_bytes(framed[16:20], "big")]
    assert decompress(Codec.SNAPPY, block) == (b"abc" * 20_000)[: 32 * 1024]
    with pytest.raises(CorruptMessage):
        decompress(Codec.SNAPPY, framed[:-3])


def test_codecs_go_by_their_setting_names() -> None:
    assert Codec.named("zstd") is Codec.ZSTD
    with pytest.raises(UnsupportedCompression, match="none, gzip, snappy, lz4, zstd"):
        Codec.named("brotli")


@settings(deadline=None)
@given(data=st.data(), codec=st.sampled_from((Codec.NONE, Codec.LZ4)))
def test_records_that_contradict_themselves_are_corrupt_and_nothing_else(
    data: st.DataObject, codec: Codec
) -> None:
    """A client may put anything under a right CRC; readers get records or CorruptMessage."""
    packed = pack(TYPICAL[:3] + TYPICAL[:1] * 9)
    body = bytearray(packed.body)
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    damaged = type(packed)(compress(codec, bytes(body[:cut])), codec, 12, 0, 0).seal()
    try:
        decoded = decode(damaged)
    except CorruptMessage:
        return
    assert len(decoded) == 12
