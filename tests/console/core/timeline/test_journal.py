"""Records that are kept packed, and the ids of places."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.console.core.timeline.journal import CHUNK_RECORDS, Journal, Kept, Record
from strandline.console.core.timeline.places import (
    NO_REF,
    OFFSETS_END,
    PARTITIONS_END,
    Source,
    event_id,
    pack,
    parse_id,
    unpack,
)


def kept(offset: int) -> Kept:
    return Kept(Record(offset, 1_000 + offset, b"value of %d" % offset), 2_000 + offset)


@given(st.lists(st.integers(1, 3), max_size=700), st.integers(0, 3))
def test_every_record_is_there_until_its_chunk_is_dropped(gaps: list[int], drops: int) -> None:
    journal: Journal[str] = Journal()
    offsets = [1_000 + sum(gaps[: number + 1]) for number in range(len(gaps))]
    for offset in offsets:
        journal.append(kept(offset), ["row"])
    journal.prepend([kept(offset) for offset in range(900, 910)], ["older"])
    there = [*range(900, 910), *offsets]
    for _ in range(drops):
        gone = journal.drop_oldest()
        there = there[0 if gone is None else len(gone) :]
    assert journal.count == len(there)
    for offset in range(895, 1_010):
        wanted = (2_000 + offset, b"value of %d" % offset) if offset in there else None
        assert journal.get(offset) == wanted
    for offset in there[::50]:
        assert journal.get(offset) is not None


def test_what_is_kept_is_small() -> None:
    journal: Journal[str] = Journal()
    for offset in range(CHUNK_RECORDS):
        journal.append(Kept(Record(offset, 0, b'{"version":1,"command":"elect-leader"}' * 10), 0), [])
    gone = journal.drop_oldest()
    assert gone is not None and len(gone) == CHUNK_RECORDS and len(gone.data) < 2_000


@given(st.sampled_from(Source), st.integers(0, PARTITIONS_END - 1), st.integers(0, OFFSETS_END - 1))
def test_a_place_is_one_number_and_has_an_id(source: Source, partition: int, offset: int) -> None:
    ref = pack(source, partition, offset)
    assert 0 <= ref < 2**63 and unpack(ref) == (source, partition, offset)
    if source is not Source.SEEN or partition == 0:
        name = event_id(ref)
        assert name is not None and parse_id(name) == ref


@pytest.mark.parametrize("partition, offset", [(-1, 0), (0, -1), (PARTITIONS_END, 0), (0, OFFSETS_END)])
def test_a_place_that_no_topic_has_is_refused(partition: int, offset: int) -> None:
    with pytest.raises(ValueError, match="is no place"):
        pack(Source.STATE, partition, offset)


@given(st.text(max_size=40))
def test_garbage_is_no_id(text: str) -> None:
    try:
        ref = parse_id(text)
    except ValueError:
        return
    assert event_id(ref) is not None


def test_what_no_event_says_has_no_id() -> None:
    assert event_id(NO_REF) is None
