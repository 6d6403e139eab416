"""Arrow columns of batches are equal to `FetchedBatch.columns`, for any bytes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from strandline.client.reading.records import FetchedBatch
from strandline.config.limits import KIB, MIB
from strandline.errors import CorruptMessage, StrandlineError, UndecodableBatch
from strandline.ids import TopicPartition
from strandline.pipeline.columns.arrow import RUN_BYTES_MAX, arrow_schema, record_batches
from strandline.pipeline.source import columns
from strandline.records import BatchHeader, Codec, encode_batch, encode_values, keep_records, split
from strandline.records.compression import compress
from strandline.records.encode import RecordFields
from strandline.records.header import HEADER_BYTES, assemble

NAME = TopicPartition("orders", 3)
MS_MAX = (2**63 - 1) // 1000


def fetched(data: bytes, name: TopicPartition = NAME, from_offset: int = 0) -> list[FetchedBatch]:
    """Every batch of these bytes."""
    return [FetchedBatch(name, header, data, from_offset) for header in split(data)]


def rows_of(batches: Sequence[FetchedBatch], stop: int | None) -> list[tuple[Any, ...]]:
    """The rows that the columns of each batch say. Raises as they do."""
    rows: list[tuple[Any, ...]] = []
    for batch in batches:
        appended = int(batch.header.is_log_append_time)
        for offset, timestamp, key, value, headers in zip(*batch.columns(), strict=True):
            if stop is None or offset < stop:
                micros = timestamp * 1000 if -MS_MAX <= timestamp <= MS_MAX else None
                whole = [{"key": name, "value": of_it} for name, of_it in headers] or None
                rows.append((key, value, *batch.name, offset, micros, appended, whole))
    return rows


def record_batch(
    batches: Sequence[FetchedBatch], *, include_headers: bool = False, stop: int | None = None
) -> pa.RecordBatch:
    """All of them in one. Checks that they are the same one by one."""
    schema = arrow_schema(include_headers=include_headers)

    def read(bytes_max: int) -> pa.Table:
        made = record_batches(batches, include_headers=include_headers, stop=stop, bytes_max=bytes_max)
        return pa.Table.from_batches(list(made), schema).combine_chunks()

    whole = read(RUN_BYTES_MAX)
    assert whole.equals(read(1))
    made = whole.to_batches()
    return made[0] if made else pa.RecordBatch.from_pylist([], schema)


def rows_in(table: pa.RecordBatch) -> list[tuple[Any, ...]]:
    assert table.schema.equals(arrow_schema(include_headers=True))
    table.validate(full=True)
    columns = [
        (column.view(pa.int64()) if field.name == "timestamp" else column).to_pylist()
        for field, column in zip(table.schema, table.columns, strict=True)
    ]
    return list(zip(*columns, strict=True))


def outcome(make: Any) -> Any:
    """The result, or the error, which counts as the same if class and message are."""
    try:
        return make()
    except StrandlineError as error:
        return type(error), str(error)


def assert_same(batches: Sequence[FetchedBatch], stop: int | None = None) -> None:
    expected = outcome(lambda: rows_of(batches, stop))
    assert outcome(lambda: rows_in(record_batch(batches, include_headers=True, stop=stop))) == expected


# --- any batch that an encoder makes --------------------------------------------------------

small = st.sampled_from([b"", b"x", b"\x00" * 7, b"\x80" * 60, b"\x01" * 63, b"\xff" * 64, b"x" * 100])
large = st.sampled_from([b"\x00" * 8191, b"x" * 8192])
data = small | large | st.binary(max_size=9)
times = st.integers(0, 70) | st.integers(-(10**15), 10**15) | st.sampled_from([MS_MAX, MS_MAX + 1, -(2**62)])
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2)
counts = st.integers(1, 20) | st.sampled_from([63, 64, 65, 130, 300])


@st.composite
def records(draw: st.DrawFn) -> list[RecordFields]:
    """Records of one layout with some others among them, or all different."""
    same: RecordFields = (draw(st.none() | small), draw(st.none() | small), (), draw(times))
    some = [same] * draw(counts)
    other = st.tuples(st.none() | data, st.none() | data, st.just(()) | headers, times)
    for at, one in draw(st.dictionaries(st.integers(0, len(some) - 1), other, max_size=4)).items():
        some[at] = one
    return some if draw(st.booleans()) else draw(st.lists(other, min_size=1, max_size=40))


@st.composite
def encoded(draw: st.DrawFn, base_offset: int, codecs: Sequence[Codec]) -> bytes:
    """A batch: of one of these codecs, perhaps with the time of its append, perhaps compacted."""
    batch = encode_batch(draw(records()), codec=draw(st.sampled_from(codecs)), base_offset=base_offset)
    [header] = split(batch)
    if draw(st.booleans()):
        gone = draw(st.sets(st.integers(1, 300), max_size=9))
        kept = [at not in gone for at in range(header.record_count)]
        horizon = draw(st.none() | st.integers(0, 10**13))
        batch = keep_records(
            batch, header, kept, max_timestamp=header.max_timestamp, delete_horizon_ms=horizon
        )
        [header] = split(batch)
    if draw(st.integers(0, 3)) == 0:
        batch = assemble(header._replace(attributes=header.attributes | 0x08), batch[HEADER_BYTES:])
    return batch


@st.composite
def logs(draw: st.DrawFn, codecs: Sequence[Codec] = tuple(Codec)) -> list[FetchedBatch]:
    """Some batches of one partition, or of two, in one buffer or in several."""
    found: list[FetchedBatch] = []
    at = draw(st.integers(0, 2**40))
    for name in draw(st.sampled_from([[NAME], [NAME, NAME], [NAME, TopicPartition("größe", 0)]])):
        from_offset, pieces = at, []
        for _ in range(draw(st.integers(1, 3))):
            pieces.append(draw(encoded(at, codecs)))
            at = split(pieces[-1])[0].next_offset + draw(st.integers(0, 3))
        from_offset += draw(st.integers(0, 40))
        found += fetched(b"".join(pieces), name, from_offset)
    return found


@given(logs(), st.none() | st.integers(0, 200))
def test_any_batches_have_the_rows_that_their_columns_say(
    batches: list[FetchedBatch], below: int | None
) -> None:
    stop = None if below is None else batches[0].header.base_offset + below
    assert_same(batches, stop)


@given(logs([Codec.NONE]), st.data())
def test_damaged_records_are_corrupt_exactly_where_columns_finds_them_so(
    batches: list[FetchedBatch], draw: st.DataObject
) -> None:
    """For a change of any byte of the records or number of the header: no row is invented, none is
    missing."""
    which = draw.draw(st.integers(0, len(batches) - 1))
    _, header, data, _ = batches[which]
    body = bytearray(data[header.position + HEADER_BYTES : header.end])
    byte = st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0xFF]) | st.integers(0, 255)
    places = st.integers(0, len(body) - 1)
    for at, other in draw.draw(st.dictionaries(places, byte, min_size=1, max_size=4)).items():
        body[at] = other
    codec = draw.draw(st.sampled_from(Codec))
    data = assemble(header._replace(attributes=header.attributes | codec), compress(codec, bytes(body)))
    [header] = split(data)
    counted = draw.draw(st.integers(0, 9))
    if counted == 0:
        header = header._replace(record_count=draw.draw(st.integers(-1, 500)))
    elif counted == 1:
        header = header._replace(base_offset=draw.draw(st.integers(-(2**63), 2**63 - 1)))
    elif counted == 2 and codec is Codec.NONE:
        header = header._replace(batch_length=draw.draw(st.integers(49, header.batch_length + 5)))
    batches[which] = batches[which]._replace(data=data, header=header)
    if all(-(2**63) < row[4] < 2**63 for row in as_rows(batches)):
        assert_same(batches)
    else:
        with pytest.raises(CorruptMessage, match="more than 64 bits"):
            record_batch(batches)


@pytest.mark.parametrize("codec", list(Codec)[1:])
def test_an_undecompressible_batch_is_corrupt(codec: Codec) -> None:
    batch = encode_values([b"%09d" % at for at in range(100)], 7, codec=codec)
    assert_same(fetched(batch[:-9] + bytes(9)))
    with pytest.raises(CorruptMessage):
        record_batch(fetched(batch[:HEADER_BYTES] + bytes(len(batch) - HEADER_BYTES)))


def as_rows(batches: list[FetchedBatch]) -> list[tuple[Any, ...]]:
    found = outcome(lambda: rows_of(batches, None))
    return found if isinstance(found, list) else []


# --- layouts, each by name ------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 8, 63, 64, 65, 8191, 8192, 8200, 20_000])
@pytest.mark.parametrize("keyed", [False, True])
def test_offset_deltas_grow_within_a_batch(count: int, keyed: bool) -> None:
    """Varints take another byte at 64 and at 8,192: the layout changes there, and the record with it."""
    fields: list[RecordFields] = [(b"%06d" % at if keyed else None, b"v" * 100, (), 5) for at in range(count)]
    batches = fetched(encode_batch(fields, base_offset=10**12))
    assert_same(batches)
    assert record_batch(batches).num_rows == count


def test_values_of_many_sizes_among_runs_of_one() -> None:
    sized = [*[100] * 50, *range(90, 140), *[100] * 50, *[1000, 0] * 40, *[300] * 5]
    assert_same(fetched(encode_batch([(None, b"x" * size, (), 0) for size in sized])))
    assert_same(fetched(encode_values([b"x" * size for size in sized], 7)))


@pytest.mark.parametrize("codec", Codec)
def test_batches_of_every_codec_are_opened(codec: Codec) -> None:
    log = [
        encode_values([b"%03d" % at for at in range(100)], 7, codec=codec, base_offset=n) for n in (0, 100)
    ]
    assert_same(fetched(b"".join(log), from_offset=30), stop=170)
    assert record_batch(fetched(b"".join(log), from_offset=30), stop=170).num_rows == 140


def test_a_codec_that_is_none_is_refused_as_columns_does() -> None:
    [header] = split(encode_values([b"x"], 7))
    batch = FetchedBatch(NAME, header._replace(attributes=7), encode_values([b"x"], 7), 0)
    with pytest.raises(UndecodableBatch, match="codec 7"):
        record_batch([batch])


def test_one_batch_with_headers_leaves_the_others_as_they_are() -> None:
    plain = [encode_values([b"a" * 10] * 20, 7, base_offset=at) for at in (0, 20, 60)]
    tagged = encode_batch([(b"k", b"v", (("h", None), ("h", b"1")), 9)] * 20, base_offset=40)
    batches = fetched(b"".join([plain[0], plain[1], tagged, plain[2]]))
    assert_same(batches)
    assert "headers" not in record_batch(batches).schema.names


def test_batches_in_another_order_than_their_bytes_are_read_in_theirs() -> None:
    batches = fetched(b"".join(encode_values([b"%d" % at], 7, base_offset=at) for at in range(9)))[::-1]
    assert_same(batches)


def test_a_batch_that_only_looks_like_the_one_before_is_read_for_itself() -> None:
    """As many records and bytes, and another layout; and then a length that lies, among fields that fit."""
    alike = encode_values([b"a" * 10] * 20, 7)
    other = encode_values([b"a" * 9, b"a" * 11] * 10, 7, base_offset=20)
    assert len(alike) == len(other)
    assert_same(fetched(alike + other))
    lying = bytearray(alike)
    size = (len(alike) - HEADER_BYTES) // 20
    lying[HEADER_BYTES + 5 * size] += 2
    assert_same(fetched(alike + bytes(lying)))
    with pytest.raises(CorruptMessage):
        record_batch(fetched(alike + bytes(lying)))


def test_batches_without_records_are_left_out() -> None:
    emptied = BatchHeader(0, 5, 49, 0, 2, 0, 0, 9, -1, -1, -1, -1, -1, 0)
    assert list(record_batches([])) == []
    assert list(record_batches([FetchedBatch(NAME, emptied, bytes(HEADER_BYTES), 0)])) == []
    assert record_batch(fetched(encode_values([b"x"] * 9, 7)), stop=0).num_rows == 0


@pytest.mark.parametrize("include_headers", [False, True])
def test_the_columns_are_those_declared_to_spark(include_headers: bool) -> None:
    """Spark refuses batches of other names, types or nullability, and only when they come."""
    declared = to_arrow_schema(columns(include_headers=include_headers), timezone="UTC")
    made = arrow_schema(include_headers=include_headers)
    assert made.equals(declared), f"{made}\n\n{declared}"


def test_batches_that_decompress_to_much_are_opened_a_few_at_a_time() -> None:
    """Sixty batches of 2 KB with 60 MiB of zeros each took gigabytes; these have 4 MiB each."""
    size = 4 * MIB
    [batch] = fetched(encode_values([bytes(size)], 7, codec=Codec.ZSTD))
    assert batch.size < KIB
    tracemalloc.start()
    try:
        before = pa.total_allocated_bytes()
        rows = 0
        for made in record_batches([batch] * 40):
            assert made.nbytes <= RUN_BYTES_MAX + size
            assert pa.total_allocated_bytes() - before <= 2 * (RUN_BYTES_MAX + size)
            rows += made.num_rows
            del made
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rows == 40
    assert peak <= 3 * (RUN_BYTES_MAX + size), "the run, its copy, and what it was decompressed into"
