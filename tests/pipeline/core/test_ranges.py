"""Which offsets are read, in which pieces, and how much at a time."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.ids import TopicPartition
from strandline.pipeline.core.ranges import Bounds, OffsetRange, backlog, begin_in_log, limited, pieces


def one(partition: int, start: int, end: int) -> OffsetRange:
    return OffsetRange("a", partition, start, end, "id")


ranges = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 500)).map(lambda both: (both[0], both[0] + both[1])),
    max_size=6,
).map(lambda found: [one(number, *edges) for number, edges in enumerate(found)])


def offsets_of(found: list[OffsetRange]) -> list[tuple[int, int]]:
    return [(piece.partition, offset) for piece in found for offset in range(piece.start, piece.end)]


@given(ranges, st.integers(0, 40), st.none() | st.integers(1, 700))
def test_pieces_are_the_same_offsets_in_the_same_order(
    wanted: list[OffsetRange], at_least: int, records_max: int | None
) -> None:
    cut = pieces(wanted, at_least=at_least, records_max=records_max)
    assert offsets_of(cut) == offsets_of(wanted)
    assert all(piece.size > 0 for piece in cut)
    assert all(piece.size <= (records_max or piece.size) for piece in cut)
    assert len(cut) >= min(at_least, len(offsets_of(wanted)))


@given(ranges, st.integers(0, 40))
def test_no_more_pieces_are_made_than_are_asked_for(wanted: list[OffsetRange], at_least: int) -> None:
    whole = [piece for piece in wanted if piece.size]
    assert len(pieces(wanted, at_least=at_least, records_max=None)) <= max(at_least, len(whole))


def test_large_partitions_are_cut_more_often_than_small_ones() -> None:
    cut = pieces([one(0, 0, 10), one(1, 0, 900)], at_least=10, records_max=None)
    assert Counter(piece.partition for piece in cut) == {0: 1, 1: 9}
    assert {piece.size for piece in cut if piece.partition} == {100}


# --- how much at a time -----------------------------------------------------------------------

backlogs = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 8)),
    st.tuples(st.integers(0, 10**6), st.integers(-5, 10**5)),
    max_size=12,
)


@given(backlogs, st.integers(1, 10**5))
def test_a_limit_is_kept_to_the_offset_and_no_partition_starves(
    found: dict[TopicPartition, tuple[int, int]], most: int
) -> None:
    starts = {name: start for name, (start, _) in found.items()}
    ends = {name: start + size for name, (start, size) in found.items()}
    chosen = limited(starts, ends, most)
    assert chosen.keys() == ends.keys()
    waiting = [name for name in ends if ends[name] > starts[name]]
    assert backlog(starts, chosen) == min(most, backlog(starts, ends))
    assert all(starts[name] <= chosen[name] <= ends[name] for name in waiting)
    assert all(chosen[name] == ends[name] for name in ends if name not in waiting)
    if most >= len(waiting):
        assert all(chosen[name] > starts[name] for name in waiting)


@given(backlogs, st.integers(1, 10**5))
def test_shares_are_in_proportion_to_the_backlog(
    found: dict[TopicPartition, tuple[int, int]], most: int
) -> None:
    starts = {name: start for name, (start, _) in found.items()}
    ends = {name: start + size for name, (start, size) in found.items()}
    waiting = [name for name in ends if ends[name] > starts[name]]
    total = backlog(starts, ends)
    if not len(waiting) <= most < total:
        return
    chosen = limited(starts, ends, most)
    for name in waiting:
        fair = most * (ends[name] - starts[name]) / total
        assert abs(chosen[name] - starts[name] - fair) <= len(waiting)  # the one that each has first


@given(st.integers(1, 9), st.integers(1, 9))
def test_partitions_take_turns_when_there_is_less_than_one_offset_for_each(
    partitions: int, most: int
) -> None:
    """A partition with little in it must not wait until all others are empty."""
    ends = {TopicPartition("a", number): 1_000 for number in range(partitions)}
    starts = dict.fromkeys(ends, 0)
    rounds = -(-partitions // most)
    for _ in range(rounds):
        starts = limited(starts, ends, most)
    assert min(starts.values()) >= 1


def test_many_limited_batches_are_everything_once() -> None:
    ends = {TopicPartition("a", 0): 1, TopicPartition("a", 1): 997, TopicPartition("b", 0): 10_000}
    starts: dict[TopicPartition, int] = {}
    batches = 0
    while backlog(starts, ends):
        after = limited(starts, ends, 100)
        assert backlog(starts, after) == min(100, backlog(starts, ends))
        starts, batches = after, batches + 1
    assert starts == ends
    assert batches == 110


# --- what the log has no more -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("log_start", "begins", "lost"),
    [(0, 10, None), (10, 10, None), (15, 15, (10, 15)), (20, 20, (10, 20)), (99, 20, (10, 20))],
)
def test_a_range_begins_where_the_log_does_and_says_what_is_lost(
    log_start: int, begins: int, lost: tuple[int, int] | None
) -> None:
    found, loss = begin_in_log(one(3, 10, 20), Bounds(log_start, 100))
    assert (found.start, found.end) == (begins, 20)
    assert (None if loss is None else (loss.start, loss.end)) == lost


def test_a_loss_says_the_partition_the_offsets_and_why() -> None:
    _, loss = begin_in_log(one(3, 10, 20), Bounds(15, 100))
    assert str(loss) == (
        "a-3 has lost offsets 10 to 14: the log starts at offset 15, retention has deleted what was before"
    )


def test_nothing_is_lost_of_an_empty_range() -> None:
    assert begin_in_log(one(0, 5, 5), Bounds(9, 9)) == (one(0, 5, 5), None)
