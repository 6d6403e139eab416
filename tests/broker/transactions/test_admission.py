"""A leader learns from the coordinator whether a producer may append (KIP-890), wherever that is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from strandline.broker.transactions.admission import RETRY_WINDOW_S, TransactionAdmission
from strandline.errors import (
    BrokerNotAvailable,
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    NotCoordinator,
    OutcomeUnknown,
    ProducerFenced,
    StrandlineError,
    TransactionAbortable,
)
from strandline.ids import BrokerId
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import AddPartitions, Admitted
from tests.broker.transactions.live import A, B, live
from tests.hand_clock import HandClock

ME, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
PRODUCER = ProducerIdentity(77, 0)


@dataclass
class Coordinators:
    """Coordinators of other brokers, which give the answers in their order; and what finds them."""

    at: BrokerId
    answers: list[Admitted | StrandlineError] = field(default_factory=list)
    raising: StrandlineError | None = None
    """What the next call raises instead of an answer."""
    asked: list[tuple[BrokerId, list[AddPartitions]]] = field(default_factory=list)
    next: BrokerId | None = None
    """Where the coordinator is found after `forget`."""
    partition: Any = None
    """The one of this broker."""

    async def leader(self, key: str) -> BrokerId:
        return self.at

    def forget(self, key: str) -> None:
        self.at = self.next or self.at

    async def here(self, key: str) -> Any:
        return self.partition

    async def send(self, broker: BrokerId, questions: Sequence[AddPartitions]) -> Sequence[Admitted]:
        self.asked.append((broker, list(questions)))
        if (error := self.raising) is not None:
            self.raising = None
            raise error
        return [self.answers.pop(0) if self.answers else dict.fromkeys(q.partitions) for q in questions]


@asynccontextmanager
async def admitting(coordinators: Coordinators) -> AsyncIterator[tuple[TransactionAdmission, HandClock]]:
    clock = HandClock()
    admission = TransactionAdmission(ME, cast(Any, coordinators), coordinators.send, clock)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(admission.run())
        yield admission, clock
        running.cancel()


async def test_the_coordinator_of_this_broker_is_asked_without_a_call() -> None:
    async with live() as found:
        await found.serving()
        producer = await found.init()
        here = Coordinators(ME, partition=found.partition)
        async with admitting(here) as (admission, _):
            verified = await admission.admit("payments", producer, [A], add=False)
            assert isinstance(verified[A], TransactionAbortable)
            assert await admission.admit("payments", producer, [A], add=True) == {A: None}
            verified = await admission.admit("payments", producer, [A, B], add=False)
            assert verified[A] is None and isinstance(verified[B], TransactionAbortable)
        assert not here.asked


async def test_questions_at_once_are_one_call() -> None:
    other = Coordinators(TWO)
    async with admitting(other) as (admission, _), asyncio.TaskGroup() as tasks:
        for number in range(50):
            tasks.create_task(admission.admit(f"t{number}", PRODUCER, [A], add=True))
    ((broker, questions),) = other.asked
    assert broker == TWO and len(questions) == 50
    assert not any(question.verify_only for question in questions)


async def test_a_refusal_is_the_answer_for_each_partition() -> None:
    other = Coordinators(TWO, answers=[ProducerFenced("newer")])
    async with admitting(other) as (admission, _):
        answers = await admission.admit("t", PRODUCER, [A, B], add=True)
    assert all(isinstance(answers[name], ProducerFenced) for name in (A, B))
    assert len(other.asked) == 1


async def test_a_client_that_writes_before_the_last_markers_arrived_waits_a_moment() -> None:
    """KIP-890 v2: its next transaction may begin at once after EndTxn."""
    busy: list[Admitted | StrandlineError] = [ConcurrentTransactions("ending") for _ in range(3)]
    other = Coordinators(TWO, answers=busy)
    async with admitting(other) as (admission, clock):
        began = clock.now_s
        assert await admission.admit("t", PRODUCER, [A], add=True) == {A: None}
        assert clock.now_s - began < 0.1


async def test_it_ends_with_what_was_said_last() -> None:
    busy: list[Admitted | StrandlineError] = [ConcurrentTransactions("ending") for _ in range(1_000)]
    async with admitting(Coordinators(TWO, answers=busy)) as (admission, clock):
        began = clock.now_s
        answers = await admission.admit("t", PRODUCER, [A], add=True)
        assert isinstance(answers[A], ConcurrentTransactions)
        assert clock.now_s - began <= RETRY_WINDOW_S


async def test_the_next_coordinator_is_asked_when_one_is_replaced_or_gone() -> None:
    for lost in (BrokerNotAvailable("down"), OutcomeUnknown("cut"), NotCoordinator("elsewhere")):
        moved = Coordinators(TWO, raising=lost, next=THREE)
        async with admitting(moved) as (admission, _):
            assert await admission.admit("t", PRODUCER, [A], add=True) == {A: None}
        assert [broker for broker, _ in moved.asked] == [TWO, THREE]


async def test_without_an_answer_nothing_is_admitted_and_the_client_asks_again() -> None:
    away: list[Admitted | StrandlineError] = [NotCoordinator("elsewhere") for _ in range(1_000)]
    async with admitting(Coordinators(TWO, answers=away)) as (admission, _):
        answers = await admission.admit("t", PRODUCER, [A], add=False)
    error = answers[A]
    assert isinstance(error, CoordinatorNotAvailable)
    assert "elsewhere" in error.message
