"""The known part of a log, and the rows that count as written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.pipeline.core.identity import identity_of
from strandline.pipeline.core.repair import (
    WINDOW_OFFSETS,
    FoundBatch,
    Progress,
    digest,
    found_batches,
    key_digest,
    same_batch,
    windows_back,
)
from strandline.records import BatchHeader, Codec, RecordFields, encode_batch, keep_records, stamp

ME = identity_of("q", 0, 0)
FIELDS = st.tuples(
    st.none() | st.binary(max_size=3),
    st.none() | st.binary(max_size=3),
    st.lists(st.tuples(st.text(max_size=2), st.none() | st.binary(max_size=2)), max_size=2).map(tuple),
    st.none() | st.integers(0, 3),
)


def sealed(rows: list[RecordFields], sequence: int, *, base_offset: int = 0, epoch: int = 0) -> bytes:
    return encode_batch(
        rows, codec=Codec.ZSTD, producer_id=ME.producer_id, producer_epoch=epoch,
        base_sequence=sequence, base_offset=base_offset,
    )  # fmt: skip


def row(key: bytes, value: bytes) -> RecordFields:
    return (key, value, (), 1_000)


def found(
    rows: list[RecordFields], sequence: int, *, base_offset: int, kept: int | None = None
) -> FoundBatch:
    """A batch of these rows of which only the last `kept` are left."""
    left = rows if kept is None else rows[len(rows) - kept :]
    return FoundBatch(
        base_offset,
        base_offset + len(rows) - 1,
        sequence,
        sequence + len(rows),
        tuple(digest(k, v, h, None) for k, v, h, _ in left),
        tuple(key_digest(k) for k, _, _, _ in left),
    )


@given(FIELDS, FIELDS)
def test_two_records_have_one_digest_only_if_they_are_equal(
    one: tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int | None],
    other: tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int | None],
) -> None:
    assert (digest(*one) == digest(*other)) == (one == other)


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_windows_lead_from_the_end_to_the_start_and_leave_nothing_out(start: int, size: int) -> None:
    expected = start + size
    widths = []
    for first, end in windows_back(start, start + size):
        assert start <= first < end == expected
        widths.append(end - first)
        expected = first
    assert expected == start
    assert widths[:1] == [min(size, WINDOW_OFFSETS)][: len(widths)]
    assert widths[:-1] == sorted(widths[:-1])


def test_only_batches_of_the_identity_within_the_offsets_are_found() -> None:
    rows = [row(b"k", b"1"), row(b"k", b"2")]
    data = b"".join(
        [
            sealed(rows, 0, base_offset=10),
            sealed(rows, 2, base_offset=12),
            encode_batch(rows, base_offset=14),
            sealed(rows, 0, base_offset=16, epoch=1),
            sealed(rows, 4, base_offset=18),
            sealed(rows, 6, base_offset=20),
        ]
    )
    hits = list(found_batches(data, ME, first=12, end=20, timed=False))
    assert [(b.base_offset, b.last_offset, b.base_sequence, b.next_sequence) for b in hits] == [
        (12, 13, 2, 4),
        (18, 19, 4, 6),
    ]
    assert hits[0].records == tuple(digest(k, v, h, None) for k, v, h, _ in rows)


def test_the_rest_of_a_compacted_batch_is_found_under_all_its_sequence_numbers() -> None:
    data = sealed([row(b"a", b"1"), row(b"b", b"2"), row(b"a", b"3")], 5, base_offset=7)
    data = keep_records(data, BatchHeader.parse(data), [False, True, True], max_timestamp=1_000)
    (hit,) = found_batches(data, ME, first=0, end=10, timed=False)
    assert (hit.base_sequence, hit.next_sequence, len(hit.records)) == (5, 8, 2)


def test_a_batch_is_the_one_that_was_sent_if_all_is_equal_but_what_the_leader_wrote() -> None:
    """CORRECTNESS P2: the same sequence numbers, and even the same size, do not make it the same batch."""
    mine = sealed([row(b"a", b"1")], 3)
    header = BatchHeader.parse(mine)
    stored = stamp(header, base_offset=9, leader_epoch=4) + mine[16:]
    other = sealed([row(b"a", b"2")], 3, base_offset=9)
    assert same_batch(mine, stored + b"more", 9)
    assert not same_batch(mine, stored, 8)
    assert not same_batch(mine, stored[:-1], 9)
    assert not same_batch(mine, other, 9)
    assert not same_batch(mine, b"", 9)


def test_rows_claim_what_is_found_one_by_one_and_the_rest_stays_in_order() -> None:
    progress = Progress(timed=False, compacts=False)
    a, b, c = row(b"k", b"a"), row(b"k", b"b"), row(b"k", b"c")
    assert progress.found([found([b, a, b], 0, base_offset=4)], 9, forgotten=False)
    assert progress.missing([a, b, c, a]) == [c, a]
    assert (progress.next_sequence, progress.unmatched, progress.matched) == (3, 1, 2)
    assert progress.missing([b, b]) == [b]
    assert (progress.first_offset, progress.last_offset, progress.unmatched) == (4, 6, 0)


def test_a_row_written_by_this_attempt_matches_none_of_its_other_rows() -> None:
    progress = Progress(timed=False, compacts=False)
    a = row(b"k", b"a")
    progress.appended(2, 1)
    mine, others = found([a], 0, base_offset=2), found([a, a], 1, base_offset=3)
    assert progress.found([mine, others], 5, forgotten=False)
    assert progress.missing([a, a, a]) == [a]
    assert progress.next_sequence == 3


def test_in_a_compacted_topic_a_row_that_a_later_one_replaced_counts_as_written() -> None:
    """But only as many as are gone, and none whose key has nothing in the log."""
    k1, k2, k3, other = row(b"k", b"1"), row(b"k", b"2"), row(b"k", b"3"), row(b"o", b"1")
    progress = Progress(timed=False, compacts=True)
    assert progress.found([found([k1, k2], 0, base_offset=0, kept=1)], 2, forgotten=False)
    assert progress.missing([k1, k2, other, k3]) == [other, k3]
    assert progress.gone == 0
    whole = Progress(timed=False, compacts=True)
    assert whole.found([found([k2], 0, base_offset=0)], 1, forgotten=False)
    assert whole.missing([k1, k2]) == [k1]


def test_an_identity_that_the_broker_knows_without_batches_in_the_log_is_reported() -> None:
    progress = Progress(timed=False, compacts=False)
    assert not progress.found([], 5, forgotten=False)
    assert progress.found([], 5, forgotten=True)
