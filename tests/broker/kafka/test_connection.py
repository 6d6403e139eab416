"""One connection as a state machine: any split of the bytes, any order in which requests are completed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.adapters.telemetry.kafka_traffic import UNSERVED
from strandline.broker.kafka.call import Api, Call
from strandline.broker.kafka.connection import KafkaConnection
from strandline.broker.kafka.router import Router
from strandline.broker.kafka.wire.apis import FETCH, INIT_PRODUCER_ID, PRODUCE
from strandline.broker.kafka.wire.fetch import FetchAnswer, FetchRequest
from strandline.broker.kafka.wire.produce import ProduceAnswer, ProduceRequest
from strandline.broker.kafka.wire.producer_id import InitProducerIdAnswer
from strandline.config.limits import MIB
from strandline.errors import StrandlineError
from tests.broker.kafka.support.codec import API_VERSIONS, encode_request
from tests.broker.kafka.support.memory_connection import MemoryShared, MemoryTransport, feed, turns

SOLO, MANY, SLOW, UNANSWERED, HELLO = "solo", "many", "slow", "unanswered", "hello"
"""Requests: InitProducerId; Produce with acks=all, with acks=1 and 0, which need a task; ApiVersions."""
POLL, FULL = "poll", "full"
"""Fetch: it waits without a task, and its time ends; or a task makes its answer then."""
SIZES = st.lists(st.sampled_from([1_000, 40, 7, 1]), min_size=1, max_size=4)
ACKS = {MANY: -1, SLOW: 1, UNANSWERED: 0}
WAITS_MS = {POLL: 500, FULL: 1_000}


def request(kind: str, number: int) -> bytes:
    if kind == HELLO:
        data = encode_request(API_VERSIONS, 0, {}, correlation_id=number)
    elif kind == SOLO:
        data = encode_request(INIT_PRODUCER_ID.key, 0, {}, correlation_id=number)
    elif kind in WAITS_MS:
        data = encode_request(FETCH.key, 4, {"max_wait_ms": WAITS_MS[kind]}, correlation_id=number)
    else:
        data = encode_request(PRODUCE.key, 3, {"acks": ACKS[kind]}, correlation_id=number)
    return len(data).to_bytes(4, "big") + data


@dataclass
class Held:
    """The requests that have begun and are not completed."""

    begun: list[int] = field(default_factory=list)
    open: dict[int, tuple[str, Callable[[], None]]] = field(default_factory=dict)
    fails: bool = False

    def _hold(self, number: int, kind: str, complete: Callable[[], None]) -> None:
        kinds = {held for held, _ in self.open.values()}
        follows = kind in (MANY, SLOW, UNANSWERED)
        assert not kinds or (kinds == {MANY} and follows), f"{kind} overtakes {kinds}"
        self.begun.append(number)
        self.open[number] = kind, complete

    def begin(self, asked: ProduceRequest, call: Call, done: Callable[[ProduceAnswer], None]) -> bool:
        if asked.acks != -1:
            return False
        self._hold(call.header.correlation_id, MANY, lambda: done(ProduceAnswer(())))
        return True

    async def _wait(self, call: Call, kind: str) -> None:
        completed = asyncio.Event()
        number = call.header.correlation_id
        self._hold(number, kind, completed.set)
        try:
            await completed.wait()
        finally:
            self.open.pop(number, None)
        if self.fails:
            raise StrandlineError("as the test wants it")

    async def produce(self, asked: ProduceRequest, call: Call, reply: Any) -> None:
        await self._wait(call, SLOW)
        if asked.acks:
            await reply(ProduceAnswer(()))

    async def init(self, asked: object, call: Call, reply: Any) -> None:
        await self._wait(call, SOLO)
        await reply(InitProducerIdAnswer())

    def wait(
        self, asked: FetchRequest, call: Call, done: Callable[[FetchAnswer | None], None]
    ) -> Callable[[], None]:
        number = call.header.correlation_id
        answer = None if asked.wait_ms == WAITS_MS[FULL] else FetchAnswer(())
        self._hold(number, POLL, lambda: done(answer))

        def end() -> None:
            del self.open[number]

        return end

    async def fetch(self, asked: FetchRequest, call: Call, reply: Any) -> None:
        assert asked.wait_ms == WAITS_MS[FULL]
        await reply(FetchAnswer(()))

    def complete(self, number: int) -> None:
        _, complete = self.open.pop(number)
        complete()

    @property
    def router(self) -> Router:
        return Router(
            [
                Api(PRODUCE, self.produce, self.begin, changes=True),
                Api(INIT_PRODUCER_ID, self.init),
                Api(FETCH, self.fetch, wait=self.wait),
            ]
        )


@asynccontextmanager
async def connected(
    held: Held, **options: int
) -> AsyncIterator[tuple[MemoryShared, KafkaConnection, MemoryTransport]]:
    async with asyncio.TaskGroup() as tasks:
        shared = MemoryShared(held.router, tasks, **options)
        connection, transport = shared.connect()
        yield shared, connection, transport
        for number in list(held.open):
            held.complete(number)
        transport.close()
        connection.connection_lost(None)


def numbers(transport: MemoryTransport) -> list[int]:
    return [int.from_bytes(frame[:4], "big") for frame in transport.frames()]


@given(
    st.lists(
        st.sampled_from([SOLO, MANY, MANY, SLOW, UNANSWERED, HELLO, POLL, FULL]), min_size=1, max_size=12
    ),
    st.data(),
)
async def test_answers_leave_in_order_and_none_is_lost(kinds: list[str], data: st.DataObject) -> None:
    """Requests begin in order, and only Produce is in progress more than once."""
    held = Held()
    left = b"".join(request(kind, number) for number, kind in enumerate(kinds))
    async with connected(held) as (shared, connection, transport):
        while left or held.open:
            can_feed = bool(left) and transport.is_reading()
            assert can_feed or held.open, "it reads no further, and nothing is in progress"
            if can_feed and (not held.open or data.draw(st.booleans(), "feed")):
                left = feed(connection, transport, left, data.draw(SIZES, "sizes"))
            elif held.open:
                held.complete(data.draw(st.sampled_from(sorted(held.open)), "complete"))
            if data.draw(st.booleans(), "turn") or not held.open:
                await turns()
        await turns()
        asked = [number for number, kind in enumerate(kinds) if kind != UNANSWERED]
        assert numbers(transport) == asked
        assert held.begun == [number for number, kind in enumerate(kinds) if kind != HELLO]
        assert not connection.busy and not shared.refused and transport.is_reading()


async def test_requests_behind_one_that_has_to_wait_stay_with_the_client() -> None:
    """One frame is all that a client which does not wait for answers makes a broker hold."""
    held = Held()
    async with connected(held) as (_, connection, transport):
        data = b"".join(request(SOLO, number) for number in range(10))
        left = feed(connection, transport, data, repeat(1_000))
        assert len(left) == 8 * len(request(SOLO, 0))
        assert not transport.is_reading()


async def test_a_producer_has_a_bound_of_requests_in_flight() -> None:
    held = Held()
    async with connected(held) as (shared, connection, transport):
        data = b"".join(request(MANY, number) for number in range(10))
        left = feed(connection, transport, data, repeat(1_000))
        assert len(held.open) == shared.requests_in_flight_max
        held.complete(3)
        await turns()
        assert not transport.is_reading(), "the answer of an earlier request is missing"
        held.complete(0)
        await turns()
        feed(connection, transport, left, repeat(1_000))
        assert numbers(transport) == [0]
        assert sorted(held.open) == [1, 2, 4, 5]


class Placed(Held):
    """Its tasks of Produce say that their batches have their places, and are completed later."""

    async def produce(self, asked: ProduceRequest, call: Call, reply: Any) -> None:
        await self._wait(call, SLOW)
        call.begun()
        self._hold(-call.header.correlation_id, MANY, (answered := asyncio.Event()).set)
        await answered.wait()
        await reply(ProduceAnswer(()))


async def test_requests_behind_one_whose_batches_have_their_places_begin() -> None:
    """A transaction's first batch waits for a coordinator; those behind it do not wait for its replicas."""
    held = Placed()
    async with connected(held) as (_, connection, transport):
        feed(connection, transport, request(SLOW, 1) + request(MANY, 2), repeat(1_000))
        await turns()
        assert sorted(held.open) == [1]
        held.complete(1)
        await turns()
        assert sorted(held.open) == [-1, 2]
        held.complete(2)
        await turns()
        assert numbers(transport) == []
        held.complete(-1)
        await turns()
        assert numbers(transport) == [1, 2]


async def test_nothing_begins_while_the_client_does_not_read_its_answers() -> None:
    held = Held()
    async with connected(held) as (_, connection, transport):
        connection.pause_writing()
        feed(connection, transport, request(SOLO, 1), repeat(1_000))
        await turns()
        assert not held.open and not transport.is_reading()
        connection.resume_writing()
        await turns()
        assert sorted(held.open) == [1] and transport.is_reading()


async def test_a_read_ends_with_its_connection_and_a_batch_is_appended() -> None:
    """A client may send with acks=0 and hang up: what has arrived counts."""
    held = Held()
    async with connected(held) as (_, connection, transport):
        feed(connection, transport, request(UNANSWERED, 1), repeat(1_000))
        transport.close()
        connection.connection_lost(None)
        await turns()
        assert sorted(held.open) == [1]
    other = Held()
    async with connected(other) as (_, connection, transport):
        feed(connection, transport, request(SOLO, 1), repeat(1_000))
        await turns()
        transport.close()
        connection.connection_lost(None)
        await turns()
        assert other.begun == [1] and not other.open


async def test_a_wait_without_a_task_ends_with_its_connection() -> None:
    """CORRECTNESS X6: what it holds is given back, and nothing is answered."""
    held = Held()
    async with connected(held) as (shared, connection, transport):
        feed(connection, transport, request(POLL, 1), repeat(1_000))
        assert held.begun == [1] and connection.busy
        assert shared.memory.left == 64 * MIB, "nothing of the frame is needed while it waits"
        connection.connection_lost(None)
        assert not held.open and not transport.written


async def test_a_failure_without_an_answer_closes_the_connection() -> None:
    held = Held(fails=True)
    async with connected(held) as (_, connection, transport):
        feed(connection, transport, request(UNANSWERED, 1), repeat(1_000))
        await turns()
        held.complete(1)
        await turns()
        assert transport.is_closing() and not transport.written


async def test_a_malformed_request_closes_the_connection() -> None:
    """CORRECTNESS X6: also a length that no frame may have, before any memory is taken for it."""
    for data in (
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        bytes(4),
        b"\0\0\0\x02\0\x00",
        b"\0\0\0\x05hello",
        b"GET / HTTP/1.1",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # the beginning of TLS
        b"\0\0\0\x0a\0\x03\x7f\xff\0\0\0\x01\xff\xff",  # Metadata of the future
        b"\0\0\0\x0a\0\x63\0\0\0\0\0\x01\xff\xff",  # an API of the future
    ):
        async with connected(Held()) as (shared, connection, transport):
            feed(connection, transport, data, repeat(1_000))
            unserved = [each for each in shared.traffic.read() if each.metric is UNSERVED]
            assert transport.is_closing() and len(shared.refused) + len(unserved) == 1, data
            assert shared.memory.left == 64 * MIB


async def test_a_frame_takes_memory_as_it_arrives() -> None:
    """CORRECTNESS X6: a length that is a lie costs the first piece of memory, and no more."""
    async with connected(Held()) as (shared, connection, transport):
        feed(connection, transport, (16 * MIB).to_bytes(4, "big") + bytes(1_000), repeat(1_000))
        assert 64 * MIB - shared.memory.left == 64 * 1024
        feed(connection, transport, bytes(3 * MIB), repeat(MIB))
        assert 64 * MIB - shared.memory.left == 4 * MIB
        connection.connection_lost(None)
        assert shared.memory.left == 64 * MIB


def large(number: int) -> bytes:
    """A frame that is just too large for the memory of small ones."""
    small = request(SOLO, number)[4:]
    data = small + bytes(64 * 1024 + 1 - len(small))
    return len(data).to_bytes(4, "big") + data


FOR_ONE_LARGE = (64 * 1024 + 100) * 4 // 3
"""Memory whose part for large frames has room for one, and 100 bytes."""


async def test_frames_of_all_connections_share_one_bound() -> None:
    """CORRECTNESS X6: a frame that finds no memory waits until another one has arrived, or was given up."""
    held = Held()
    async with connected(held, memory_bytes=FOR_ONE_LARGE) as (shared, first, first_transport):
        second, second_transport = shared.connect()
        feed(first, first_transport, (16 * MIB).to_bytes(4, "big"), repeat(4))
        left = feed(second, second_transport, large(1), repeat(1_000))
        assert not second_transport.is_reading() and len(left) == len(large(1)) - 4
        first.connection_lost(None)
        assert second_transport.is_reading()
        assert not feed(second, second_transport, left, repeat(1_000))
        await turns()
        assert sorted(held.open) == [1]
        held.complete(1)
        await turns()
        assert shared.memory.left == FOR_ONE_LARGE
        second.connection_lost(None)


async def test_a_small_request_does_not_wait_behind_large_frames_that_never_end() -> None:
    """CORRECTNESS X6: heartbeats and metadata go on while others hold all of the memory for large frames."""
    held = Held()
    async with connected(held, memory_bytes=FOR_ONE_LARGE) as (shared, first, first_transport):
        second, second_transport = shared.connect()
        third, third_transport = shared.connect()
        feed(first, first_transport, (16 * MIB).to_bytes(4, "big"), repeat(4))
        feed(second, second_transport, large(1), repeat(1_000))
        feed(third, third_transport, request(SOLO, 2), repeat(1_000))
        await turns()
        assert not second_transport.is_reading() and sorted(held.open) == [2]
        for connection in (first, second, third):
            connection.connection_lost(None)


@pytest.mark.parametrize("hosts", [["192.0.2.1"] * 3, [f"2001:db8::{number}" for number in range(3)]])
async def test_a_large_request_does_not_wait_behind_frames_of_one_client_that_never_end(
    hosts: list[str],
) -> None:
    """CORRECTNESS X6: however many connections it has, other clients have half of the memory."""
    held = Held()
    async with connected(held) as (shared, first, first_transport):
        hostile = [(first, first_transport), *map(shared.connect, hosts)]
        for connection, transport in hostile:
            feed(connection, transport, (16 * MIB).to_bytes(4, "big") + bytes(16 * MIB - 1), repeat(MIB))
        assert not hostile[-1][1].is_reading()
        other, other_transport = shared.connect("192.0.2.2")
        assert not feed(other, other_transport, large(1), repeat(1_000))
        await turns()
        assert sorted(held.open) == [1]
        held.complete(1)
        await turns()
        for connection in (*(each for each, _ in hostile), other):
            connection.connection_lost(None)
        assert shared.memory.left == 64 * MIB


async def test_a_connection_that_ends_while_it_waits_for_memory_gets_none() -> None:
    """CORRECTNESS X6: nothing would give it back."""
    async with connected(Held(), memory_bytes=FOR_ONE_LARGE) as (shared, first, first_transport):
        second, second_transport = shared.connect()
        feed(first, first_transport, (16 * MIB).to_bytes(4, "big"), repeat(4))
        feed(second, second_transport, large(1), repeat(4))
        assert not second_transport.is_reading()
        second.connection_lost(None)
        first.connection_lost(None)
        assert shared.memory.left == FOR_ONE_LARGE


async def test_a_request_has_its_memory_until_it_is_done() -> None:
    """CORRECTNESS X6: also one that may not begin yet."""
    held, size = Held(), len(request(SOLO, 0)) - 4
    async with connected(held) as (shared, connection, transport):
        feed(connection, transport, request(SOLO, 0) + request(SOLO, 1), repeat(1_000))
        assert 64 * MIB - shared.memory.left == 2 * size
        await turns()
        held.complete(0)
        await turns()
        assert 64 * MIB - shared.memory.left == size
        held.complete(1)
        await turns()
        assert shared.memory.left == 64 * MIB
        feed(connection, transport, request(SOLO, 2) + request(SOLO, 3), repeat(1_000))
        connection.connection_lost(None)
        await turns()
        assert shared.memory.left == 64 * MIB


async def test_a_client_that_reads_no_answers_is_overdue() -> None:
    """CORRECTNESS X6: a request in progress is no excuse. One that reads slowly has longer."""
    held = Held()
    async with connected(held) as (shared, connection, transport):
        feed(connection, transport, request(SOLO, 1), repeat(1_000))
        now = shared.now()

        def overdue(after: float) -> bool:
            return connection.overdue(now + after, idle_s=100, frame_s=1_000, write_s=10)

        assert not overdue(1_000)
        transport.unread = 500
        connection.pause_writing()
        assert not overdue(9) and overdue(11)
        for after in range(20, 100, 9):
            transport.unread -= 1
            assert not overdue(after)
            assert not overdue(after + 8)
        transport.unread -= 1
        assert overdue(101)
        connection.resume_writing()
        assert not overdue(1_000)
        connection.close()
        assert overdue(1_000)


async def test_traffic_is_counted() -> None:
    """Requests by API and version answer the question who still speaks an old one."""
    held = Held()
    async with connected(held) as (shared, connection, transport):
        hello = encode_request(
            API_VERSIONS, 3, {"client_software_name": "some-client", "client_software_version": "1.0"}
        )
        sent = (len(hello).to_bytes(4, "big") + hello) * 2 + request(SOLO, 1) + request(UNANSWERED, 2)
        left = sent
        while left or held.open:
            left = feed(connection, transport, left, repeat(1_000))
            await turns()
            held.fails = 2 in held.open
            for number in list(held.open):
                held.complete(number)
            await turns()
        traffic = shared.traffic
        assert (traffic.bytes_in, traffic.bytes_out) == (len(sent), len(transport.written))
        found = {(sample.metric.name, *sample.labels): sample.value for sample in traffic.read()}
        assert {key: value for key, value in found.items() if len(key) > 1} == {
            ("strandline_kafka_requests_total", "ApiVersions", "3"): 2,
            ("strandline_kafka_requests_total", "InitProducerId", "0"): 1,
            ("strandline_kafka_requests_total", "Produce", "3"): 1,
            ("strandline_kafka_failed_requests_total", "Produce"): 1,
            ("strandline_kafka_clients_total", "some-client", "1.0"): 1,
        }


@pytest.mark.parametrize(
    ("key", "version", "request_name"),
    [
        (76, 1, "ShareGroupHeartbeat"),
        (INIT_PRODUCER_ID.key, 99, "InitProducerId"),
        (7_777, 0, "other"),
        (API_VERSIONS, 99, "ApiVersions"),
    ],
)
async def test_what_is_not_served_is_counted_by_the_software_that_asks(
    key: int, version: int, request_name: str
) -> None:
    """The client hears nothing but the end of its connection; with ApiVersions it gets an answer."""
    async with connected(Held()) as (shared, connection, transport):
        hello = encode_request(
            API_VERSIONS, 3, {"client_software_name": "some-client", "client_software_version": "1.0"}
        )
        asked = key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff"
        left = b"".join(len(each).to_bytes(4, "big") + each for each in (hello, asked))
        while left:
            left = feed(connection, transport, left, repeat(1_000))
            await turns()
        found = {sample.labels: sample.value for sample in shared.traffic.read() if sample.metric is UNSERVED}
        assert found == {(request_name, "some-client"): 1}
        assert transport.is_closing() == (key != API_VERSIONS) and not shared.refused
