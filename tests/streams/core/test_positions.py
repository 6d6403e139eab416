"""The position record: what is written is what is read, and what says nothing is refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import InvalidRecord
from strandline.ids import TopicPartition
from strandline.streams.core.changelog import UnreadableState
from strandline.streams.core.origins import Origins, origin_header
from strandline.streams.core.positions import Positions

NUMBERS = st.integers(0, 2**31 - 1)
OFFSETS = st.integers(0, 2**63 - 1)
PARTITIONS = st.builds(TopicPartition, st.text(max_size=20), NUMBERS)
ORIGINS = st.lists(
    st.builds(
        origin_header, st.builds(TopicPartition, st.text(min_size=1, max_size=20), NUMBERS), OFFSETS, NUMBERS
    ),
    max_size=5,
).map(Origins)
POSITIONS = st.builds(Positions, st.dictionaries(PARTITIONS, OFFSETS, max_size=5), ORIGINS)


@given(POSITIONS)
def test_positions_survive_encoding_and_decoding(positions: Positions) -> None:
    assert Positions.decode(positions.encode()) == positions


@given(POSITIONS)
def test_the_same_positions_have_the_same_bytes_in_any_order_of_arrival(positions: Positions) -> None:
    backwards = Positions(
        dict(reversed(positions.offsets.items())), Origins(reversed(positions.origins.headers()))
    )
    assert backwards.encode() == positions.encode()


def test_no_positions_are_a_record_too() -> None:
    assert Positions.decode(Positions().encode()) == Positions()


@given(st.binary(max_size=60))
def test_garbage_is_refused_by_a_typed_error(data: bytes) -> None:
    try:
        positions = Positions.decode(data)
    except UnreadableState as error:
        assert isinstance(error, InvalidRecord)
    else:
        assert Positions.decode(positions.encode()) == positions


@given(POSITIONS, st.data())
def test_a_record_that_was_cut_is_refused(positions: Positions, data: st.DataObject) -> None:
    whole = positions.encode()
    with pytest.raises(UnreadableState):
        Positions.decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(POSITIONS, st.data())
def test_a_record_of_which_a_byte_changed_is_refused_or_is_another_one(
    positions: Positions, data: st.DataObject
) -> None:
    changed = bytearray(positions.encode())
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(UnreadableState):
        assert Positions.decode(bytes(changed)) != positions


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "byte 0 of 0: 1 bytes wanted"),
        (b"\x01" + Positions().encode()[1:], "version 1, this is 0"),
        (Positions().encode() + b"!", "1 bytes too many"),
        (b"\x00\x7f\xff\xff\xff", "2147483647 elements in 0 bytes"),
        (Positions({TopicPartition("in", 0): -1}).encode(), "partition 0, offset -1"),
        (Positions({TopicPartition("in", 0): 1}).encode().replace(b"in", b"\xff\xff"), "not UTF-8"),
    ],
)
def test_a_record_that_is_refused_says_where_and_why(data: bytes, why: str) -> None:
    with pytest.raises(UnreadableState, match=why):
        Positions.decode(data)
