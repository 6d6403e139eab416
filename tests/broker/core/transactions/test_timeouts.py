"""Transactions that run out of time, and administrators that abort one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.broker.core.transactions.coordinator import TIMERS_PER_TURN_MAX
from strandline.broker.core.transactions.effects import AbortReason, EventKind
from strandline.broker.core.transactions.progress import WRITE_AGAIN_MS
from strandline.errors import (
    ConcurrentTransactions,
    InvalidTransactionState,
    ProducerFenced,
    TransactionalIdNotFound,
)
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import EPOCH_MAX, TransactionState
from tests.broker.core.transactions.support.stage import (
    FIRST_ID,
    LIMITS,
    TIMEOUT_MS,
    A,
    B,
    Stage,
    raised,
    worn,
)

TIMEOUT_S = TIMEOUT_MS / 1000


def test_an_open_transaction_aborts_at_its_timeout_and_not_before() -> None:
    stage = Stage()
    producer = stage.begun()
    stage.later(TIMEOUT_S - 1)
    stage.answer(stage.add(producer, A, B), dict)
    stage.later(0.999)
    assert stage.state is TransactionState.ONGOING
    stage.later(0.001)
    assert stage.described().producer == raised(producer)
    (sent,) = stage.markers
    assert (sent.producer, sent.commit) == (raised(producer), False)
    assert stage.events[-1].reason is AbortReason.TIMEOUT
    stage.mark()
    assert stage.state.value == "CompleteAbort"


def test_many_that_time_out_at_once_leave_turns_to_others() -> None:
    """All of a coordinator's may be due together, once it has moved."""
    count = 2 * TIMERS_PER_TURN_MAX + 1
    stage = Stage(replace(LIMITS, transactional_ids_max=count, open_partitions_max=count))
    for number in range(count):
        stage.begun(A, name=f"{number}")
    stage.at_s += TIMEOUT_S
    aborting = []
    while (deadline := stage.core.next_deadline()) is not None and deadline <= stage.at_s:
        before = len(stage.markers)
        stage.play(stage.core.tick(stage.now))
        aborting.append(len(stage.markers) - before)
    assert aborting == [TIMERS_PER_TURN_MAX, TIMERS_PER_TURN_MAX, 1]


def test_partitions_that_are_added_do_not_move_the_timeout() -> None:
    stage = Stage()
    producer = stage.begun(A)
    stage.later(TIMEOUT_S / 2)
    stage.answer(stage.add(producer, B), dict)
    stage.later(TIMEOUT_S / 2)
    assert stage.state is TransactionState.PREPARE_ABORT


def test_its_producer_is_fenced_until_it_has_aborted_as_well() -> None:
    """KIP-890: the abort gives it the next epoch. An older client has to initialize again."""
    stage = Stage()
    producer = stage.begun()
    stage.later(TIMEOUT_S)
    assert isinstance(stage.answers[stage.add(producer, A)], ProducerFenced)
    assert isinstance(stage.answers[stage.end(producer, commit=True)], InvalidTransactionState)
    assert isinstance(stage.answers[stage.end(producer, commit=False)], ConcurrentTransactions)
    stage.mark()
    for v2, commit, kind in (
        (True, True, InvalidTransactionState),
        (False, True, ProducerFenced),
        (False, False, ProducerFenced),
    ):
        assert isinstance(stage.answers[stage.end(producer, commit=commit, v2=v2)], kind)
    assert isinstance(stage.answers[stage.verify(producer, A)], ProducerFenced)
    assert stage.ended(producer, commit=False) == raised(producer)
    stage.answer(stage.add(raised(producer), A), dict)


def test_the_last_epoch_is_not_given_to_a_producer_that_ran_out_of_time() -> None:
    stage = worn()
    producer = ProducerIdentity(FIRST_ID, EPOCH_MAX - 1)
    stage.answer(stage.add(producer, A), dict)
    stage.later(TIMEOUT_S)
    stage.mark()
    assert isinstance(stage.answers[stage.end(producer, commit=False)], ProducerFenced)
    assert isinstance(stage.answers[stage.add(raised(producer), A)], ProducerFenced)
    assert stage.producer(producer) == ProducerIdentity(FIRST_ID + 1, 0)


@pytest.mark.parametrize("commit", [True, False])
def test_the_timeout_comes_while_the_decision_is_being_written(commit: bool) -> None:
    stage = Stage()
    producer = stage.begun()
    stage.writing = False
    token = stage.end(producer, commit=commit)
    stage.later(TIMEOUT_S)
    assert len(stage.wanted) == 1
    stage.written()
    assert stage.answer(token, ProducerIdentity) == raised(producer)
    stage.writing = True
    stage.later(TIMEOUT_S)
    (sent,) = stage.markers
    assert sent.commit is commit


def test_the_timeout_comes_while_a_decision_fails() -> None:
    stage = Stage()
    producer = stage.begun()
    stage.writing = False
    stage.end(producer, commit=True)
    stage.later(TIMEOUT_S)
    stage.failed()
    assert not stage.wanted
    stage.later(WRITE_AGAIN_MS / 1000)
    stage.written()
    assert stage.state is TransactionState.PREPARE_ABORT


def test_the_timeout_comes_while_partitions_are_added() -> None:
    stage = Stage()
    producer = stage.begun(A)
    stage.writing = False
    stage.add(producer, B)
    stage.later(TIMEOUT_S)
    stage.written()
    stage.later(0)
    stage.written()
    assert stage.markers[-1].partitions == {A, B}


def test_an_abort_that_could_not_be_written_is_written_again() -> None:
    stage = Stage()
    producer = stage.begun()
    stage.writing = False
    stage.later(TIMEOUT_S)
    for _ in range(3):
        stage.failed()
        stage.later(0.5)
        assert not stage.wanted
        stage.later(0.5)
    stage.written()
    assert stage.markers[-1].producer == raised(producer)


def test_the_more_could_not_be_written_the_longer_each_of_them_waits() -> None:
    """All ids of a log that takes no records: to try each of them every second would be all that is done."""
    count = 500
    stage = Stage(replace(LIMITS, transactional_ids_max=count, open_partitions_max=count))
    for number in range(count):
        stage.begun(A, name=f"{number}")
    stage.writing = False
    stage.later(TIMEOUT_S)
    assert len(stage.wanted) == count
    for _ in range(count):
        stage.failed()
    for second in range(1, 6):
        stage.later(1)
        assert len(stage.wanted) <= 110 * second
    stage.later(1)
    assert len(stage.wanted) == count


def test_an_end_that_could_not_be_written_is_written_again() -> None:
    stage = Stage()
    following = stage.ended(stage.begun())
    stage.writing = False
    stage.mark()
    for _ in range(3):
        stage.failed()
        assert isinstance(stage.answers[stage.add(following, A)], ConcurrentTransactions)
        stage.later(WRITE_AGAIN_MS / 1000)
    stage.written()
    assert stage.state is TransactionState.COMPLETE_COMMIT
    assert len(stage.markers) == 1
    stage.writing = True
    stage.later(3_600)
    assert stage.kinds().count(EventKind.COMPLETED) == 1


def test_the_next_transaction_has_a_timeout_of_its_own() -> None:
    stage = Stage()
    producer = stage.begun()
    stage.later(TIMEOUT_S - 1)
    following = stage.ended(producer)
    stage.mark()
    stage.answer(stage.add(following, A), dict)
    stage.later(TIMEOUT_S - 1)
    assert stage.state is TransactionState.ONGOING
    stage.later(1)
    assert stage.state.value == "PrepareAbort"


# --- administrators -----------------------------------------------------------------------------


def test_an_administrator_aborts_what_is_open() -> None:
    stage = Stage()
    producer = stage.begun()
    stage.writing = False
    token = stage.force()
    assert stage.waits(token)
    stage.written()
    stage.writing = True
    assert stage.answers[token] is None
    assert stage.events[-1].reason is AbortReason.ADMINISTRATOR
    assert stage.answers[stage.force()] is None
    assert isinstance(stage.answers[stage.add(producer, A)], ProducerFenced)
    stage.mark()
    assert isinstance(stage.answers[stage.force()], InvalidTransactionState)


def test_an_administrator_aborts_no_commit_and_nothing_unknown() -> None:
    stage = Stage()
    assert isinstance(stage.answers[stage.force()], TransactionalIdNotFound)
    producer = stage.producer()
    assert isinstance(stage.answers[stage.force()], InvalidTransactionState)
    stage.answer(stage.add(producer, A), dict)
    stage.ended(producer)
    assert isinstance(stage.answers[stage.force()], InvalidTransactionState)
