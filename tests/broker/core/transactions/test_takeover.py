"""A coordinator is replaced: the next one continues from the records alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from strandline.broker.core.transactions.coordinator import TransactionCoordinator
from strandline.errors import (
    ConcurrentTransactions,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    InvalidProducerIdMapping,
    InvalidRecord,
    NotCoordinator,
)
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import EPOCH_MAX, ListTransactions, TransactionState
from tests.broker.core.transactions.support.stage import (
    LIMITS,
    NAME,
    TIMEOUT_MS,
    A,
    B,
    Numbered,
    Stage,
    raised,
)

TIMEOUT_S = TIMEOUT_MS / 1000


def test_requests_wait_for_loading_and_for_the_next_coordinator() -> None:
    stage = Stage()
    loading = TransactionCoordinator(LIMITS)
    (answer,) = loading.handle(Numbered(1), ListTransactions(), stage.now)
    assert isinstance(answer.value, CoordinatorLoading)  # type: ignore[union-attr]
    stage.writing = False
    waiting = stage.init()
    stage.unload()
    assert isinstance(stage.answers[waiting], NotCoordinator)
    assert isinstance(stage.answers[stage.init()], NotCoordinator)
    assert stage.core.appended(1, None, stage.now) == []
    assert stage.core.next_deadline() is None


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("v2", [True, False])
def test_markers_are_sent_again_and_end_the_transaction(commit: bool, v2: bool) -> None:
    stage = Stage()
    following = stage.ended(stage.begun(), commit=commit, v2=v2)
    stage.mark(A)
    taken_over = stage.elsewhere()
    assert taken_over.markers == stage.markers
    taken_over.mark(B)
    assert taken_over.state is stage.state
    taken_over.mark(A)
    assert taken_over.described().producer == following
    assert taken_over.state.value == ("CompleteCommit" if commit else "CompleteAbort")


def test_every_state_is_continued() -> None:
    stage = Stage()
    producer = stage.producer()
    assert stage.elsewhere().described() == stage.described()
    stage.answer(stage.add(producer, A), dict)
    assert stage.elsewhere().described() == stage.described()
    following = stage.ended(producer)
    assert stage.elsewhere().described() == stage.described()
    stage.mark()
    taken_over = stage.elsewhere()
    assert taken_over.described() == stage.described()
    taken_over.answer(taken_over.add(following, A), dict)


@pytest.mark.parametrize("there", [True, False])
def test_a_decision_of_which_the_result_is_unknown(there: bool) -> None:
    """The client asks again, and gets one answer or the other, as the log has it."""
    stage = Stage()
    producer = stage.begun()
    stage.writing = False
    stage.end(producer, commit=True)
    stage.failed(there=there)
    taken_over = stage.elsewhere()
    again = taken_over.answers[taken_over.end(producer, commit=True)]
    if there:
        assert isinstance(again, ConcurrentTransactions)
        taken_over.mark()
        assert taken_over.ended(producer) == raised(producer)
    else:
        assert again == raised(producer)
    assert [sent.commit for sent in taken_over.markers] == [True]


def test_the_next_write_replaces_one_of_which_the_result_is_unknown() -> None:
    stage = Stage()
    producer = stage.begun()
    stage.writing = False
    stage.end(producer, commit=True)
    stage.failed(there=True)
    stage.writing = True
    stage.ended(producer, commit=False)
    assert [sent.commit for sent in (*stage.markers, *stage.elsewhere().markers)] == [False, False]


@pytest.mark.parametrize(("ahead_s", "left_s"), [(0, 20.0), (30, 0.0), (-10_000, 60.0), (10, 10.0)])
def test_a_timeout_goes_on_and_other_clocks_do_not_make_it_longer(ahead_s: int, left_s: float) -> None:
    stage = Stage()
    stage.begun()
    stage.later(TIMEOUT_S - 20)
    taken_over = stage.elsewhere(wall_ahead_ms=ahead_s * 1_000)
    deadline = taken_over.core.next_deadline()
    assert deadline is not None
    assert deadline - taken_over.at_s == pytest.approx(left_s)


def test_a_record_that_cannot_be_read_keeps_its_id_from_being_decided_twice() -> None:
    stage = Stage()
    producer = stage.begun()
    key, _, _ = stage.log[-1]
    core = TransactionCoordinator(LIMITS)
    for record in stage.log:
        core.load(record[0], record[1], 0, record[2])
    with pytest.raises(InvalidRecord):
        core.load(key, b"\x00\x09", 0)
    stage.core = core
    stage.play(core.loaded(stage.now))
    assert core.states() == [TransactionState.DEAD]
    for token in (stage.init(), stage.end(producer, commit=False), stage.force()):
        assert isinstance(stage.answers[token], CoordinatorNotAvailable)
    assert core.marked(NAME, producer, [A], stage.now) == []


def test_a_later_record_replaces_one_that_cannot_be_read() -> None:
    stage = Stage()
    stage.begun()
    key, value, headers = stage.log[-1]
    stage.core = TransactionCoordinator(LIMITS)
    with pytest.raises(InvalidRecord):
        stage.core.load(key, b"", 0)
    stage.core.load(key, value, 0, headers)
    stage.play(stage.core.loaded(stage.now))
    assert stage.state is TransactionState.ONGOING


def damage(stage: Stage, **changes: Any) -> None:
    """What the coordinator holds is no longer what any step makes."""
    entry = stage.core._turn.entries[NAME]
    assert entry.held is not None
    entry.held = replace(entry.held, **changes)
    stage.expects_failures = True


def test_a_turn_that_fails_ends_its_id_only() -> None:
    """CORRECTNESS X2, for transactional ids"""
    stage = Stage()
    other = stage.producer(name="other")
    producer = stage.begun()
    damage(stage, producer=replace(producer, producer_epoch=EPOCH_MAX))
    stage.later(TIMEOUT_S)
    (failure,) = stage.failures
    assert failure.name == NAME
    assert isinstance(failure.error, AssertionError)
    assert "ONGOING" in failure.held
    assert isinstance(stage.answers[stage.end(producer, commit=True)], CoordinatorNotAvailable)
    stage.later(TIMEOUT_S)
    stage.answer(stage.add(other, A, name="other"), dict)
    assert sorted(state.value for state in stage.core.states()) == ["Dead", "Ongoing"]
    assert stage.elsewhere().state is TransactionState.ONGOING


def test_a_request_that_fails_is_answered() -> None:
    stage = Stage()
    producer = stage.producer()
    damage(stage, state=TransactionState.DEAD)
    assert isinstance(stage.answers[stage.add(producer, A)], CoordinatorNotAvailable)


def test_a_tombstone_is_forgotten() -> None:
    stage = Stage()
    producer = stage.producer()
    key, _, _ = stage.log[-1]
    stage.log.append((key, None, ()))
    taken_over = stage.elsewhere()
    assert taken_over.core.states() == []
    assert isinstance(taken_over.answers[taken_over.add(producer, A)], InvalidProducerIdMapping)
    assert isinstance(taken_over.answers[taken_over.init()], ProducerIdentity)
