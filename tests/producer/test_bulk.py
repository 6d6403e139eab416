"""Many values go into few batches, none too large, none out of order (DESIGN §11)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.config.limits import RECORDS_BYTES_MAX
from strandline.errors import InvalidRequest, MessageTooLarge
from strandline.producer.bulk import Pieces, one_batch
from strandline.producer.core.batch import VALUE_OVERHEAD_MAX
from strandline.records import Codec, decode, pack_values

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


@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=30), st.none() | st.binary(max_size=300)), max_size=99)
)
def test_keyed_records_come_out_as_they_went_in(records: list[tuple[bytes | None, bytes | None]]) -> None:
    pieces = list(Pieces(5, SIZE_MAX, RECORDS_BYTES_MAX, Codec.NONE).of_records(records))
    assert all(piece.size <= SIZE_MAX for piece in pieces)
    assert [(r.key, r.value) for piece in pieces for r in decode(piece.seal())] == records


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
        ([], 1.5, InvalidRequest, "timestamp = 1.5"),
        ([], 2**63, InvalidRequest, "timestamp = 9223372036854775808"),
    ],
)
def test_a_record_that_cannot_be_encoded_is_refused_before_it_is_in_a_batch(
    headers: Any, timestamp_ms: Any, error: type[Exception], names: str
) -> None:
    with pytest.raises(error, match=names):
        one_batch([(None, b"v", headers, timestamp_ms)], bytes_max=RECORDS_BYTES_MAX, codec=Codec.NONE)
