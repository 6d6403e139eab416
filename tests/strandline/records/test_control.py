"""Markers as bytes, and the batches that a reader of committed records gets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import CorruptMessage, InvalidRecord
from strandline.records import BatchHeader, decode, pack, validate
from strandline.records.control import WrittenMarker, decode_marker, encode_marker
from strandline.records.header import CONTROL, TRANSACTIONAL
from strandline.records.isolation import of_committed


def marker(*, commit: bool, producer: int = 7, epoch: int = 3) -> bytes:
    written = WrittenMarker(commit, 12)
    return encode_marker(written, producer_id=producer, producer_epoch=epoch, timestamp_ms=1_000)


def data(value: bytes, producer: int, *, transactional: bool = True, sequence: int = 0) -> bytes:
    packed = pack([(None, value, (), 1_000)])
    packed = replace(packed, attributes=packed.attributes | (TRANSACTIONAL if transactional else 0))
    return packed.seal(producer_id=producer, producer_epoch=0, base_sequence=sequence)


def placed(*batches: bytes) -> bytes:
    """The batches at offsets 0, 1, 2, …"""
    return b"".join(at.to_bytes(8, "big") + batch[8:] for at, batch in enumerate(batches))


@given(
    st.booleans(), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1),
    st.integers(0, 2**60),
)  # fmt: skip
def test_a_marker_is_read_as_it_was_written(
    commit: bool, coordinator: int, producer: int, epoch: int, timestamp: int
) -> None:
    written = WrittenMarker(commit, coordinator)
    batch = encode_marker(written, producer_id=producer, producer_epoch=epoch, timestamp_ms=timestamp)
    (header,) = validate(batch)
    assert (header.is_control, header.is_transactional, header.record_count) == (True, True, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (producer, epoch, -1)
    assert decode_marker(batch, header) == written


def test_a_reader_gets_no_record_of_a_marker() -> None:
    assert decode(marker(commit=True)) == []


def test_a_control_batch_of_another_kind_is_no_marker() -> None:
    leader_change = replace(pack([(b"\0\0\0\2", b"\0\0", (), 0)]), attributes=CONTROL).seal()
    assert decode_marker(leader_change, BatchHeader.parse(leader_change)) is None


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0"])
def test_a_marker_without_a_coordinators_epoch_is_damaged(value: bytes | None) -> None:
    batch = replace(pack([(b"\0\0\0\1", value, (), 0)]), attributes=CONTROL | TRANSACTIONAL)
    sealed = batch.seal(producer_id=1, producer_epoch=0)
    with pytest.raises(CorruptMessage, match="marker at offset 0"):
        decode_marker(sealed, BatchHeader.parse(sealed))


def test_only_a_batch_in_a_transaction_may_lack_a_sequence() -> None:
    validate(data(b"offsets of a group", 1, sequence=-1))
    with pytest.raises(InvalidRecord, match="base sequence -1"):
        validate(data(b"plain", 1, transactional=False, sequence=-1))


def test_a_reader_leaves_out_what_was_aborted_and_nothing_else() -> None:
    records = placed(
        data(b"0 aborted", 1), data(b"1 of another", 2), data(b"2 plain", 1, transactional=False),
        marker(commit=False, producer=1), data(b"4 committed", 1), marker(commit=True, producer=1),
        data(b"6 aborted", 2), marker(commit=False, producer=2),
    )  # fmt: skip
    assert [each.base_offset for each in of_committed(records, [(1, 0), (2, 6)])] == [1, 2, 4]
    assert [each.base_offset for each in of_committed(records, [])] == [0, 1, 2, 4, 6]


def test_an_abort_that_began_before_the_records_is_known_from_the_list() -> None:
    records = placed(data(b"0", 1), marker(commit=False, producer=1), data(b"2", 1))
    assert [each.base_offset for each in of_committed(records, [(1, -5)])] == [2]
