"""The position record: what is written is what is read, and what says nothing is refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import InvalidRecord
from strandline.ids import NO_EPOCH, NO_TOPIC_ID, TopicId, TopicPartition
from strandline.streams.core.changelog import LOGS_KEY, POSITION_KEY, UnreadableState
from strandline.streams.core.origins import Origins, origin_header
from strandline.streams.core.positions import Positions
from strandline.vocabulary.log_position import LogPosition

NUMBERS = st.integers(0, 2**31 - 1)
OFFSETS = st.integers(0, 2**63 - 1)
PARTITIONS = st.builds(TopicPartition, st.text(max_size=20), NUMBERS)
ORIGINS = st.lists(
    st.builds(
        origin_header, st.builds(TopicPartition, st.text(min_size=1, max_size=20), NUMBERS), OFFSETS, NUMBERS
    ),
    max_size=5,
).map(Origins)
LOG_POSITIONS = st.builds(
    LogPosition, OFFSETS, st.sampled_from([NO_TOPIC_ID, TopicId("a" * 32)]), st.integers(NO_EPOCH, 2**31 - 1)
)
POSITIONS = st.builds(Positions, st.dictionaries(PARTITIONS, LOG_POSITIONS, max_size=5), ORIGINS)
IN = TopicPartition("in", 0)


def read(record: bytes | None, logs: bytes | None = None) -> Positions:
    return Positions.read({POSITION_KEY: record, LOGS_KEY: logs}.get)


def record(positions: Positions) -> bytes:
    return positions.rows()[POSITION_KEY]


@given(POSITIONS)
def test_positions_survive_encoding_and_decoding(positions: Positions) -> None:
    assert Positions.read(positions.rows().get) == positions


@given(POSITIONS)
def test_the_same_positions_have_the_same_bytes_in_any_order_of_arrival(positions: Positions) -> None:
    backwards = Positions(
        dict(reversed(positions.inputs.items())), Origins(reversed(positions.origins.headers()))
    )
    assert backwards.rows() == positions.rows()


@given(POSITIONS)
def test_the_position_record_alone_is_that_of_a_version_that_knows_no_logs(positions: Positions) -> None:
    """Its positions are of an unknown log, which is no foreign one."""
    alone = read(record(positions))
    assert alone.inputs == {name: LogPosition(at.offset) for name, at in positions.inputs.items()}
    assert alone.origins == positions.origins


def test_what_the_version_before_wrote_is_read_and_what_it_reads_is_written() -> None:
    """A rolling upgrade works in both directions."""
    written = bytes.fromhex("00 00000001 0002 696e 00000003 0000000000000011 00000000")
    name = TopicPartition("in", 3)
    assert read(written) == Positions({name: LogPosition(17)})
    assert record(Positions({name: LogPosition(17, TopicId("a" * 32), 5)})) == written


def test_a_log_counts_for_the_position_that_it_was_written_with() -> None:
    """A member of an earlier version has read on since: nothing is known of the log that it read."""
    first = Positions({IN: LogPosition(17, TopicId("a" * 32), 5)})
    later = record(Positions({IN: LogPosition(18)}))
    assert read(later, first.rows()[LOGS_KEY]) == Positions({IN: LogPosition(18)})


def test_no_positions_are_a_record_too() -> None:
    assert Positions.read(Positions().rows().get) == Positions() == read(None, b"garbage")


@given(st.binary(max_size=60))
def test_garbage_is_refused_by_a_typed_error(data: bytes) -> None:
    for given_ in (read, lambda data: read(record(Positions()), data)):
        try:
            positions = given_(data)
        except UnreadableState as error:
            assert isinstance(error, InvalidRecord)
        else:
            assert Positions.read(positions.rows().get) == positions


@given(POSITIONS, st.sampled_from([POSITION_KEY, LOGS_KEY]), st.data())
def test_a_record_that_was_cut_is_refused(positions: Positions, key: bytes, data: st.DataObject) -> None:
    rows = positions.rows()
    rows[key] = rows[key][: data.draw(st.integers(0, len(rows[key]) - 1))]
    with pytest.raises(UnreadableState):
        Positions.read(rows.get)


@given(POSITIONS, st.data())
def test_a_record_of_which_a_byte_changed_is_refused_or_is_another_one(
    positions: Positions, data: st.DataObject
) -> None:
    changed = bytearray(record(positions))
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(UnreadableState):
        assert read(bytes(changed)) != read(record(positions))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "byte 0 of 0: 1 bytes wanted"),
        (b"\x01" + record(Positions())[1:], "version 1, this is 0"),
        (record(Positions()) + b"!", "1 bytes too many"),
        (b"\x00\x7f\xff\xff\xff", "2147483647 elements in 0 bytes"),
        (record(Positions({IN: LogPosition(-1)})), "partition 0, offset -1"),
        (record(Positions({IN: LogPosition(1)})).replace(b"in", b"\xff\xff"), "not UTF-8"),
    ],
)
def test_a_record_that_is_refused_says_where_and_why(data: bytes, why: str) -> None:
    with pytest.raises(UnreadableState, match=why):
        read(data)
