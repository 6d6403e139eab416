"""A producer id belongs to the caller whose batch began it (A2)."""

from __future__ import annotations

import pytest

from strandline.broker.core.replication.producer_state import ACCEPT, Duplicate, ProducerState
from strandline.errors import OutOfOrderSequence
from strandline.records import BatchHeader, encode_values
from strandline.security.principal import ANONYMOUS, Principal

ALICE, MALLORY = Principal("alice"), Principal("mallory")


def batch(sequence: int) -> BatchHeader:
    data = encode_values([b"x"], 0, producer_id=7, producer_epoch=0, base_sequence=sequence)
    return BatchHeader.parse(data)


def state_of(*callers: Principal | None) -> ProducerState:
    """A state after one batch of each caller."""
    producers = ProducerState(producers_max=100, expiry_ms=3_600_000)
    for sequence, by in enumerate(callers):
        assert producers.check(batch(sequence), 0, by) == ACCEPT
        producers.record(batch(sequence), sequence, 0, by)
    return producers


def test_a_batch_with_another_callers_producer_id_is_neither_appended_nor_a_repetition() -> None:
    """A2: were it appended, the owner's next batch would be taken for a repetition of it, and lost."""
    producers = state_of(ALICE)
    for sequence in (0, 1):
        with pytest.raises(OutOfOrderSequence, match="User:mallory"):
            producers.check(batch(sequence), 0, MALLORY)
    assert producers.check(batch(0), 0, ALICE) == Duplicate(0, 0)
    assert producers.check(batch(1), 0, ALICE) == ACCEPT


def test_an_anonymous_caller_owns_no_producer_id() -> None:
    """A2: the first caller with a name that continues its batches owns it from then on."""
    producers = state_of(ANONYMOUS, ALICE)
    for by in (MALLORY, ANONYMOUS):
        with pytest.raises(OutOfOrderSequence):
            producers.check(batch(2), 0, by)


def test_where_callers_are_not_told_apart_nothing_is_refused() -> None:
    """A2: without an authorizer any caller continues any producer's batches, as before."""
    assert state_of(ALICE, None).check(batch(2), 0, None) == ACCEPT


def test_the_owner_is_remembered_for_as_long_as_the_producer_is() -> None:
    """A2: a batch that a follower copies keeps it; a state that was read from a snapshot has none."""
    producers = state_of(ALICE, None)
    with pytest.raises(OutOfOrderSequence):
        producers.check(batch(2), 0, MALLORY)
    restored = producers.empty()
    restored.restore(producers.to_bytes())
    assert restored.check(batch(2), 0, MALLORY) == ACCEPT
