"""The seen origins of a repartition topic, however often a record is written (CORRECTNESS S9)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.ids import TopicPartition
from strandline.streams.core.changelog import UnreadableState
from strandline.streams.core.origins import Origin, Origins, origin_header, parse_origin

NUMBERS = st.integers(0, 2**31 - 1)
SOURCES = st.builds(TopicPartition, st.text(min_size=1, max_size=20), NUMBERS)
IN_0 = TopicPartition("in", 0)
IN_1 = TopicPartition("in", 1)


@given(SOURCES, st.integers(0, 2**63 - 1), NUMBERS)
def test_a_header_says_where_its_record_comes_from(source: TopicPartition, offset: int, number: int) -> None:
    assert parse_origin(origin_header(source, offset, number)) == Origin(source, offset, number)


@given(st.binary(max_size=40))
def test_garbage_is_refused_or_is_a_header_and_is_never_noted_when_refused(data: bytes) -> None:
    origins = Origins()
    try:
        origin = parse_origin(data)
    except UnreadableState:
        with pytest.raises(UnreadableState):
            origins.seen(data)
        assert len(origins) == 0
    else:
        assert origin_header(*origin) == data
        assert not origins.seen(data)


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (b"", "0 bytes"),
        (origin_header(IN_0, 1, 0)[:17], "17 bytes, at least 18"),
        (b"\x01" + origin_header(IN_0, 1, 0)[1:], "version 1, this is 0"),
        (origin_header(IN_0, -1, 0), "offset -1"),
        (origin_header(IN_0, 1, -2), "output -2"),
        (origin_header(TopicPartition("in", -1), 1, 0), "partition -1"),
        (origin_header(IN_0, 1, 0)[:-2] + b"\xff\xff", "not UTF-8"),
    ],
)
def test_a_header_that_is_refused_says_why(header: bytes, why: str) -> None:
    with pytest.raises(UnreadableState, match=why):
        parse_origin(header)


def test_an_offset_that_cannot_be_does_not_hide_what_follows() -> None:
    origins = Origins([origin_header(IN_0, 5, 0)])
    with pytest.raises(UnreadableState):
        origins.seen(origin_header(IN_0, -1, 0))
    assert not origins.seen(origin_header(IN_0, 6, 0))


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=20),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=5),
)
def test_each_output_counts_once_wherever_successors_begin_again(
    inputs: list[tuple[int, int]], lives: list[tuple[int, int]]
) -> None:
    """An input is a partition and the number of its outputs. A life continues from a commit, no later than
    what was written before it, and ends anywhere; the last one comes to the end."""
    outputs = [
        (TopicPartition("in", partition), offset, number)
        for offset, (partition, count) in enumerate(inputs)
        for number in range(count)
    ]
    written: list[tuple[TopicPartition, int, int]] = []
    reached = 0
    for begin, end in [*lives, (0, len(outputs))]:
        begin = min(begin, reached)
        written += outputs[begin:end]
        reached = max(reached, min(end, len(outputs)))
    origins = Origins()
    assert [output for output in written if not origins.seen(origin_header(*output))] == outputs


def test_origin_partitions_do_not_hide_each_other() -> None:
    origins = Origins()
    assert not origins.seen(origin_header(IN_0, 100, 0))
    assert not origins.seen(origin_header(IN_1, 1, 0))
    assert not origins.seen(origin_header(TopicPartition("in2", 0), 1, 0))
    assert origins.seen(origin_header(IN_0, 99, 7))
    assert origins.seen(origin_header(IN_0, 100, 0))
    assert not origins.seen(origin_header(IN_0, 100, 1))


@given(st.lists(st.tuples(SOURCES, NUMBERS, NUMBERS), max_size=8))
def test_seen_origins_are_read_back_from_their_headers(
    origins: list[tuple[TopicPartition, int, int]],
) -> None:
    known = Origins(origin_header(*origin) for origin in origins)
    again = Origins(known.headers())
    assert again == known
    assert again.headers() == known.headers()
    assert all(again.seen(origin_header(*origin)) for origin in origins)
