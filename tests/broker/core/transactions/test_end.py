"""EndTxn: one decision, its retries, and the epoch after it (KIP-98, KIP-890)."""

from __future__ import annotations

import pytest

from strandline.broker.core.transactions.coordinator import EXPIRY_CHECK_MS
from strandline.broker.core.transactions.effects import AbortReason, EventKind, SendMarkers
from strandline.broker.core.transactions.requests import End
from strandline.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    InvalidProducerIdMapping,
    InvalidTransactionState,
    MessageTooLarge,
    ProducerFenced,
)
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import EPOCH_MAX, EndTransaction, TransactionState
from tests.broker.core.transactions.support.stage import FIRST_ID, NAME, A, B, Stage, raised, worn

LAST = EPOCH_MAX - 1
BOTH = pytest.mark.parametrize("commit", [True, False])
VERSIONS = pytest.mark.parametrize("v2", [True, False])


@BOTH
@VERSIONS
def test_the_decision_is_answered_once_it_is_in_the_log(commit: bool, v2: bool) -> None:
    stage = Stage()
    producer = stage.begun()
    stage.writing = False
    token = stage.end(producer, commit=commit, v2=v2)
    assert stage.waits(token)
    assert not stage.markers
    stage.written()
    following = raised(producer) if v2 else producer
    assert stage.answer(token, ProducerIdentity) == following
    assert stage.markers == [SendMarkers(NAME, following, commit, frozenset({A, B}))]
    assert stage.kinds()[1:] == [EventKind.COMMITTING if commit else EventKind.ABORTING]
    assert stage.events[-1].reason is (None if commit else AbortReason.ASKED)


@BOTH
@VERSIONS
def test_it_is_complete_once_all_markers_are_written(commit: bool, v2: bool) -> None:
    stage = Stage()
    following = stage.ended(stage.begun(), commit=commit, v2=v2)
    began_ms = stage.described().started_ms
    assert began_ms > 0
    stage.mark(A)
    assert stage.described().partitions == (A, B)
    stage.mark(B)
    described = stage.described()
    assert described.state.value == ("CompleteCommit" if commit else "CompleteAbort")
    assert (described.partitions, described.started_ms) == ((), -1)
    assert described.producer == following
    assert stage.kinds()[-1] is EventKind.COMPLETED
    stage.answer(stage.add(following, A), dict)


def test_markers_of_another_epoch_do_not_count() -> None:
    stage = Stage()
    producer = stage.begun(A)
    stage.ended(producer)
    stage.play(stage.core.marked(NAME, producer, [A], stage.now))
    stage.play(stage.core.marked("unknown", producer, [A], stage.now))
    assert stage.state.value == "PrepareCommit"
    assert stage.core.next_deadline() == 100 + EXPIRY_CHECK_MS / 1000, "its timeout is over"
    stage.mark()
    assert stage.state.value == "CompleteCommit"


@BOTH
@VERSIONS
def test_a_decision_that_could_not_be_written_is_none(commit: bool, v2: bool) -> None:
    stage = Stage()
    producer = stage.begun()
    stage.writing = False
    token = stage.end(producer, commit=commit, v2=v2)
    stage.failed()
    assert isinstance(stage.answers[token], CoordinatorNotAvailable)
    assert stage.state is TransactionState.ONGOING
    assert not stage.markers
    stage.writing = True
    stage.ended(producer, commit=not commit, v2=v2)


def test_a_write_that_no_retry_helps_is_refused_as_it_is() -> None:
    stage = Stage()
    producer = stage.begun()
    stage.writing = False
    token = stage.end(producer, commit=True)
    stage.failed(MessageTooLarge("too large"))
    assert isinstance(stage.answers[token], MessageTooLarge)


def test_unknown_ids_and_producers_are_refused() -> None:
    stage = Stage()
    assert isinstance(stage.answers[stage.end(ProducerIdentity(1, 0), commit=True)], InvalidProducerIdMapping)
    producer = stage.begun()
    other = ProducerIdentity(producer.producer_id + 9, 0)
    assert isinstance(stage.answers[stage.end(other, commit=True)], InvalidProducerIdMapping)
    assert isinstance(stage.answers[stage.end(raised(producer), commit=True)], ProducerFenced)


# --- retries ------------------------------------------------------------------------------------


@BOTH
def test_the_same_request_with_the_old_epoch_gets_the_same_answer(commit: bool) -> None:
    """KIP-890: the answer was lost."""
    stage = Stage()
    producer = stage.begun()
    following = stage.ended(producer, commit=commit)
    assert isinstance(stage.answers[stage.end(producer, commit=commit)], ConcurrentTransactions)
    assert isinstance(stage.answers[stage.end(producer, commit=not commit)], InvalidTransactionState)
    stage.mark()
    for there in (stage, stage.elsewhere()):
        assert there.ended(producer, commit=commit) == following
        assert isinstance(there.answers[there.end(producer, commit=not commit)], InvalidTransactionState)
    assert len(stage.markers) == 1


@BOTH
def test_the_old_epoch_is_fenced_once_the_next_one_was_used(commit: bool) -> None:
    stage = Stage()
    producer = stage.begun()
    following = stage.ended(producer, commit=commit)
    stage.mark()
    stage.answer(stage.add(following, A), dict)
    assert isinstance(stage.answers[stage.end(producer, commit=commit)], ProducerFenced)


def test_a_fenced_producer_is_not_taken_for_a_retry_of_the_one_after_it() -> None:
    """The epochs alone look like a retry: the second producer is an older client, which keeps its epoch."""
    stage = Stage()
    fenced = stage.producer()
    producer = stage.begun()
    assert producer == raised(fenced)
    stage.ended(producer, v2=False)
    stage.mark()
    assert isinstance(stage.answers[stage.end(fenced, commit=True)], ProducerFenced)


@BOTH
def test_an_older_client_repeats_its_decision(commit: bool) -> None:
    stage = Stage()
    producer = stage.begun()
    stage.ended(producer, commit=commit, v2=False)
    assert isinstance(stage.answers[stage.end(producer, commit=commit, v2=False)], ConcurrentTransactions)
    other = stage.end(producer, commit=not commit, v2=False)
    assert isinstance(stage.answers[other], ConcurrentTransactions)  # as Kafka, until the markers are done
    stage.mark()
    assert stage.ended(producer, commit=commit, v2=False) == producer
    refused = stage.end(producer, commit=not commit, v2=False)
    assert isinstance(stage.answers[refused], InvalidTransactionState)


# --- nothing to end -----------------------------------------------------------------------------


@BOTH
def test_an_older_client_that_has_begun_nothing_is_refused(commit: bool) -> None:
    stage = Stage()
    producer = stage.producer()
    assert isinstance(stage.answers[stage.end(producer, commit=commit, v2=False)], InvalidTransactionState)


def test_nothing_cannot_be_committed() -> None:
    stage = Stage()
    producer = stage.producer()
    assert isinstance(stage.answers[stage.end(producer, commit=True)], InvalidTransactionState)
    stage.answer(stage.add(producer, A), dict)
    for commit in (True, False):
        following = stage.ended(producer, commit=commit)
        stage.mark()
        assert isinstance(stage.answers[stage.end(following, commit=True)], InvalidTransactionState)
        producer = following
        stage.answer(stage.add(producer, A), dict)


def test_an_abort_of_nothing_raises_the_epoch_and_fences_nothing_of_its_producer() -> None:
    """KAFKA-18464"""
    stage = Stage()
    producer = stage.producer()
    for _ in range(3):
        following = stage.ended(producer, commit=False)
        assert following == raised(producer)
        assert stage.ended(producer, commit=False) == following
        assert stage.state is TransactionState.COMPLETE_ABORT
        producer = following
    assert not stage.markers
    stage.answer(stage.add(producer, A), dict)


def test_an_abort_of_nothing_after_a_commit_waits_for_its_markers() -> None:
    """KAFKA-18464: the producer has the next epoch already, and is not fenced for it."""
    stage = Stage()
    following = stage.ended(stage.begun())
    assert isinstance(stage.answers[stage.end(following, commit=False)], ConcurrentTransactions)
    assert isinstance(stage.answers[stage.end(following, commit=True)], ConcurrentTransactions)
    stage.mark()
    assert stage.ended(following, commit=False) == raised(following)


def test_an_abort_of_nothing_after_a_commit_is_not_taken_for_the_commit() -> None:
    stage = Stage()
    producer = stage.begun()
    following = stage.ended(producer)
    stage.mark()
    last = stage.ended(following, commit=False)
    assert isinstance(stage.answers[stage.end(producer, commit=True)], ProducerFenced)
    assert stage.ended(following, commit=False) == last


# --- the last epochs ----------------------------------------------------------------------------


@BOTH
def test_the_end_with_the_last_epoch_gives_a_new_producer_id(commit: bool) -> None:
    """KAFKA-18660: the client got the last epoch, with the old id."""
    stage = worn()
    producer = ProducerIdentity(FIRST_ID, LAST)
    stage.answer(stage.add(producer, A), dict)
    following = stage.ended(producer, commit=commit)
    assert following == ProducerIdentity(FIRST_ID + 1, 0)
    assert stage.markers[-1].producer == ProducerIdentity(FIRST_ID, EPOCH_MAX)
    assert isinstance(stage.answers[stage.add(following, A)], ConcurrentTransactions)
    assert isinstance(stage.answers[stage.end(producer, commit=commit)], ConcurrentTransactions)
    taken_over = stage.elsewhere()
    for there in (stage, taken_over):
        there.mark()
        assert there.described().producer == following
        assert there.ended(producer, commit=commit) == following
        assert isinstance(there.answers[there.end(producer, commit=not commit)], InvalidTransactionState)
        there.answer(there.add(following, A), dict)


def test_an_abort_of_nothing_with_the_last_epoch_gives_a_new_producer_id() -> None:
    """KAFKA-18660"""
    stage = worn()
    producer = ProducerIdentity(FIRST_ID, LAST)
    following = stage.ended(producer, commit=False)
    assert following == ProducerIdentity(FIRST_ID + 1, 0)
    assert stage.ended(producer, commit=False) == following


def test_an_end_without_a_fresh_id_at_hand_comes_again() -> None:
    stage = worn()
    producer = ProducerIdentity(FIRST_ID, LAST)
    stage.answer(stage.add(producer, A), dict)
    token = stage.ask(End(EndTransaction(NAME, producer, True, True)))
    assert isinstance(stage.answers[token], ConcurrentTransactions)
    assert stage.state is TransactionState.ONGOING


def test_an_older_client_goes_on_with_the_last_epoch() -> None:
    stage = worn()
    producer = ProducerIdentity(FIRST_ID, LAST)
    for _ in range(2):
        stage.answer(stage.add(producer, A), dict)
        assert stage.ended(producer, v2=False) == producer
        stage.mark()
