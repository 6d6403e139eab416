"""A broker's checks of a batch, and the only bytes that it writes (CORRECTNESS E15)."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strandline.errors import (
    CorruptMessage,
    InvalidRecord,
    MessageTooLarge,
    StrandlineError,
    UnsupportedCompression,
)
from strandline.records import (
    HEADER_BYTES,
    STAMP_BYTES,
    BatchHeader,
    PackedRecords,
    decode,
    encode_batch,
    encode_values,
    iterate,
    split,
    stamp,
    validate,
)
from strandline.records.header import crc_of

BATCH = encode_values([b"one", b"two", b"three"], 1_000, base_offset=40, leader_epoch=6)
TWO = BATCH + encode_values([b"four"], 2_000, base_offset=43, leader_epoch=7)


def test_a_header_says_where_a_batch_begins_and_ends() -> None:
    first, second = split(TWO)
    assert (first.position, first.size, first.end) == (0, len(BATCH), len(BATCH))
    assert (first.base_offset, first.last_offset, first.next_offset) == (40, 42, 43)
    assert (second.position, second.base_offset, second.leader_epoch) == (len(BATCH), 43, 7)
    assert (first.is_control, first.is_transactional, first.is_log_append_time) == (False, False, False)
    assert [header.next_offset for header in validate(memoryview(TWO))] == [43, 44]


def test_stamping_touches_sixteen_bytes_and_no_checksum() -> None:
    """Base offset and leader epoch are not under the CRC, so an append copies nothing."""
    header = split(BATCH)[0]
    stamped = stamp(header, base_offset=1 << 40, leader_epoch=99) + BATCH[STAMP_BYTES:]
    (again,) = validate(stamped)
    assert (again.base_offset, again.leader_epoch, again.crc) == (1 << 40, 99, header.crc)
    assert [r.value for r in decode(stamped)] == [b"one", b"two", b"three"]


@pytest.mark.parametrize("cut", [0, 1, 11, 12, 16, 60, 61, len(BATCH) - 1])
def test_a_truncated_batch_is_corrupt(cut: int) -> None:
    """CORRECTNESS E15."""
    with pytest.raises(CorruptMessage):
        validate(BATCH[:cut])
    with pytest.raises(CorruptMessage):
        validate(TWO[: len(BATCH) + max(cut, 1) % (len(TWO) - len(BATCH))])


def test_batches_before_a_damaged_one_are_still_iterated() -> None:
    seen = []
    with pytest.raises(CorruptMessage, match=f"byte {len(BATCH)} is truncated"):
        for header in iterate(TWO[:-1]):
            seen.append(header.base_offset)
    assert seen == [40]


def test_every_single_bit_under_the_checksum_counts() -> None:
    """CORRECTNESS E15: one flipped bit anywhere behind the stamp is found."""
    for position in range(STAMP_BYTES, len(BATCH)):
        damaged = bytearray(BATCH)
        damaged[position] ^= 1 << position % 8
        with pytest.raises((CorruptMessage, InvalidRecord)):
            validate(bytes(damaged))


def test_an_old_magic_is_named() -> None:
    with pytest.raises(CorruptMessage, match="magic 1, wanted 2"):
        validate(BATCH[:16] + b"\x01" + BATCH[17:])


@pytest.mark.parametrize("length", [-1, 0, HEADER_BYTES - 13, 2**31 - 1, -(2**31)])
def test_a_length_that_cannot_be_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptMessage):
        validate(BATCH[:8] + length.to_bytes(4, "big", signed=True) + BATCH[12:])


def test_an_oversized_batch_is_refused_with_the_limit() -> None:
    """USERS: an error names the limit that was met."""
    validate(BATCH, bytes_max=len(BATCH))
    with pytest.raises(MessageTooLarge, match=f"{len(BATCH)} bytes") as caught:
        validate(BATCH, bytes_max=len(BATCH) - 1)
    assert caught.value.limit == len(BATCH) - 1


@pytest.mark.parametrize("count", [-1, 4])
def test_a_count_that_its_offsets_deny_is_invalid(count: int) -> None:
    """Under a right CRC: an overlap of offsets that its sender asks for. Fewer is what compaction leaves."""
    body = encode_values([b"x"] * 3, 0)[HEADER_BYTES:]
    data = bytearray(PackedRecords(body, 0, 3, 0, 0).seal())
    data[57:61] = count.to_bytes(4, "big", signed=True)
    with pytest.raises(InvalidRecord, match=f"claims {count} records"):
        validate(_with_crc(data))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    with pytest.raises(UnsupportedCompression, match=f"codec {codec}"):
        validate(PackedRecords(b"x", codec, 1, 0, 0).seal())


@pytest.mark.parametrize(("epoch", "sequence"), [(-1, 0), (0, -1), (-1, -1)])
def test_a_producer_has_epoch_and_sequence(epoch: int, sequence: int) -> None:
    with pytest.raises(InvalidRecord, match="producer 5"):
        validate(
            encode_batch([(None, b"", (), 0)], producer_id=5, producer_epoch=epoch, base_sequence=sequence)
        )


def test_nothing_is_not_a_batch() -> None:
    assert split(b"") == []
    with pytest.raises(CorruptMessage, match="empty"):
        validate(b"")


def _with_crc(data: bytearray) -> bytes:
    data[17:21] = crc_of(data, BatchHeader.parse(data)).to_bytes(4, "big")
    return bytes(data)


@settings(deadline=None)
@given(st.data())
def test_mutations_never_raise_anything_untyped(data: st.DataObject) -> None:
    """For any bytes on the wire, the answer is an error with a code."""
    mutated = bytearray(TWO)
    for _ in range(data.draw(st.integers(1, 6))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(mutated[: data.draw(st.integers(0, len(mutated)))])
    for take in (validate, decode, split):
        try:
            take(cut)
        except StrandlineError as error:
            assert error.message


@settings(deadline=None)
@given(st.binary(max_size=200))
@example(bytes(61))
@example(b"\xff" * 61)
def test_garbage_never_raises_anything_untyped(garbage: bytes) -> None:
    for take in (validate, decode, split):
        try:
            take(garbage)
        except StrandlineError as error:
            assert error.message
