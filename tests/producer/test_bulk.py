"""Many values go into few batches, none too large, none out of order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.config.limits import RECORDS_BYTES_MAX
from strandline.errors import InvalidRequest, MessageTooLarge
from strandline.producer.bulk import Pieces, one_batch, rows_of
from strandline.producer.core.batch import VALUE_OVERHEAD_MAX
from strandline.records import Codec, RecordFields, decode, pack_values

SIZE_MAX = 1024
values = st.lists(st.none() | st.binary(max_size=300), max_size=200)
codecs = st.sampled_from([Codec.NONE, Codec.LZ4])


@given(values, codecs)
def test_values_come_out_as_they_went_in_and_no_batch_is_too_large(
    given_values: list[bytes | None], codec: Codec
) -> None:
    pieces = list(Pieces(5, SIZE_MAX, RECORDS_BYTES_MAX, Codec.NONE).of_values(given_values))
    assert all(piece.size <= SIZE_MAX for piece in pieces)
    pieces = list(Pieces(5, SIZE_MAX, RECORDS_BYTES_MAX, codec).of_values(given_values))
    assert [r.value for piece in pieces for r in decode(piece.seal())] == given_values


short = st.none() | st.binary(max_size=30)
headers = st.lists(st.tuples(st.text(max_size=5), short), max_size=2).map(tuple)


@given(
    st.lists(
        st.tuples(short, st.none() | st.binary(max_size=300), headers, st.integers(0, 2**40)), max_size=99
    ),
    codecs,
)
def test_whole_records_come_out_as_they_went_in(records: list[RecordFields], codec: Codec) -> None:
    pieces = list(Pieces(5, SIZE_MAX, RECORDS_BYTES_MAX, Codec.NONE).of_records(records))
    assert all(piece.size <= SIZE_MAX for piece in pieces)
    pieces = list(Pieces(5, SIZE_MAX, RECORDS_BYTES_MAX, codec).of_records(records))
    decoded = [r for piece in pieces for r in decode(piece.seal())]
    assert [(r.key, r.value, r.headers, r.timestamp) for r in decoded] == records


def test_a_value_that_is_not_bytes_is_found_before_the_first_batch() -> None:
    values: list[Any] = [bytes(SIZE_MAX)] * 3 + ["text"]
    with pytest.raises(TypeError, match="a record's value is bytes or None, not str"):
        next(Pieces(5, SIZE_MAX, RECORDS_BYTES_MAX, Codec.NONE).of_values(values))


def test_batches_are_nearly_full() -> None:
    pieces = list(Pieces(5, SIZE_MAX, RECORDS_BYTES_MAX, Codec.NONE).of_values([bytes(20)] * 1000))
    assert min(piece.size for piece in pieces[:-1]) > 0.8 * SIZE_MAX


def test_a_value_larger_than_a_batch_travels_alone_and_one_larger_than_a_message_not_at_all() -> None:
    pieces = Pieces(5, SIZE_MAX, RECORDS_BYTES_MAX, Codec.NONE)
    assert [p.record_count for p in pieces.of_values([b"a", bytes(10 * SIZE_MAX), b"b"])] == [1, 1, 1]
    with pytest.raises(MessageTooLarge) as refused:
        next(pieces.of_values([b"a", bytes(RECORDS_BYTES_MAX)]))
    assert refused.value.limit == RECORDS_BYTES_MAX
    assert str(RECORDS_BYTES_MAX) in str(refused.value)


def test_incompressible_records_are_sent_uncompressed() -> None:
    """A codec's frame may make a full batch larger than a broker takes."""
    value = bytes(range(20))
    plain = pack_values([value], 5)
    (piece,) = Pieces(5, SIZE_MAX, plain.size + VALUE_OVERHEAD_MAX, Codec.GZIP).of_values([value])
    assert piece == plain


@given(st.binary(min_size=1, max_size=300), codecs)
def test_records_for_one_batch_are_one_or_too_many(noise: bytes, codec: Codec) -> None:
    """Compressing noise makes it larger; that alone makes nothing too large."""
    records = [(b"k", noise, (("h", None),), 7), (None, None, (), 8)]
    plain = one_batch(records, bytes_max=RECORDS_BYTES_MAX, codec=Codec.NONE)
    packed = one_batch(records, bytes_max=plain.size, codec=codec)
    assert [(r.key, r.value, r.headers, r.timestamp) for r in decode(packed.seal())] == records
    with pytest.raises(MessageTooLarge):
        one_batch(records, bytes_max=packed.size - 1, codec=codec if packed.size < plain.size else Codec.NONE)
    with pytest.raises(InvalidRequest):
        one_batch([], bytes_max=RECORDS_BYTES_MAX, codec=codec)


@pytest.mark.parametrize(
    ("headers", "timestamp_ms", "error", "names"),
    [
        ([("h", "text")], 1, TypeError, "header 'h'"),
        ([(b"h", b"v")], 1, TypeError, "header's name"),
        (None, 1, TypeError, "headers are .* not None"),
        (iter([("h", b"v")]), 1, TypeError, "headers are .*iterator"),
        ({"h": b"v"}, 1, TypeError, "headers are .*'h'"),
        ([None], 1, TypeError, "headers are .* not None"),
        ([], None, InvalidRequest, "timestamp = None"),
        ([], False, InvalidRequest, "timestamp = False"),
        ([], 1.5, InvalidRequest, "timestamp = 1.5"),
        ([], 2**63, InvalidRequest, "timestamp = 9223372036854775808"),
    ],
)
def test_a_record_that_cannot_be_encoded_is_refused_before_it_is_in_a_batch(
    headers: Any, timestamp_ms: Any, error: type[Exception], names: str
) -> None:
    with pytest.raises(error, match=names):
        Pieces(5, SIZE_MAX, RECORDS_BYTES_MAX, Codec.NONE).of_records([(None, b"v", headers, timestamp_ms)])
    with pytest.raises(error, match=names):
        one_batch([(None, b"v", headers, timestamp_ms)], bytes_max=RECORDS_BYTES_MAX, codec=Codec.NONE)


def test_columns_of_another_length_than_the_values_are_refused() -> None:
    rows = rows_of([b"a", b"b"], None, [(), (("h", b"1"),)], None, now_ms=5)
    assert rows == [(None, b"a", (), 5), (None, b"b", (("h", b"1"),), 5)]
    for keys, of_headers, times in (([b"k"], None, None), (None, [()], None), (None, None, [1, 2, 3])):
        with pytest.raises(InvalidRequest, match="2 values were given with"):
            rows_of([b"a", b"b"], keys, of_headers, times, now_ms=5)
