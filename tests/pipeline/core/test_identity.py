"""The identities of writers, as brokers see them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.pipeline.core.identity import EPOCHS, PRODUCER_ID_MIN, identity_of
from strandline.vocabulary.log import ProducerIdentity

PIECES = st.tuples(st.text(max_size=5), st.integers(0, 300), st.integers(0, 1 << 20), st.integers(0, 2))


@given(PIECES)
def test_an_identity_is_one_that_a_batch_can_have_and_no_broker_hands_out(
    piece: tuple[str, int, int, int],
) -> None:
    identity = identity_of(*piece)
    assert PRODUCER_ID_MIN <= identity.producer_id < 1 << 63
    assert 0 <= identity.producer_epoch < EPOCHS


@given(PIECES, PIECES)
def test_two_pieces_have_one_identity_only_if_they_are_one(
    one: tuple[str, int, int, int], other: tuple[str, int, int, int]
) -> None:
    assert (identity_of(*one) == identity_of(*other)) == (one == other)


def test_batches_of_a_partition_follow_each_other_under_one_producer_id_until_its_epochs_are_used_up() -> (
    None
):
    first, last, next_one = (identity_of("q", 3, batch) for batch in (0, EPOCHS - 1, EPOCHS))
    assert first.producer_id == last.producer_id != next_one.producer_id
    assert (first.producer_epoch, last.producer_epoch, next_one.producer_epoch) == (0, EPOCHS - 1, 0)


def test_an_identity_is_the_same_in_every_process_and_version() -> None:
    """A query that was stopped may be repeated by any later version."""
    assert identity_of("9b7c", 3, 40_000) == ProducerIdentity(6_270_022_858_667_936_933, 7_232)
