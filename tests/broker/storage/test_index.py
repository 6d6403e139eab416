"""The sparse index: from an offset, a position or a time to the last row at or before it."""

from __future__ import annotations

from bisect import bisect_right

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.broker.storage.segments.index import IndexFile, SparseIndex

steps = st.lists(st.tuples(st.integers(1, 50), st.integers(61, 5_000), st.integers(-5, 20)), max_size=50)


def build(rows: list[tuple[int, int, int]]) -> tuple[SparseIndex, list[tuple[int, int, int]]]:
    """An index of rows given by their steps, and the rows."""
    index, made = SparseIndex(), []
    offset = position = 0
    largest = -1
    for records, size, time in rows:
        index.add(offset, position, largest)
        made.append((offset, position, largest))
        offset, position, largest = offset + records, position + size, max(largest, largest + time)
    return index, made


@settings(deadline=None)
@given(steps, st.integers(0, 3_000), st.integers(0, 300_000), st.integers(-1, 1_000))
def test_a_search_gives_the_last_row_that_is_not_too_far(
    rows: list[tuple[int, int, int]], offset: int, position: int, time: int
) -> None:
    index, made = build(rows)
    by_offset = [row for row in made if row[0] <= offset] or [(0, 0, -1)]
    by_position = [row for row in made if row[1] <= position] or [(0, 0, -1)]
    by_time = [row for row in made if row[2] < time] or [(0, 0, -1)]
    assert index.at_offset(offset) == by_offset[-1][:2]
    assert index.at_position(position) == by_position[-1][:2]
    assert index.at_timestamp(time) == by_time[-1][:2]


@settings(deadline=None)
@given(steps, st.integers(0, 100_000))
def test_a_cut_index_is_the_one_of_the_shorter_log(rows: list[tuple[int, int, int]], position: int) -> None:
    index, made = build(rows)
    index.cut(position)
    kept = bisect_right([row[1] for row in made], position - 1)
    assert len(index) == kept
    assert index.columns() == build(rows[:kept])[0].columns()
    assert index.last_position == (made[kept - 1][1] if kept else -1)


@settings(deadline=None)
@given(steps, st.data())
def test_a_saved_index_is_read_back_or_refused(rows: list[tuple[int, int, int]], data: st.DataObject) -> None:
    """A damaged one is never believed: it is made again from the log."""
    index, _ = build(rows)
    saved = IndexFile(10_000, 77, 5, 6, index).to_bytes()
    read = IndexFile.from_bytes(saved)
    assert (read.log_size, read.next_offset, read.largest_timestamp, read.created_ms) == (10_000, 77, 5, 6)
    assert read.index.columns() == index.columns()
    damaged = bytearray(saved)
    damaged[data.draw(st.integers(0, len(saved) - 1))] ^= data.draw(st.integers(1, 255))
    for wrong in (bytes(damaged), saved[: data.draw(st.integers(0, len(saved) - 1))]):
        with pytest.raises(ValueError, match="index"):
            IndexFile.from_bytes(wrong)
