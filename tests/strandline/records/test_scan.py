"""Looking at records without making any sees what decoding them makes."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import CorruptMessage, InvalidRecord
from strandline.records import (
    BatchHeader,
    Codec,
    RecordFields,
    decode_batch,
    decode_in_parts,
    encode_batch,
    encode_values,
)
from strandline.records.encode import _OFFSET_DELTAS, REMEMBERED_MAX, gaps_between, offset_deltas
from strandline.records.header import HEADER_BYTES, assemble
from strandline.records.scan import first_without_key, glance
from strandline.records.varint import encode_varint
from tests.strandline.records.hostile_batches import timed

maybe = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=5), maybe), max_size=3)
records = st.lists(st.tuples(maybe, maybe, headers, st.integers(-(2**40), 2**40)), min_size=1, max_size=30)
codecs = st.sampled_from(list(Codec))


@given(records, codecs)
def test_a_scan_sees_the_same_records_as_decoding(fields: list[RecordFields], codec: Codec) -> None:
    data = encode_batch(fields, codec=codec, base_offset=1_000)
    header = BatchHeader.parse(data)
    decoded = decode_batch(data, header)
    assert list(glance(data, header)) == [(r.offset, r.timestamp, r.key is not None) for r in decoded]
    unkeyed = [index for index, record in enumerate(decoded) if record.key is None]
    assert first_without_key(data, header) == (unkeyed[0] if unkeyed else None)


@given(records, codecs, st.integers(1, 5))
def test_decoding_in_parts_gives_the_same_records(
    fields: list[RecordFields], codec: Codec, size: int
) -> None:
    data = encode_batch(fields, codec=codec, base_offset=1_000)
    header = BatchHeader.parse(data)
    parts = list(decode_in_parts(data, header, part=size))
    assert all(len(part) == size for part in parts[:-1])
    bare = [record._replace(headers=()) for record in decode_batch(data, header)]
    assert [record for part in parts for record in part] == bare


@given(records, st.integers(1, 5), st.data())
def test_decoding_in_parts_finds_the_same_damage(
    fields: list[RecordFields], size: int, data: st.DataObject
) -> None:
    whole = encode_batch(fields)
    body = bytearray(whole[HEADER_BYTES:])
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] = data.draw(st.integers(0, 255))
    spoilt = assemble(BatchHeader.parse(whole), bytes(body))
    header = BatchHeader.parse(spoilt)
    try:
        wanted = [record._replace(headers=()) for record in decode_batch(spoilt, header)]
    except CorruptMessage:
        with pytest.raises(CorruptMessage):
            list(decode_in_parts(spoilt, header, part=size))
    else:
        assert [r for part in decode_in_parts(spoilt, header, part=size) for r in part] == wanted


@pytest.mark.parametrize(("base", "delta"), [(2**63 - 1, 1), (-(2**63), -1), (2**62, 2**62)])
def test_a_timestamp_that_does_not_fit_64_bits_is_corrupt(base: int, delta: int) -> None:
    """CORRECTNESS X14: no answer has room for it."""
    data = timed(base, (delta, b"v"))
    header = BatchHeader.parse(data)
    with pytest.raises(CorruptMessage, match=f"a timestamp of {base + delta} ms"):
        list(glance(data, header))
    with pytest.raises(CorruptMessage, match=f"a timestamp of {base + delta} ms"):
        decode_batch(data, header)


@pytest.mark.parametrize(("base", "delta"), [(2**63 - 2, 1), (1 - 2**63, -1), (0, 2**63 - 1)])
def test_the_first_and_the_last_moment_are_read(base: int, delta: int) -> None:
    data = timed(base, (delta, b"v"))
    header = BatchHeader.parse(data)
    assert list(glance(data, header)) == [(0, base + delta, True)]
    assert [record.timestamp for record in decode_batch(data, header)] == [base + delta]


@given(records, st.data())
def test_damage_is_either_found_or_skipped(fields: list[RecordFields], data: st.DataObject) -> None:
    """Any damage in a batch under a correct CRC is a CorruptMessage for a broker."""
    whole = encode_batch(fields)
    body = bytearray(whole[HEADER_BYTES:])
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] = data.draw(st.integers(0, 255))
    spoilt = assemble(BatchHeader.parse(whole), bytes(body))
    header = BatchHeader.parse(spoilt)
    for look in (lambda: list(glance(spoilt, header)), lambda: first_without_key(spoilt, header)):
        with suppress(CorruptMessage, InvalidRecord):
            look()


def test_offsets_that_do_not_count_from_the_first_one_are_refused() -> None:
    """As compaction could not keep them."""
    record = b"\x00\x00" + encode_varint(1) + encode_varint(1) + b"k" + encode_varint(-1) + b"\x00"
    body = encode_varint(len(record)) + record
    data = assemble(BatchHeader.parse(encode_values([b""], 0)), body)
    with pytest.raises(InvalidRecord, match="record 0 of the batch has offset delta 1"):
        first_without_key(data, BatchHeader.parse(data))


def test_the_memory_of_the_largest_batch_is_bounded() -> None:
    """One batch that claimed nine million records took 0.9 GB forever."""
    count = REMEMBERED_MAX + 10
    assert list(offset_deltas(count)) == [encode_varint(index) for index in range(count)]
    assert len(_OFFSET_DELTAS) == REMEMBERED_MAX
    values = [b"v"] * count
    data = encode_values(values, 0)
    assert [record.value for record in decode_batch(data, BatchHeader.parse(data))] == values
    assert len(gaps_between(1)._gaps) == REMEMBERED_MAX
