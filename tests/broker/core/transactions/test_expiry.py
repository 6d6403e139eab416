"""Transactional ids that no producer has used for long are forgotten (transactional.id.expiration.ms)."""

from __future__ import annotations

from dataclasses import replace

from strandline.broker.core.transactions.coordinator import EXPIRED_PER_TURN_MAX, EXPIRY_CHECK_MS
from strandline.errors import ConcurrentTransactions, InvalidProducerIdMapping, TransactionalIdNotFound
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import DescribeTransaction, ListTransactions
from tests.broker.core.transactions.support.stage import FIRST_ID, LIMITS, NAME, A, Stage

EXPIRY_S = LIMITS.transactional_id_expiration_ms / 1000
CHECK_S = EXPIRY_CHECK_MS / 1000


def test_an_unused_id_is_forgotten_after_its_time() -> None:
    stage = Stage()
    producer = stage.producer()
    stage.later(EXPIRY_S - 1)
    assert stage.described().producer == producer
    stage.later(CHECK_S)
    assert isinstance(stage.answers[stage.ask(DescribeTransaction(NAME))], TransactionalIdNotFound)
    assert stage.log[-1][1] is None
    assert isinstance(stage.answers[stage.add(producer, A)], InvalidProducerIdMapping)
    assert stage.producer() == ProducerIdentity(FIRST_ID + 2, 0)


def test_each_use_begins_the_time_anew() -> None:
    stage = Stage()
    producer = stage.begun()
    stage.later(1)
    producer = stage.ended(producer)
    stage.mark()
    stage.later(EXPIRY_S - CHECK_S)
    producer = stage.ended(producer, commit=False)
    stage.later(EXPIRY_S - CHECK_S)
    assert stage.described().producer == producer


def test_what_is_ending_is_not_forgotten() -> None:
    stage = Stage()
    stage.ended(stage.begun())
    stage.later(2 * EXPIRY_S)
    assert stage.state.value == "PrepareCommit"


def test_requests_wait_while_an_id_is_being_forgotten() -> None:
    stage = Stage()
    producer = stage.producer()
    stage.writing = False
    stage.later(EXPIRY_S + CHECK_S)
    assert isinstance(stage.answers[stage.add(producer, A)], ConcurrentTransactions)
    assert isinstance(stage.answers[stage.init()], ConcurrentTransactions)
    stage.failed()
    stage.writing = True
    stage.answer(stage.add(producer, A), dict)


def test_many_ids_are_forgotten_in_several_turns() -> None:
    count = EXPIRED_PER_TURN_MAX + 10
    stage = Stage(replace(LIMITS, transactional_ids_max=count))
    for number in range(count):
        stage.producer(name=f"id-{number}")
    stage.at_s += EXPIRY_S + CHECK_S
    stage.play(stage.core.tick(stage.now))
    assert len(stage.core.states()) == 10
    stage.later(1)
    assert stage.core.states() == []


def test_ids_are_listed_by_name() -> None:
    stage = Stage()
    stage.producer(name="b")
    stage.begun(name="a")
    listed = stage.answer(stage.ask(ListTransactions()), tuple)
    assert [(each.transactional_id, each.state.value) for each in listed] == [
        ("a", "Ongoing"),
        ("b", "Empty"),
    ]
    assert [each.started_ms for each in listed] == [stage.now.wall_ms, -1]
