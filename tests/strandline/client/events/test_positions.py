"""Where a reader of an internal topic stands: each record once, in order, within bounds."""

from __future__ import annotations

import pytest

from strandline.client.events.positions import EventPositions
from strandline.errors import CorruptMessage
from strandline.ids import TopicPartition
from strandline.records import encode_values
from strandline.vocabulary.log_position import EpochEnd

ROOM = 1 << 20


def batch(first: int, count: int) -> bytes:
    return encode_values([str(first + i).encode() for i in range(count)], 0, base_offset=first)


def reading(*starts: int, ends: list[int] | None = None, buffer_bytes: int = ROOM) -> EventPositions:
    return EventPositions("t", starts, ends, buffer_bytes=buffer_bytes)


def taken(positions: EventPositions) -> list[int]:
    """The offsets of all that waits; each record says its own."""
    found = []
    while (records := positions.take()) is not None:
        for record in records:
            assert record.value == str(record.offset).encode()
            found.append(record.offset)
    return found


def test_a_record_that_two_leaders_return_is_taken_once() -> None:
    """In a failover the old leader and the new one may both be asked."""
    positions = reading(0)
    assert positions.arrived(positions[0], 0, batch(0, 3))
    assert not positions.arrived(positions[0], 0, batch(0, 5))
    assert positions.arrived(positions[0], 3, batch(0, 5))  # whole batches: it begins before what was asked
    assert taken(positions) == [0, 1, 2, 3, 4]


def test_records_before_the_offset_asked_for_are_left_out() -> None:
    positions = reading(4)
    assert positions.arrived(positions[0], 4, batch(0, 3) + batch(3, 3))
    assert taken(positions) == [4, 5]


def test_a_reading_that_ends_hands_out_nothing_behind_its_end() -> None:
    """Records that were committed since it began are left for the next reading, which continues exactly
    there."""
    positions = reading(0, 0, ends=[4, 0])
    assert not positions.ended
    assert positions.arrived(positions[0], 0, batch(0, 3) + batch(3, 3) + batch(6, 1))
    assert positions[0].complete and not positions.ended
    assert positions.wanted(lambda _: True) == []
    assert taken(positions) == [0, 1, 2, 3]
    assert positions.ended
    assert positions.next_offsets == (4, 0)
    assert not positions.arrived(positions[0], 4, batch(4, 1))


def test_a_topic_without_records_or_partitions_is_read_at_once() -> None:
    assert reading(ends=[]).ended
    assert reading(7, ends=[7]).ended
    assert not reading(7).ended
    assert not reading().ended


def test_next_offsets_are_behind_returned_records_and_not_behind_waiting_ones() -> None:
    """Otherwise a reader that continues there would miss records that this one fetched and never returned."""
    positions = reading(0, 10)
    positions.arrived(positions[0], 0, batch(0, 2) + batch(2, 2))
    positions.arrived(positions[1], 10, batch(10, 1))
    assert positions.next_offsets == (0, 10)
    positions.take()
    assert positions.next_offsets == (2, 10)
    taken(positions)
    assert positions.next_offsets == (4, 11)


def test_the_buffer_is_full_at_its_bound_of_bytes() -> None:
    records = batch(0, 10)
    positions = reading(0, buffer_bytes=len(records) + 50)
    assert positions.has_room
    positions.arrived(positions[0], 0, records)
    assert positions.has_room
    positions.arrived(positions[0], 10, batch(10, 10))
    assert not positions.has_room
    positions.take()
    assert positions.has_room


def test_damage_is_an_error_and_does_not_move_the_position() -> None:
    """CORRECTNESS E15: a reader checks the CRC, too."""
    positions = reading(0)
    damaged = bytearray(batch(0, 3))
    damaged[-1] ^= 1
    with pytest.raises(CorruptMessage):
        positions.arrived(positions[0], 0, bytes(damaged))
    assert positions.next_offsets == (0,)
    assert positions.arrived(positions[0], 0, batch(0, 3))


def test_a_following_reader_reads_later_partitions_from_their_start() -> None:
    positions = reading(5)
    positions.grow(3)
    assert [position.name for position in positions] == [TopicPartition("t", n) for n in range(3)]
    assert positions.next_offsets == (5, 0, 0)
    ending = reading(5, ends=[9])
    ending.grow(3)
    assert len(ending) == 1


def test_reading_continues_at_the_start_of_the_log_that_retention_moved() -> None:
    positions = reading(3)
    positions.skip_to(positions[0], 8)
    assert positions.next_offsets == (8,)
    assert not positions.arrived(positions[0], 3, batch(3, 5))
    assert positions.arrived(positions[0], 8, batch(8, 1))
    assert taken(positions) == [8]


def test_records_that_the_log_has_lost_are_not_handed_out() -> None:
    positions = reading(0, 0, ends=[9, 1])
    positions.arrived(positions[0], 0, batch(0, 3) + batch(3, 3))
    positions.arrived(positions[1], 0, batch(0, 1))
    positions.cut(positions[0], EpochEnd(4, 3), high_watermark=5)
    assert (positions[0].fetched, positions[0].end, positions[0].epoch) == (3, 5, 4)
    assert positions.next_offsets == (0, 0)
    assert taken(positions) == [0, 1, 2, 0]
    assert positions.arrived(positions[0], 3, batch(3, 2))
    assert taken(positions) == [3, 4]
    assert positions.ended
