"""The core of a producer's transactions: the full matrix of its states, and what each answer changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strandline.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTransactionState,
    OutcomeUnknown,
    OutOfOrderSequence,
    ProducerFenced,
    StrandlineError,
    TransactionAbortable,
)
from strandline.producer.core.transaction import State, TransactionCore
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import EndTransaction

ID, TIMEOUT_MS = "payments", 1_500
FIRST, NEXT = ProducerIdentity(7, 0), ProducerIdentity(7, 1)
FENCED = ProducerFenced("another producer has it")
LOST = OutOfOrderSequence("a gap")


def at(state: State) -> TransactionCore:
    """A core in this state, with something sent."""
    core = TransactionCore(ID, TIMEOUT_MS)
    core.ended(FIRST)
    if state is State.NONE:
        return core
    core.begin()
    core.use()
    match state:
        case State.FAILED:
            core.failed(LOST)
        case State.ENDING:
            core.ending()
        case State.OVER:
            core.ending()
            core.refused(FENCED, commit=False)
    assert core.state is state
    return core


Call = Callable[[TransactionCore], object]
BEGIN: Call = TransactionCore.begin
USE: Call = TransactionCore.use
ENDING: Call = TransactionCore.ending


def fail(core: TransactionCore) -> None:
    core.failed(LOST)


MATRIX: dict[tuple[State, str], tuple[Call, State | type[StrandlineError]]] = {
    (State.NONE, "begin"): (BEGIN, State.OPEN),
    (State.NONE, "use"): (USE, InvalidTransactionState),
    (State.NONE, "failed"): (fail, State.NONE),
    (State.NONE, "ending"): (ENDING, InvalidTransactionState),
    (State.OPEN, "begin"): (BEGIN, InvalidTransactionState),
    (State.OPEN, "use"): (USE, State.OPEN),
    (State.OPEN, "failed"): (fail, State.FAILED),
    (State.OPEN, "ending"): (ENDING, State.ENDING),
    (State.FAILED, "begin"): (BEGIN, InvalidTransactionState),
    (State.FAILED, "use"): (USE, TransactionAbortable),
    (State.FAILED, "failed"): (fail, State.FAILED),
    (State.FAILED, "ending"): (ENDING, State.ENDING),
    (State.ENDING, "begin"): (BEGIN, InvalidTransactionState),
    (State.ENDING, "use"): (USE, InvalidTransactionState),
    (State.ENDING, "failed"): (fail, State.ENDING),
    (State.ENDING, "ending"): (ENDING, InvalidTransactionState),
    (State.OVER, "begin"): (BEGIN, ProducerFenced),
    (State.OVER, "use"): (USE, ProducerFenced),
    (State.OVER, "failed"): (fail, State.OVER),
    (State.OVER, "ending"): (ENDING, ProducerFenced),
}


@pytest.mark.parametrize("case", MATRIX, ids=lambda case: f"{case[0].name}: {case[1]}")
def test_each_call_in_each_state(case: tuple[State, str]) -> None:
    call, expected = MATRIX[case]
    core = at(case[0])
    if isinstance(expected, State):
        call(core)
        assert core.state is expected
    else:
        with pytest.raises(expected):
            call(core)
        assert core.state is case[0], "a refused call changes nothing"


@pytest.mark.parametrize("commit", [True, False])
def test_the_next_transaction_has_the_identity_of_the_answer(commit: bool) -> None:
    """KIP-890: and the same question is asked until there is an answer."""
    core = at(State.ENDING)
    question = core.question(commit=commit)
    assert question == core.question(commit=commit) == EndTransaction(ID, FIRST, commit, next_epoch=True)
    core.ended(NEXT)
    core.begin()
    assert (core.state, core.identity, core.error) == (State.OPEN, NEXT, None)


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_in_which_nothing_was_sent_asks_for_nothing(commit: bool) -> None:
    core = at(State.NONE)
    core.begin()
    core.ending()
    assert core.question(commit=commit) is None
    assert (core.state, core.identity) == (State.NONE, FIRST)


def test_what_fails_while_the_rest_is_sent_refuses_the_commit() -> None:
    """The first failure is the reason. The abort is asked for then, and the next transaction knows nothing of
    it."""
    core = at(State.ENDING)
    core.failed(LOST)
    core.failed(OutcomeUnknown("and another one"))
    with pytest.raises(TransactionAbortable, match="a gap") as refused:
        core.question(commit=True)
    assert refused.value.__cause__ is LOST
    assert core.question(commit=False) == EndTransaction(ID, FIRST, commit=False, next_epoch=True)
    core.ended(NEXT)
    core.begin()
    core.use()


@pytest.mark.parametrize("error", [FENCED, InvalidProducerEpoch("older than the last one")])
@pytest.mark.parametrize("state", [State.OPEN, State.FAILED, State.ENDING])
def test_a_part_after_the_end_of_its_transaction_can_be_tried_again(
    state: State, error: StrandlineError
) -> None:
    """A broker cannot tell a timeout from another producer with the id. The coordinator can, at the end."""
    core = at(state)
    got = core.failed(error)
    assert isinstance(got, TransactionAbortable)
    assert "transaction_timeout_ms=1500" in got.message and "another producer" in got.message
    if state is not State.ENDING:
        core.ending()
    with pytest.raises(TransactionAbortable):
        core.question(commit=True)
    assert core.refused(FENCED, commit=False) is FENCED


def test_any_other_error_of_a_part_is_its_own() -> None:
    assert at(State.OPEN).failed(LOST) is LOST


def test_a_refused_commit_names_the_timeout_and_no_other_producer() -> None:
    refused = at(State.ENDING).refused(InvalidTransactionState("nothing to commit"), commit=True)
    assert "transaction_timeout_ms=1500" in refused.message and "another producer" not in refused.message


@pytest.mark.parametrize(
    "error", [InvalidTransactionState("it was aborted for its timeout"), TransactionAbortable("abort")]
)
def test_a_commit_of_an_aborted_transaction_asks_for_the_abort(error: StrandlineError) -> None:
    core = at(State.ENDING)
    assert isinstance(core.refused(error, commit=True), TransactionAbortable)
    assert core.question(commit=False) is not None
    core.ended(NEXT)
    assert core.state is State.NONE


@pytest.mark.parametrize(
    ("commit", "error", "told"),
    [
        (True, FENCED, ProducerFenced),
        (False, FENCED, ProducerFenced),
        (True, InvalidProducerIdMapping("of another one"), InvalidProducerIdMapping),
        (False, InvalidTransactionState("nothing to abort"), InvalidTransactionState),
        (False, TransactionAbortable("abort"), TransactionAbortable),
        (True, CoordinatorNotAvailable("none"), OutcomeUnknown),
        (False, ConcurrentTransactions("still"), OutcomeUnknown),
        (True, OutcomeUnknown("no answer"), OutcomeUnknown),
    ],
)
def test_after_any_other_error_the_producer_is_over(
    commit: bool, error: StrandlineError, told: type[StrandlineError]
) -> None:
    """It may not know its next identity. Every later call says why."""
    core = at(State.ENDING)
    got = core.refused(error, commit=commit)
    assert type(got) is told
    for call in (BEGIN, USE, ENDING):
        with pytest.raises(told) as refused:
            call(core)
        assert refused.value is got
