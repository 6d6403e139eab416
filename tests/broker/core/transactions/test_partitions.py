"""AddPartitionsToTxn: what it adds, what it verifies, and which limits it has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.broker.core.transactions.effects import EventKind
from strandline.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTopic,
    ProducerFenced,
    StrandlineError,
    TransactionAbortable,
)
from strandline.ids import TopicPartition
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import TransactionState
from tests.broker.core.transactions.support.stage import LIMITS, A, B, C, Stage, names, raised


def test_the_first_partitions_begin_a_transaction_once_they_are_in_the_log() -> None:
    stage = Stage()
    producer = stage.producer()
    stage.writing = False
    token = stage.add(producer, A, B)
    assert stage.waits(token)
    assert stage.state is TransactionState.EMPTY
    stage.written()
    assert stage.answer(token, dict) == {A: None, B: None}
    described = stage.described()
    assert (described.state, described.partitions) == (TransactionState.ONGOING, (A, B))
    assert described.started_ms == stage.now.wall_ms
    assert stage.kinds() == [EventKind.BEGUN]


def test_more_partitions_join_the_same_transaction() -> None:
    stage = Stage()
    producer = stage.begun(A)
    began_ms = stage.described().started_ms
    stage.later(5)
    stage.answer(stage.add(producer, B), dict)
    assert stage.described().started_ms == began_ms
    assert stage.kinds() == [EventKind.BEGUN]
    before = len(stage.log)
    assert stage.answer(stage.add(producer, A, B), dict) == {A: None, B: None}
    assert len(stage.log) == before


def test_no_partitions_begin_nothing() -> None:
    stage = Stage()
    assert stage.answer(stage.add(stage.producer()), dict) == {}
    assert stage.state is TransactionState.EMPTY


def test_partitions_that_could_not_be_written_are_not_in_the_transaction() -> None:
    stage = Stage()
    producer = stage.begun(A)
    stage.writing = False
    token = stage.add(producer, B)
    stage.failed()
    assert isinstance(stage.answers[token], CoordinatorNotAvailable)
    assert stage.described().partitions == (A,)


def test_one_request_at_a_time() -> None:
    stage = Stage()
    producer = stage.begun(A)
    stage.writing = False
    stage.add(producer, B)
    for token in (stage.add(producer, C), stage.end(producer, commit=True), stage.init(), stage.force()):
        assert isinstance(stage.answers[token], ConcurrentTransactions)


def test_while_markers_are_written_the_next_transaction_waits() -> None:
    stage = Stage()
    following = stage.ended(stage.begun())
    assert isinstance(stage.answers[stage.add(following, A)], ConcurrentTransactions)
    stage.mark()
    stage.answer(stage.add(following, A), dict)
    assert stage.described().partitions == (A,)


@pytest.mark.parametrize("verify", [False, True])
def test_only_the_present_producer_is_served(verify: bool) -> None:
    stage = Stage()
    ask = stage.verify if verify else stage.add
    assert isinstance(stage.answers[ask(ProducerIdentity(1, 0), A)], InvalidProducerIdMapping)
    first = stage.producer()
    second = stage.producer()
    assert isinstance(stage.answers[ask(first, A)], ProducerFenced)
    assert isinstance(stage.answers[ask(raised(second), A)], ProducerFenced)
    other = replace(second, producer_id=second.producer_id + 9)
    assert isinstance(stage.answers[ask(other, A)], InvalidProducerIdMapping)
    assert isinstance(stage.answers[ask(ProducerIdentity(-1, -1), A)], InvalidProducerIdMapping)


# --- verification -------------------------------------------------------------------------------


def test_verification_finds_what_was_added() -> None:
    stage = Stage()
    producer = stage.begun(A, B)
    results = stage.answer(stage.verify(producer, A, C), dict)
    assert results[A] is None
    assert isinstance(results[C], TransactionAbortable)
    assert stage.described().partitions == (A, B)


def test_verification_of_an_ended_transaction_fails() -> None:
    stage = Stage()
    producer = stage.begun(A)
    stage.writing = False
    stage.end(producer, commit=True, v2=False)
    assert isinstance(stage.answers[stage.verify(producer, A)], ConcurrentTransactions)
    stage.written()
    assert isinstance(stage.answers[stage.verify(producer, A)], ConcurrentTransactions)
    stage.mark()
    stage.written()
    assert isinstance(stage.answer(stage.verify(producer, A), dict)[A], TransactionAbortable)


# --- limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [(TopicPartition("", 0), InvalidTopic), (TopicPartition("t", -1), InvalidRequest)],
)
def test_names_that_no_record_may_have_are_refused(name: TopicPartition, kind: type[StrandlineError]) -> None:
    stage = Stage()
    assert isinstance(stage.answers[stage.add(stage.producer(), name)], kind)


def test_a_transaction_has_a_bounded_number_of_partitions() -> None:
    stage = Stage()
    producer = stage.producer()
    most = LIMITS.transaction_partitions_max
    stage.answer(stage.add(producer, *names(*range(most))), dict)
    refusal = stage.answer(stage.add(producer, TopicPartition("orders", most)), InvalidRequest)
    assert refusal.limit == most
    stage.ended(producer)


def test_all_open_transactions_have_a_bounded_number_of_partitions() -> None:
    stage = Stage(replace(LIMITS, open_partitions_max=3))
    first = stage.begun(A, B, name="first")
    second = stage.begun(A, name="second")
    refusal = stage.answer(stage.add(second, B, name="second"), ConcurrentTransactions)
    assert refusal.retriable, "it waits"
    stage.answer(stage.end(first, commit=True, name="first"), ProducerIdentity)
    stage.mark()
    assert stage.core.open_partitions == 1
    stage.answer(stage.add(second, B, name="second"), dict)
    assert stage.elsewhere().core.open_partitions == 2


def test_a_coordinator_keeps_a_bounded_number_of_ids() -> None:
    stage = Stage(replace(LIMITS, transactional_ids_max=2))
    stage.producer(name="first"), stage.producer(name="second")
    assert stage.answer(stage.init(name="third"), InvalidRequest).limit == 2
    stage.producer(name="first")
