"""Idempotence: a retry is never a second write, a gap never a reordering (KIP-98, KIP-360)."""

from __future__ import annotations

import struct

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.broker.core.replication.producer_state import (
    ACCEPT,
    SEQUENCES,
    Duplicate,
    ProducerState,
)
from strandline.config.limits import PRODUCER_BATCHES_REMEMBERED
from strandline.errors import (
    DuplicateSequence,
    InvalidProducerEpoch,
    OutOfOrderSequence,
    StrandlineError,
    UnknownProducerId,
)
from strandline.records import BatchHeader, encode_values
from strandline.security.principal import Principal

HOUR_MS = 3_600_000


def batch(sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0) -> BatchHeader:
    data = encode_values([b""] * count, 0, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    return BatchHeader.parse(data)


def state(producers_max: int = 100) -> ProducerState:
    return ProducerState(producers_max=producers_max, expiry_ms=HOUR_MS)


def write(producers: ProducerState, header: BatchHeader, offset: int, now_ms: int = 0) -> None:
    assert producers.check(header, now_ms) == ACCEPT
    producers.record(header, offset, now_ms)


def test_consecutive_batches_are_accepted_and_a_retry_returns_its_offsets() -> None:
    producers = state()
    write(producers, batch(0, 3), 10)
    write(producers, batch(3, 2), 20)
    assert producers.check(batch(0, 3), 0) == Duplicate(10, 12)
    assert producers.check(batch(3, 2), 0) == Duplicate(20, 21)
    assert producers.check(batch(5), 0) == ACCEPT


def other(sequence: int, count: int) -> BatchHeader:
    """As `batch`, with other records."""
    data = encode_values([b"x"] * count, 0, producer_id=7, producer_epoch=0, base_sequence=sequence)
    return BatchHeader.parse(data)


def test_another_batch_under_sequences_that_are_taken_is_no_duplicate() -> None:
    """To acknowledge it as one would lose its records without a word."""
    producers = state()
    write(producers, batch(0, 3), 10)
    with pytest.raises(OutOfOrderSequence, match=r"sequences 0\.\.2 of producer 7 belong to another batch"):
        producers.check(other(0, 3), 0)
    restored = state()
    restored.restore(producers.to_bytes())
    with pytest.raises(OutOfOrderSequence, match="at offset 10"):
        restored.check(other(0, 3), 0)
    assert restored.check(batch(0, 3), 0) == Duplicate(10, 12)


@pytest.mark.parametrize("left", [0, 2], ids=["emptied", "some records left"])
def test_a_batch_that_compaction_rewrote_is_known_by_its_sequences_alone(left: int) -> None:
    """Its CRC is not the one that its producer sent."""
    producers = state()
    producers.record(batch(0, 3)._replace(record_count=left, crc=1), 10, 0)
    assert producers.check(batch(0, 3), 0) == Duplicate(10, 12)


def test_a_snapshot_of_the_first_layout_is_read() -> None:
    """It has no CRCs, so its batches are known by their sequences alone."""
    body = struct.pack(">8sIqhqBiiq", b"STPS0001", 1, 7, 0, 5, 1, 0, 2, 10)
    producers = state()
    producers.restore(body + struct.pack(">I", google_crc32c.value(body)))
    assert producers.check(other(0, 3), 0) == Duplicate(10, 12)
    assert producers.check(batch(3), 0) == ACCEPT


def test_batches_without_a_producer_are_not_looked_at() -> None:
    producers = state()
    header = batch(0)._replace(producer_id=-1, producer_epoch=-1, base_sequence=-1)
    assert producers.check(header, 0) == ACCEPT
    producers.record(header, 0, 0)
    assert len(producers) == 0


def test_a_gap_is_refused() -> None:
    """Accepting it would let the missing batch arrive behind it."""
    producers = state()
    write(producers, batch(0, 3), 0)
    with pytest.raises(OutOfOrderSequence, match=r"4\.\.4 after 2"):
        producers.check(batch(4), 0)


def test_a_retry_that_was_cut_differently_is_refused() -> None:
    producers = state()
    write(producers, batch(0, 3), 0)
    for other in (batch(0, 2), batch(1, 2), batch(1, 5)):
        with pytest.raises(OutOfOrderSequence):
            producers.check(other, 0)


def test_an_unknown_producer_begins_at_zero_or_not_at_all() -> None:
    """KIP-360: what came before is forgotten, so its order cannot be vouched for."""
    producers = state()
    with pytest.raises(UnknownProducerId, match="sequence 5 instead of 0"):
        producers.check(batch(5), 0)
    assert producers.check(batch(0), 0) == ACCEPT


def test_an_older_epoch_is_fenced_and_a_younger_one_begins_at_zero() -> None:
    producers = state()
    write(producers, batch(0, epoch=3), 0)
    with pytest.raises(InvalidProducerEpoch, match="epoch 2, its latest is 3"):
        producers.check(batch(1, epoch=2), 0)
    with pytest.raises(OutOfOrderSequence, match="begins epoch 4"):
        producers.check(batch(1, epoch=4), 0)
    write(producers, batch(0, epoch=4), 1)
    assert producers.check(batch(0, epoch=4), 0) == Duplicate(1, 1)
    with pytest.raises(InvalidProducerEpoch):
        producers.check(batch(1, epoch=3), 0)


def test_ten_batches_are_remembered_and_older_ones_reported_as_duplicates() -> None:
    """As many as may be in flight; beyond, the offset is forgotten but not the fact."""
    producers = state()
    for sequence in range(PRODUCER_BATCHES_REMEMBERED + 2):
        write(producers, batch(sequence), 100 + sequence)
    assert producers.check(batch(2), 0) == Duplicate(102, 102)
    for sequence in (0, 1):
        with pytest.raises(DuplicateSequence):
            producers.check(batch(sequence), 0)


def test_sequences_wrap_around() -> None:
    producers = state()
    producers.record(batch(SEQUENCES - 3), 0, 0)
    write(producers, batch(SEQUENCES - 2, 4), 1)
    assert producers.check(batch(SEQUENCES - 2, 4), 0) == Duplicate(1, 4)
    write(producers, batch(2), 5)
    with pytest.raises(OutOfOrderSequence):
        producers.check(batch(4), 0)
    with pytest.raises(DuplicateSequence):
        producers.check(batch(SEQUENCES - 5), 0)


def test_a_silent_producer_is_forgotten_after_the_expiry_time() -> None:
    producers = state()
    write(producers, batch(0), 0, now_ms=1_000)
    assert producers.check(batch(1), 1_000 + HOUR_MS) == ACCEPT
    with pytest.raises(UnknownProducerId):
        producers.check(batch(1), 1_001 + HOUR_MS)
    assert producers.expire(1_000 + HOUR_MS) == 0
    assert producers.expire(1_001 + HOUR_MS) == 1


def test_a_caller_with_many_ids_makes_room_for_its_own() -> None:
    """A writer with a new id for each batch had the places of all others: their retries were written twice.
    What is remembered without an owner, as after an election, counts as one caller's."""
    producers = state(producers_max=10)
    for number in range(8):
        producers.record(batch(0, producer=number), number, 0, Principal("User:busy"))
    producers.record(batch(0, producer=100), 100, 0, Principal("User:quiet"))
    producers.record(batch(0, producer=101), 101, 0)
    for number in range(200, 300):
        producers.record(batch(0, producer=number), number, 0, Principal("User:flood"))
    assert producers.check(batch(0, producer=100), 0) == Duplicate(100, 100)
    assert producers.check(batch(0, producer=101), 0) == Duplicate(101, 101)
    assert [number for number, _ in producers] == [4, 5, 6, 7, 100, 101, 296, 297, 298, 299]
    producers.record(batch(1, producer=101), 400, 0, Principal("User:quiet"))
    assert len(producers) == 10
    restored = state(producers_max=10)
    restored.restore(producers.to_bytes())
    restored.record(batch(0, producer=500), 500, 0, Principal("User:flood"))
    assert [number for number, _ in restored] == [5, 6, 7, 100, 296, 297, 298, 299, 101, 500]
    assert restored.expire(2 * HOUR_MS) == 10 and not restored._of_owner


def test_beyond_the_bound_the_least_recently_active_producer_is_forgotten() -> None:
    """CONTRIBUTING 7: memory has a limit; a forgotten producer learns it by an error, not by a reordering."""
    producers = state(producers_max=2)
    write(producers, batch(0, producer=1), 0)
    write(producers, batch(0, producer=2), 1)
    write(producers, batch(1, producer=1), 2)
    write(producers, batch(0, producer=3), 3)
    assert [key for key, _ in producers] == [1, 3]
    with pytest.raises(UnknownProducerId):
        producers.check(batch(1, producer=2), 0)


producer_batches = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 9), st.integers(1, 4)), max_size=40
)


@settings(deadline=None)
@given(producer_batches)
def test_a_snapshot_restores_everything(batches: list[tuple[int, int, int, int]]) -> None:
    """CORRECTNESS T12: a replica that opens its log answers retries as it did before."""
    producers = state()
    for offset, (producer, epoch, sequence, count) in enumerate(batches):
        producers.record(batch(sequence, count, producer=producer, epoch=epoch), offset * 10, offset)
    again = state()
    again.record(batch(0, producer=99), 0, 0)
    again.restore(producers.to_bytes())
    assert list(again) == list(producers)


@settings(deadline=None)
@given(st.data())
def test_a_damaged_snapshot_is_refused(data: st.DataObject) -> None:
    producers = state()
    write(producers, batch(0), 0)
    snapshot = bytearray(producers.to_bytes())
    position = data.draw(st.integers(0, len(snapshot) - 1))
    snapshot[position] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(snapshot)))
    with pytest.raises(ValueError, match="snapshot"):
        state().restore(bytes(snapshot[:cut]))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 11), st.integers(1, 3)), max_size=60))
def test_accepted_batches_are_a_sequence_without_gaps_or_repeats(attempts: list[tuple[int, int]]) -> None:
    """With any behaviour of a producer and a network, the log holds each sequence once and in order."""
    producers = state()
    log: list[int] = []
    for sequence, count in attempts:
        header = batch(sequence, count)
        try:
            verdict = producers.check(header, 0)
        except StrandlineError:
            continue
        if isinstance(verdict, Duplicate):
            assert log[verdict.base_offset : verdict.last_offset + 1] == list(
                range(sequence, sequence + count)
            )
        else:
            producers.record(header, len(log), 0)
            log += range(sequence, sequence + count)
    assert log == list(range(len(log)))
