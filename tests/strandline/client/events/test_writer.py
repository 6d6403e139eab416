"""The caller of the writer receives the outcome of each event once, and correctly."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from strandline.adapters.codecs.log import INIT_PRODUCER_ID
from strandline.client.events.writer import EventWriter
from strandline.errors import (
    BrokerNotAvailable,
    DuplicateSequence,
    InvalidRequest,
    MessageTooLarge,
    NotEnoughReplicas,
    OutcomeUnknown,
    StrandlineError,
)
from strandline.ports import Method, Request, Response, Stream
from strandline.records import decode
from strandline.vocabulary.log import ProduceEntry, ProduceResult, ProducerIdentity
from tests.strandline.client.network import FastClock, Network, answering, metadata
from tests.waiting import eventually

ADDRESS = "broker1:9092"


class Topic(Network):
    """One broker that leads topic `t`. It takes batches, but for what `refusals` says first."""

    def __init__(self, *, records_max: int = 1_000) -> None:
        super().__init__()
        self.brokers[ADDRESS] = answering(metadata((1, 5), brokers=(1,)))
        self.records_max = records_max
        self.refusals: deque[StrandlineError] = deque()
        self.log: list[str] = []
        self.tries = 0
        self.opened = 0
        self.open_to_writers = asyncio.Event()
        self.open_to_writers.set()

    async def call(
        self, address: str, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        if method.path == INIT_PRODUCER_ID.path:
            identity: Any = ProducerIdentity(7, 0)
            found: Response = identity
            return found
        return await super().call(address, method, request, timeout_s=timeout_s)

    async def open(
        self, address: str, method: Method[Request, Response], *, timeout_s: float
    ) -> Stream[Request, Response]:
        self.opened += 1
        stream: Any = _Stream(self)
        opened: Stream[Request, Response] = stream
        return opened

    def take(self, entry: ProduceEntry) -> ProduceResult:
        self.tries += 1
        values = [(record.value or b"").decode() for record in decode(entry.records)]
        error: StrandlineError | None = None
        if len(values) > self.records_max:
            error = MessageTooLarge(f"{len(values)} records")
        elif self.refusals:
            error = self.refusals.popleft()
        if error is None or isinstance(error, DuplicateSequence):
            self.log += values
        return ProduceResult(entry.correlation_id, error, 0)


class _Stream:
    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._results: asyncio.Queue[ProduceResult] = asyncio.Queue()

    async def write(self, request: Sequence[ProduceEntry]) -> None:
        await self._topic.open_to_writers.wait()
        for entry in request:
            result = self._topic.take(entry)
            if isinstance(result.error, OutcomeUnknown):
                raise result.error
            self._results.put_nowait(result)

    async def read(self) -> Sequence[ProduceResult]:
        return [await self._results.get()]

    async def finish(self) -> None:
        return

    def close(self) -> None:
        return


class Writes:
    """The outcome of each event, in the order of the callbacks."""

    def __init__(self, writer: EventWriter) -> None:
        self.writer = writer
        self.ends: list[tuple[str, bool]] = []

    def put(self, *values: str) -> None:
        for value in values:
            self.writer.put(b"k", value.encode(), 1, partial(self._ended, value))

    def _ended(self, value: str, in_log: bool) -> None:
        self.ends.append((value, in_log))


@asynccontextmanager
async def writing(topic: Topic, *, events_max: int = 1_000) -> AsyncIterator[Writes]:
    async def prepare() -> None:
        return

    async with EventWriter(
        ADDRESS, "t", events_max=events_max, prepare=prepare, transport=topic, clock=FastClock()
    ) as writer:
        yield Writes(writer)


async def test_an_event_is_confirmed_once_it_is_in_the_log() -> None:
    topic = Topic()
    topic.open_to_writers.clear()
    async with writing(topic) as writes:
        writes.put("a", "b")
        for _ in range(10):
            await asyncio.sleep(0)
        assert writes.ends == []
        topic.open_to_writers.set()
        assert await writes.writer.flush(10)
        assert topic.log == ["a", "b"]
        assert writes.ends == [("a", True), ("b", True)]


async def test_events_that_belong_together_are_shown_as_one() -> None:
    """Once, and that they are in the log only if all are."""
    topic = Topic()
    topic.open_to_writers.clear()
    ends: list[tuple[str, bool]] = []
    async with writing(topic, events_max=3) as writes:
        put_all = writes.writer.put_all
        put_all([(b"k", b"a"), (b"k", b"b")], 1, lambda in_log: ends.append(("a, b", in_log)))
        put_all([(b"k", b"c"), (b"k", b"d")], 1, lambda in_log: ends.append(("c, d", in_log)))
        put_all([], 1, lambda in_log: ends.append(("nothing", in_log)))
        put_all([], 1)
        assert ends == [("nothing", True)]  # there was no room for a; b waits
        topic.open_to_writers.set()
        assert await writes.writer.flush(10)
        assert topic.log == ["b", "c", "d"]
        assert ends == [("nothing", True), ("a, b", False), ("c, d", True)]


async def test_listeners_are_optional() -> None:
    topic = Topic()
    async with writing(topic) as writes:
        writes.writer.put(b"k", b"a", 1)
        assert await writes.writer.flush(10)
        assert topic.log == ["a"]


@pytest.mark.parametrize("error", [NotEnoughReplicas("1 in sync"), OutcomeUnknown("no answer")])
async def test_a_retry_is_reported_once(error: StrandlineError) -> None:
    """CORRECTNESS Q5: an outcome that is unknown yet is no outcome."""
    topic = Topic()
    topic.refusals.extend([error, error])
    async with writing(topic) as writes:
        writes.put("a")
        assert await writes.writer.flush(10)
        assert topic.tries == 3
        assert writes.ends == [("a", True)]


async def test_a_writer_whose_key_is_refused_opens_its_stream_anew() -> None:
    """(X3) A stream shows the key that was read when it was opened; ZooKeeper may have another one."""
    topic = Topic()
    topic.refusals.extend([BrokerNotAvailable("another key"), NotEnoughReplicas("1 in sync")])
    async with writing(topic) as writes:
        writes.put("a")
        assert await writes.writer.flush(10)
        assert (topic.tries, topic.opened) == (3, 2)


async def test_a_batch_that_is_in_the_log_already_counts_as_written() -> None:
    """A batch whose acknowledgement was lost is recognized by its numbers."""
    topic = Topic()
    topic.refusals.append(DuplicateSequence("seen"))
    async with writing(topic) as writes:
        writes.put("a")
        assert await writes.writer.flush(10)
        assert writes.ends == [("a", True)]


async def test_a_permanently_refused_event_is_reported_as_lost_and_the_others_continue() -> None:
    topic = Topic()
    topic.refusals.append(InvalidRequest("never"))
    async with writing(topic) as writes:
        writes.put("a")
        assert await writes.writer.flush(10)
        writes.put("b")
        assert await writes.writer.flush(10)
        assert writes.ends == [("a", False), ("b", True)]
        assert (writes.writer.written, writes.writer.dropped) == (1, 1)


async def test_events_of_a_batch_that_must_be_split_are_reported_one_by_one() -> None:
    """Each exactly once, in order."""
    topic = Topic(records_max=3)
    async with writing(topic) as writes:
        values = [str(number) for number in range(10)]
        writes.put(*values)
        assert await writes.writer.flush(10)
        assert topic.log == values
        assert writes.ends == [(value, True) for value in values]


async def test_an_event_without_room_is_refused_at_once() -> None:
    """A caller that has it stored puts it again later: it need not wait to learn that it must."""
    topic = Topic()
    topic.open_to_writers.clear()
    async with writing(topic, events_max=2) as writes:
        writes.put("a", "b", "c", "d")  # no await: nothing is under way yet
        assert writes.ends == [("a", False), ("b", False)]
        topic.open_to_writers.set()
        assert await writes.writer.flush(10)
        assert writes.ends[2:] == [("c", True), ("d", True)]


async def test_a_caller_without_room_may_try_again_at_once() -> None:
    """No event is reported twice, and none is forgotten, if `done` itself puts events."""
    topic = Topic()
    async with writing(topic, events_max=2) as writes:
        writes.writer.put(b"k", b"a", 1, lambda ok: None if ok else writes.put("again"))
        writes.put("b", "c")
        await eventually(lambda: len(writes.ends) == 3)
        assert sorted(writes.ends) == [("again", True), ("b", False), ("c", True)]
        assert topic.log == ["c", "again"]
