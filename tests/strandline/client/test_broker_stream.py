"""Streams to one broker: opened when there is work, broken off when the broker is silent, opened again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from strandline.client.broker_stream import BrokerStream, CallStream
from strandline.client.cluster import Cluster
from strandline.config.client import ClientSettings
from strandline.errors import BrokerNotAvailable, OutcomeUnknown, StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Method, Request, Response, Stream
from tests.strandline.client.network import FastClock, Network, answering, metadata
from tests.waiting import eventually

NUMBERS: Method[int, int] = Method("/numbers", lambda n: b"%d" % n, int)
A = TopicPartition("t", 0)
ANSWER_S = 0.5


class Wire:
    """A stream in memory. A request of a number above 0 is answered with it, another one never."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.answers: asyncio.Queue[int | StrandlineError] = asyncio.Queue()
        self.closed = False

    async def write(self, request: int) -> None:
        self.written.append(request)
        if request > 0:
            self.answers.put_nowait(request)

    async def read(self) -> int:
        answer = await self.answers.get()
        if isinstance(answer, StrandlineError):
            raise answer
        return answer

    async def finish(self) -> None:
        """Nothing is buffered."""

    def close(self) -> None:
        self.closed = True


class Brokers(Network):
    """A network that opens streams while it is `up`."""

    def __init__(self) -> None:
        super().__init__()
        self.brokers["broker1:9092"] = answering(metadata((1, 1)))
        self.wires: list[Wire] = []
        self.refused = 0
        self.up = True

    async def open(
        self, address: str, method: Method[Request, Response], *, timeout_s: float
    ) -> Stream[Request, Response]:
        if not self.up:
            self.refused += 1
            raise BrokerNotAvailable(f"{address} is down")
        wire: Any = Wire()
        self.wires.append(wire)
        stream: Stream[Request, Response] = wire
        return stream


class Numbers(BrokerStream[int, int]):
    """Sends numbers, and asks again on the next stream for those that were in flight."""

    def __init__(self, cluster: Cluster, clock: FastClock) -> None:
        settings = ClientSettings(retry_backoff_ms=1)
        super().__init__(1, NUMBERS, cluster=cluster, settings=settings, clock=clock, answer_s=ANSWER_S)
        self.waiting: list[int] = []
        self.in_flight: dict[int, float] = {}
        self.answered: list[int] = []
        self.losses: list[StrandlineError] = []

    def put(self, number: int) -> None:
        self.waiting.append(number)
        self.wake()

    def _has_work(self) -> bool:
        return bool(self.waiting)

    def _led(self) -> Iterable[TopicPartition]:
        return [A]

    def _opened(self) -> None:
        self.in_flight = {}

    def _oldest_at(self) -> float | None:
        return next(iter(self.in_flight.values()), None)

    def _lost(self, error: StrandlineError) -> None:
        self.losses.append(error)
        self.waiting += [abs(number) for number in self.in_flight]

    async def _write(self, stream: Stream[int, int]) -> None:
        while True:
            self._wanted.clear()
            while self.waiting:
                number = self.waiting.pop(0)
                self.in_flight[number] = self._clock.monotonic()
                await stream.write(number)
            await self._wanted.wait()

    async def _read(self, stream: Stream[int, int]) -> None:
        while True:
            number = await stream.read()
            del self.in_flight[number]
            self.answered.append(number)


class World:
    def __init__(self) -> None:
        self.brokers = Brokers()
        self.clock = FastClock()
        self.cluster = Cluster("broker1:9092", ClientSettings(), self.brokers, self.clock)
        self.numbers = Numbers(self.cluster, self.clock)

    async def __aenter__(self) -> World:
        await self.cluster.topic("t")
        self.task = asyncio.get_running_loop().create_task(self.numbers.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


async def test_a_stream_is_opened_when_there_is_work_and_stays_open() -> None:
    async with World() as world:
        world.numbers.wake()
        await asyncio.sleep(0)
        assert world.brokers.wires == [], "a wake without work opens nothing"
        world.numbers.put(1)
        await eventually(lambda: world.numbers.answered == [1])
        world.numbers.put(2)
        await eventually(lambda: world.numbers.answered == [1, 2])
        (wire,) = world.brokers.wires
        assert not wire.closed
    assert wire.closed


async def test_requests_in_flight_on_a_broken_stream_go_out_on_the_next() -> None:
    async with World() as world:
        world.numbers.put(1)
        await eventually(lambda: world.numbers.answered == [1])
        broken = OutcomeUnknown("reset by peer")
        world.numbers.waiting.append(-2)
        world.brokers.wires[0].answers.put_nowait(broken)
        await eventually(lambda: bool(world.numbers.losses))
        assert world.numbers.losses[0] is broken
        assert world.brokers.wires[0].closed
        await eventually(lambda: 2 in world.numbers.answered)


async def test_a_broker_that_leaves_a_request_unanswered_is_given_up() -> None:
    async with World() as world:
        world.numbers.put(-7)
        await eventually(lambda: world.numbers.answered == [7])
        (error,) = world.numbers.losses
        assert isinstance(error, OutcomeUnknown)
        assert error.message == "broker 1 has not answered for 0.5 s"
        assert [wire.written for wire in world.brokers.wires] == [[-7], [7]]


async def test_a_broker_that_takes_no_stream_is_tried_again_after_a_pause() -> None:
    world = World()
    world.brokers.up = False
    async with world:
        world.numbers.put(1)
        await eventually(lambda: world.brokers.refused >= 3)
        assert world.clock.now > 0, "it pauses between two tries"
        world.brokers.up = True
        await eventually(lambda: world.numbers.answered == [1])


# --- one call after another ---------------------------------------------------------------------


async def calls() -> tuple[Brokers, CallStream[int, int]]:
    brokers = Brokers()
    cluster = Cluster("broker1:9092", ClientSettings(), brokers, FastClock())
    await cluster.topic("t")
    return brokers, CallStream(cluster, NUMBERS, answer_s=0.05)


def found(wanted: int, answer: int) -> str | None:
    return f"got {answer}" if answer == wanted else None


async def test_calls_share_a_stream_and_pass_over_the_answers_to_others() -> None:
    brokers, stream = await calls()
    assert await stream.call(1, 3, lambda answer: found(3, answer)) == "got 3"
    brokers.wires[0].answers.put_nowait(99)
    assert await stream.call(1, 4, lambda answer: found(4, answer)) == "got 4"
    assert len(brokers.wires) == 1
    assert await stream.call(2, 5, lambda answer: found(5, answer)) == "got 5"
    assert [wire.closed for wire in brokers.wires] == [True, False], "one broker at a time"
    stream.close()
    assert brokers.wires[1].closed


async def test_a_call_without_an_answer_has_an_unknown_outcome_and_ends_its_stream() -> None:
    brokers, stream = await calls()
    with pytest.raises(OutcomeUnknown, match="broker 1 has not answered for"):
        await stream.call(1, -1, lambda answer: found(-1, answer))
    assert brokers.wires[0].closed
    assert await stream.call(1, 2, lambda answer: found(2, answer)) == "got 2"
    assert len(brokers.wires) == 2


async def test_the_error_that_breaks_a_stream_is_raised_by_its_call() -> None:
    brokers, stream = await calls()
    assert await stream.call(1, 1, lambda answer: found(1, answer)) == "got 1"
    brokers.wires[0].answers.put_nowait(BrokerNotAvailable("gone"))
    with pytest.raises(BrokerNotAvailable, match="gone"):
        await stream.call(1, -2, lambda answer: found(2, answer))
    assert brokers.wires[0].closed
