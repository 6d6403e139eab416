"""InitProducerId with a transactional id: fencing, KIP-360, and epochs that are used up."""

from __future__ import annotations

import pytest

from strandline.broker.core.transactions.effects import AbortReason, EventKind
from strandline.broker.core.transactions.requests import Initialize
from strandline.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    InvalidRequest,
    InvalidTransactionTimeout,
    ProducerFenced,
)
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import EPOCH_MAX, InitTransactions, TransactionState
from tests.broker.core.transactions.support.stage import FIRST_ID, LIMITS, NAME, A, Stage, raised, worn

LAST = EPOCH_MAX - 1
"""The last epoch that a client has."""


def test_a_new_transactional_id_gets_a_new_producer_id() -> None:
    stage = Stage()
    assert stage.producer() == ProducerIdentity(FIRST_ID + 1, 0)
    assert stage.producer(name="other") == ProducerIdentity(FIRST_ID + 2, 0)


def test_an_identity_from_elsewhere_does_not_count_for_a_new_transactional_id() -> None:
    assert Stage().producer(ProducerIdentity(5, 5)) == ProducerIdentity(FIRST_ID + 1, 0)


def test_the_answer_waits_until_the_identity_is_in_the_log() -> None:
    stage = Stage()
    stage.writing = False
    first, again = stage.init(), stage.init()
    assert stage.waits(first)
    assert isinstance(stage.answers[again], ConcurrentTransactions)
    stage.written()
    assert stage.answer(first, ProducerIdentity).producer_epoch == 0


def test_a_first_identity_that_could_not_be_written_leaves_nothing() -> None:
    stage = Stage()
    stage.writing = False
    token = stage.init()
    stage.failed()
    assert isinstance(stage.answers[token], CoordinatorNotAvailable)
    assert stage.core.states() == []


def test_each_producer_has_a_higher_epoch_and_fences_the_one_before() -> None:
    stage = Stage()
    first = stage.producer()
    second = stage.producer()
    assert second == raised(first)
    assert isinstance(stage.answers[stage.add(first, A)], ProducerFenced)
    assert isinstance(stage.answers[stage.end(first, commit=False)], ProducerFenced)


def test_a_producer_without_a_fresh_id_at_hand_comes_again() -> None:
    stage = Stage()
    token = stage.ask(Initialize(InitTransactions(NAME, 1_000)))
    assert isinstance(stage.answers[token], ConcurrentTransactions)


@pytest.mark.parametrize("timeout_ms", [0, -1, LIMITS.transaction_max_timeout_ms + 1])
def test_a_timeout_is_positive_and_within_the_setting(timeout_ms: int) -> None:
    stage = Stage()
    assert isinstance(stage.answers[stage.init(timeout_ms=timeout_ms)], InvalidTransactionTimeout)


@pytest.mark.parametrize("name", ["", "x" * 1_025, "a\nb"])
def test_a_transactional_id_is_text_of_bounded_length(name: str) -> None:
    stage = Stage()
    assert isinstance(stage.answers[stage.init(name=name)], InvalidRequest)


# --- an open transaction ------------------------------------------------------------------------


def test_an_open_transaction_is_aborted_first_with_one_raised_epoch() -> None:
    """KAFKA-19367: the epoch rose twice, and once more with each retry."""
    stage = Stage()
    first = stage.begun()
    assert isinstance(stage.answers[stage.init()], ConcurrentTransactions)
    (sent,) = stage.markers
    assert sent.producer == raised(first)
    assert not sent.commit
    assert stage.events[-1].reason is AbortReason.FENCED
    for _ in range(3):
        assert isinstance(stage.answers[stage.init()], ConcurrentTransactions)
    stage.mark()
    assert stage.producer() == raised(first, 2)


def test_the_abort_that_could_not_be_written_raises_no_epoch() -> None:
    """KAFKA-19367"""
    stage = Stage()
    first = stage.begun()
    stage.writing = False
    for _ in range(3):
        token = stage.init()
        stage.failed()
        assert isinstance(stage.answers[token], CoordinatorNotAvailable)
        assert stage.described().producer == first
    assert stage.state is TransactionState.ONGOING
    stage.writing = True
    stage.ended(first)


def test_a_fenced_producer_may_do_nothing_while_its_transaction_is_aborted() -> None:
    stage = Stage()
    first = stage.begun()
    stage.init()
    for _ in range(2):
        assert isinstance(stage.answers[stage.add(first, A)], ProducerFenced)
        assert isinstance(stage.answers[stage.end(first, commit=True)], ProducerFenced)
        assert isinstance(stage.answers[stage.end(first, commit=False)], ProducerFenced)
        assert isinstance(stage.answers[stage.init(first)], ProducerFenced)
        if stage.state is TransactionState.PREPARE_ABORT:
            stage.mark()


@pytest.mark.parametrize("commit", [True, False])
def test_while_markers_are_written_a_producer_waits(commit: bool) -> None:
    stage = Stage()
    stage.ended(stage.begun(), commit=commit)
    assert isinstance(stage.answers[stage.init()], ConcurrentTransactions)
    assert len(stage.markers) == 1


def test_two_twins_take_the_id_from_each_other() -> None:
    stage = Stage()
    epochs = []
    for _ in range(5):
        twin = stage.producer()
        epochs.append(twin.producer_epoch)
        stage.answer(stage.add(twin, A), dict)
        assert isinstance(stage.answers[stage.init()], ConcurrentTransactions)
        stage.mark()
        assert isinstance(stage.answers[stage.end(twin, commit=True)], ProducerFenced)
    assert epochs == sorted(set(epochs))
    assert stage.kinds().count(EventKind.COMMITTING) == 0


# --- KIP-360 ------------------------------------------------------------------------------------


def test_a_producer_that_comes_back_gets_the_next_epoch_and_a_retry_the_same() -> None:
    stage = Stage()
    first = stage.producer()
    second = stage.producer(first)
    assert second == raised(first)
    assert stage.producer(first) == second
    assert stage.elsewhere().producer(first) == second
    assert stage.producer(second) == raised(second)


def test_an_identity_of_before_is_fenced_once_the_new_one_was_used() -> None:
    stage = Stage()
    first = stage.producer()
    second = stage.producer(first)
    stage.answer(stage.add(second, A), dict)
    assert isinstance(stage.answers[stage.init(first)], ProducerFenced)
    assert stage.state is TransactionState.ONGOING


def test_a_producer_that_another_one_replaced_does_not_come_back() -> None:
    stage = Stage()
    first = stage.producer()
    second = stage.producer()
    for stale in (first, ProducerIdentity(second.producer_id + 1, second.producer_epoch), raised(second)):
        assert isinstance(stage.answers[stage.init(stale)], ProducerFenced)


def test_a_producer_aborts_its_own_transaction_by_coming_back() -> None:
    """KAFKA-19367: it gets the epoch of the abort, which no client has had."""
    stage = Stage()
    first = stage.begun()
    assert isinstance(stage.answers[stage.init(first)], ConcurrentTransactions)
    assert isinstance(stage.answers[stage.init(first)], ConcurrentTransactions)
    stage.mark()
    assert stage.producer(first) == raised(first)


# --- the last epochs ----------------------------------------------------------------------------


def test_the_epoch_before_the_last_is_the_last_that_a_client_has() -> None:
    stage = worn(LAST - 1)
    assert stage.producer() == ProducerIdentity(FIRST_ID, LAST)
    assert stage.producer() == ProducerIdentity(FIRST_ID + 1, 0)


def test_the_last_epoch_fences_the_one_before() -> None:
    stage = worn(LAST)
    producer = ProducerIdentity(FIRST_ID, LAST)
    stage.answer(stage.add(producer, A), dict)
    assert isinstance(stage.answers[stage.init()], ConcurrentTransactions)
    assert stage.markers[-1].producer == ProducerIdentity(FIRST_ID, EPOCH_MAX)
    stage.mark()
    assert isinstance(stage.answers[stage.add(ProducerIdentity(FIRST_ID, EPOCH_MAX), A)], ProducerFenced)
    assert stage.producer() == ProducerIdentity(FIRST_ID + 1, 0)


@pytest.mark.parametrize("again", [False, True])
def test_a_producer_with_its_last_epoch_comes_back_with_a_new_id(again: bool) -> None:
    """KAFKA-19367: with 32766 it failed for good."""
    stage = worn(LAST)
    worn_out = ProducerIdentity(FIRST_ID, LAST)
    if again:
        stage.answer(stage.add(worn_out, A), dict)
        stage.init(worn_out)
        stage.mark()
    fresh = stage.producer(worn_out)
    assert fresh == ProducerIdentity(FIRST_ID + 1, 0)
    assert stage.producer(worn_out) == fresh
    assert stage.elsewhere().producer(worn_out) == fresh
    stage.answer(stage.add(fresh, A), dict)
    assert isinstance(stage.answers[stage.init(worn_out)], ProducerFenced)
