"""Fetched bytes become batches from a position on."""

from __future__ import annotations

import pytest

from strandline.client.reading.batches import batches_of
from strandline.ids import TopicPartition
from strandline.records import STAMP_BYTES, BatchHeader, encode_values, pack, stamp
from strandline.records.control import WrittenMarker, encode_marker

NAME = TopicPartition("orders", 0)


@pytest.mark.parametrize("position", range(3, 9))
def test_a_fetch_within_a_batch_delivers_nothing_below_its_position(position: int) -> None:
    """CORRECTNESS H9: a broker returns the whole batch. Its first records may be deleted: the log starts at
    any offset that a client names."""
    data = b"".join(
        encode_values([b"%d" % offset for offset in range(base, base + 3)], 0, base_offset=base)
        for base in (3, 6)
    )
    batches, damaged = batches_of(NAME, position, data)
    assert damaged is None
    assert [record.offset for batch in batches for record in batch.records()] == list(range(position, 9))


def transactional(base_offset: int, producer: int, *values: bytes) -> bytes:
    packed = pack([(None, value, (), 0) for value in values])
    return packed.seal(
        producer_id=producer, producer_epoch=0, base_sequence=0, base_offset=base_offset, transactional=True
    )


def ended(offset: int, producer: int, *, commit: bool) -> bytes:
    written = WrittenMarker(commit, 0)
    marker = encode_marker(written, producer_id=producer, producer_epoch=0, timestamp_ms=0)
    return stamp(BatchHeader.parse(marker), base_offset=offset, leader_epoch=0) + marker[STAMP_BYTES:]


ABORTED_1 = transactional(0, 1, b"0", b"1") + ended(2, 1, commit=False)
COMMITTED_2 = transactional(3, 2, b"3") + ended(4, 2, commit=True)


@pytest.mark.parametrize(
    ("data", "aborted", "expected", "goes_on_at"),
    [
        (ABORTED_1, [(1, 0)], [], 3),
        (ABORTED_1, [], [0, 1], 3),
        (ABORTED_1 + COMMITTED_2, [(1, 0)], [3], 5),
        (COMMITTED_2 + transactional(5, 1, b"5"), [(1, 5)], [3], 6),
        (COMMITTED_2 + transactional(5, 1, b"5"), [], [3, 5], 6),
    ],
)
def test_a_reader_goes_on_behind_what_it_does_not_get(
    data: bytes, aborted: list[tuple[int, int]], expected: list[int], goes_on_at: int
) -> None:
    """KIP-98: markers and aborted records have offsets. A reader that stayed before them would never be at
    the end of the log."""
    batches, damaged = batches_of(NAME, 0, data, aborted)
    assert damaged is None
    assert [record.offset for batch in batches for record in batch.records()] == expected
    assert batches[-1].next_offset == goes_on_at


def test_what_is_left_out_below_the_position_leaves_no_empty_batch() -> None:
    batches, _ = batches_of(NAME, 3, ABORTED_1 + COMMITTED_2, [(1, 0)])
    assert [(batch.base_offset, batch.record_count) for batch in batches] == [(3, 1), (5, 0)]
