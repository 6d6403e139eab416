"""Many questions to one broker go together, and each is answered once, also if its call fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from strandline.broker.transactions.peer_calls import CALLS_IN_FLIGHT_MAX, PeerCalls
from strandline.errors import BrokerNotAvailable, OutcomeUnknown, StrandlineError
from strandline.ids import BrokerId
from tests.waiting import eventually

TWO, THREE = BrokerId(2), BrokerId(3)


@dataclass
class Brokers:
    """They answer each number with its double, once the test lets them."""

    calls: list[tuple[BrokerId, list[int]]] = field(default_factory=list)
    answering: asyncio.Event = field(default_factory=asyncio.Event)
    error: StrandlineError | None = None
    answers_too_few: bool = False

    async def send(self, broker: BrokerId, numbers: Sequence[int]) -> Sequence[int]:
        self.calls.append((broker, list(numbers)))
        await self.answering.wait()
        if self.error is not None:
            raise self.error
        return [2 * number for number in numbers][self.answers_too_few :]


@asynccontextmanager
async def calling(brokers: Brokers, weight_max: int = 100) -> AsyncIterator[PeerCalls[int, int]]:
    calls = PeerCalls(brokers.send, weight_max=weight_max, weigh=lambda number: number)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(calls.run())
        yield calls
        running.cancel()


async def test_questions_of_one_turn_are_one_call_to_each_broker() -> None:
    brokers = Brokers()
    brokers.answering.set()
    async with calling(brokers) as calls:
        asked = [calls.begin(broker, number) for broker in (TWO, THREE) for number in (1, 2)]
        assert [await each for each in asked] == [2, 4, 2, 4]
    assert brokers.calls == [(TWO, [1, 2]), (THREE, [1, 2])]


async def test_a_call_has_a_bound_and_a_heavier_question_is_sent_alone() -> None:
    brokers = Brokers()
    brokers.answering.set()
    async with calling(brokers, weight_max=10) as calls:
        asked = [calls.begin(TWO, number) for number in (4, 6, 1, 50, 2)]
        assert [await each for each in asked] == [8, 12, 2, 100, 4]
    assert [numbers for _, numbers in brokers.calls] == [[4, 6], [1], [50], [2]]


async def test_questions_during_the_calls_in_flight_wait_and_go_together() -> None:
    """CONTRIBUTING 7: the number of calls to one broker is bounded; another broker has its own."""
    brokers = Brokers()
    async with calling(brokers) as calls:
        first = list[object]()
        for number in range(CALLS_IN_FLIGHT_MAX):
            first.append(calls.begin(TWO, number))
            await eventually(lambda: len(brokers.calls) == len(first))
        later = [calls.begin(TWO, number) for number in (1, 2, 3)]
        other = calls.begin(THREE, 7)
        await eventually(lambda: (THREE, [7]) in brokers.calls)
        assert len(brokers.calls) == CALLS_IN_FLIGHT_MAX + 1
        brokers.answering.set()
        assert [await each for each in (*later, other)] == [2, 4, 6, 14]
        assert brokers.calls[-1] == (TWO, [1, 2, 3])


async def test_the_error_of_a_call_is_the_answer_to_each_of_its_questions() -> None:
    brokers = Brokers(error=BrokerNotAvailable("down"))
    brokers.answering.set()
    async with calling(brokers) as calls:
        asked = [calls.begin(TWO, number) for number in (1, 2)]
        assert [await each for each in asked] == [brokers.error, brokers.error]
        brokers.error = None
        assert await calls.begin(TWO, 3) == 6


async def test_a_broker_that_answers_too_few_questions_has_answered_none() -> None:
    """No answer is taken for that of another question."""
    brokers = Brokers(answers_too_few=True)
    brokers.answering.set()
    async with calling(brokers) as calls:
        asked = [calls.begin(TWO, number) for number in (1, 2)]
        assert all([isinstance(await each, OutcomeUnknown) for each in asked])


async def test_a_question_whose_asker_went_away_is_not_sent() -> None:
    brokers = Brokers()
    brokers.answering.set()
    async with calling(brokers) as calls:
        gone, stays = calls.begin(TWO, 1), calls.begin(TWO, 2)
        gone.cancel()
        assert await stays == 4
    assert brokers.calls == [(TWO, [2])]


async def test_questions_before_the_start_are_sent_and_those_at_the_end_are_answered() -> None:
    brokers = Brokers()
    calls = PeerCalls(brokers.send, weight_max=1, weigh=lambda _: 1)
    asked = [calls.begin(TWO, number) for number in range(CALLS_IN_FLIGHT_MAX + 1)]
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(calls.run())
        await eventually(lambda: len(brokers.calls) == CALLS_IN_FLIGHT_MAX)
        running.cancel()
    answers = [await each for each in asked]
    assert all(isinstance(each, OutcomeUnknown) for each in answers[:-1])
    assert isinstance(answers[-1], BrokerNotAvailable)  # certainly not sent
