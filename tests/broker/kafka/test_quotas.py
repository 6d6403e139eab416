"""Clients of Kafka's protocol that are over their quota: the answer says so, and their requests wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from strandline.broker.kafka.call import Api, Call
from strandline.broker.kafka.connection import KafkaConnection
from strandline.broker.kafka.router import Router
from strandline.broker.kafka.wire.apis import HEARTBEAT, INIT_PRODUCER_ID, PRODUCE
from strandline.broker.kafka.wire.fetch import FetchAnswer, FetchRequest, PartitionPosition
from strandline.broker.kafka.wire.groups.membership import HeartbeatAnswer
from strandline.broker.kafka.wire.header import RequestHeader
from strandline.broker.kafka.wire.produce import ProduceAnswer, ProduceRequest
from strandline.broker.kafka.wire.producer_id import InitProducerIdAnswer
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.ids import Offset
from strandline.ports import Caller
from strandline.security.quotas.bill import ClientQuotas
from strandline.security.quotas.model import DEFAULT, Quota, QuotaEntity, Quotas
from tests.broker.kafka.support.asking import fetch_api, log_handlers
from tests.broker.kafka.support.codec import encode_request
from tests.broker.kafka.support.memory_connection import MemoryShared, MemoryTransport, feed, turns
from tests.broker.support.replicas import NAME, write
from tests.broker.support.seat import seated
from tests.hand_clock import HandClock
from tests.waiting import eventually

WRITTEN, READ, WORK = Quota.PRODUCER_BYTE_RATE, Quota.CONSUMER_BYTE_RATE, Quota.REQUEST_PERCENTAGE
CALLER = Caller("kafka:192.0.2.1:1", "192.0.2.1")


def limited(limits: dict[Quota, float]) -> Quotas:
    return Quotas({QuotaEntity(None, DEFAULT): limits})


class Served:
    """APIs that use up the quotas as the test says."""

    def __init__(self, *, produced: int = 0, worked: Callable[[], None] = lambda: None) -> None:
        self.produced = produced
        self.worked = worked
        self.begun: list[str] = []

    def produce(self, asked: ProduceRequest, call: Call, done: Callable[[ProduceAnswer], None]) -> bool:
        self.begun.append("Produce")
        if call.bill is not None:
            call.bill.charge(WRITTEN, self.produced)
        done(ProduceAnswer(()))
        return True

    async def init(self, asked: object, call: Call, reply: Any) -> None:
        self.begun.append("InitProducerId")
        self.worked()
        await asyncio.sleep(0)
        self.worked()
        await reply(InitProducerIdAnswer())

    async def heartbeat(self, asked: object, call: Call, reply: Any) -> None:
        self.begun.append("Heartbeat")
        await reply(HeartbeatAnswer())

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[MemoryShared, KafkaConnection, MemoryTransport]]:
        async def never(asked: object, call: Call, reply: Any) -> None:
            raise AssertionError("all are appended at once")

        apis: list[Api[Any, Any]] = [
            Api(PRODUCE, never, self.produce, paid_before=(WRITTEN,), changes=True),
            Api(INIT_PRODUCER_ID, self.init),
            Api(HEARTBEAT, self.heartbeat, urgent=True),
        ]
        async with asyncio.TaskGroup() as tasks:
            shared = MemoryShared(Router(apis), tasks)
            connection, transport = shared.connect()
            yield shared, connection, transport
            transport.close()
            connection.connection_lost(None)


def frame(api: int, version: int = 0, client_id: str = "x", **fields: Any) -> bytes:
    data = encode_request(api, version, fields, client=client_id)
    return len(data).to_bytes(4, "big") + data


HELD, LIVES = frame(INIT_PRODUCER_ID.key), frame(HEARTBEAT.key)


def send(connection: KafkaConnection, transport: MemoryTransport, data: bytes) -> bytes:
    """Returns what is not read."""
    return feed(connection, transport, data, [1_000] * 100)


def throttle_ms(answer: bytes, at: int = 8) -> int:
    """What stands at this place, behind the empty array of a Produce."""
    return int.from_bytes(answer[at : at + 4], "big")


async def test_who_is_over_the_quota_learns_for_how_long_and_is_held() -> None:
    """All but the requests by which a member stays in its group; the rest goes on by itself."""
    served = Served(produced=1_040)
    async with served.connected() as (shared, connection, transport):
        shared.quotas.take(limited({WRITTEN: 1_000}))
        assert not send(connection, transport, frame(PRODUCE.key, 3, acks=-1) + LIVES)
        await turns()
        assert served.begun == ["Produce", "Heartbeat"]
        assert 0 < throttle_ms(transport.frames()[0]) <= 40
        unread = send(connection, transport, HELD + LIVES)
        assert served.begun == ["Produce", "Heartbeat"]
        assert unread == LIVES and not transport.is_reading()
        await eventually(lambda: served.begun[2:] == ["InitProducerId"])
        assert transport.is_reading()
        await eventually(lambda: len(transport.frames()) == 3)
        assert throttle_ms(transport.frames()[2], at=4) == 0


async def test_another_client_id_is_not_held_and_a_new_quota_counts_at_once() -> None:
    served = Served(produced=10_000)
    async with served.connected() as (shared, connection, transport):
        send(connection, transport, frame(PRODUCE.key, 3, acks=-1))
        shared.quotas.take(Quotas({QuotaEntity(None, "other"): {WRITTEN: 1_000}}))
        send(connection, transport, frame(PRODUCE.key, 3, acks=-1) + frame(PRODUCE.key, 3, "other", acks=-1))
        await turns()
        assert [throttle_ms(each) for each in transport.frames()] == [0, 0, 5_000]
        assert send(connection, transport, HELD) == b""
        assert served.begun == ["Produce"] * 3


async def test_a_client_pays_for_the_time_of_its_requests() -> None:
    """Half a second of work with ten percent of the loop: it waits until the loop has had its share."""
    clock = HandClock()

    def worked() -> None:
        clock.now_s += 0.25

    served = Served(worked=worked)
    async with served.connected() as (shared, connection, transport):
        shared.clock = clock
        shared.quotas.take(limited({WORK: 10}))
        send(connection, transport, HELD)
        await eventually(lambda: len(transport.frames()) == 1)
        assert throttle_ms(transport.frames()[0], at=4) == pytest.approx(4_000, abs=1)


class SlowRouter(Router):
    """Half a second passes while it reads a request."""

    clock: HandClock

    def read(self, data: Any, permits: Callable[[int], bool] = lambda _: True) -> Any:
        self.clock.now_s += 0.5
        return super().read(data, permits)


async def test_a_client_pays_for_reading_its_requests() -> None:
    """Also for one that is malformed: a new connection for each would cost nothing."""
    served, clock = Served(), HandClock()
    async with served.connected() as (shared, _, _):
        shared.router, shared.clock = SlowRouter([Api(INIT_PRODUCER_ID, served.init)]), clock
        shared.router.clock = clock
        shared.quotas.take(Quotas({QuotaEntity(DEFAULT): {WORK: 10}}))
        others = [shared.connect() for _ in range(2)]
        send(*others[0], LIVES)
        assert others[0][1].is_closing(), "this router has no Heartbeat"
        send(*others[1], HELD)
        await turns()
        assert served.begun == []
        for connection, _ in others:
            connection.connection_lost(None)


async def test_what_a_client_owes_holds_its_next_connection_too() -> None:
    """A20: time of the broker, and bytes. Members of groups go on, and so does another client id."""
    clock = HandClock()

    def worked() -> None:
        clock.now_s += 0.25

    served = Served(produced=10_000, worked=worked)
    async with served.connected() as (shared, connection, transport):
        shared.clock = clock
        shared.quotas.take(limited({WORK: 10}))
        send(connection, transport, HELD)
        await eventually(lambda: len(transport.frames()) == 1)
        others = [shared.connect() for _ in range(4)]
        send(*others[0], LIVES + HELD)
        await turns()
        assert served.begun == ["InitProducerId", "Heartbeat"]
        shared.quotas.take(Quotas({QuotaEntity(None, each): {WRITTEN: 1_000} for each in ("x", "other")}))
        writes = partial(frame, PRODUCE.key, 3, acks=-1)
        for client_id, other in zip(("x", "other", "x"), others[1:], strict=True):
            send(*other, writes(client_id))
        assert served.begun[2:] == ["Produce", "Produce"], "the third connection is one of the first client"
        for connection, _ in others:
            connection.connection_lost(None)


async def test_a_fetch_gets_what_a_second_allows_and_then_nothing(tmp_path: Path) -> None:
    """As from Kafka: no client waits for an answer, and each pays before it gets more."""
    answers: list[FetchAnswer] = []
    clock = HandClock()
    quotas = ClientQuotas(lambda _: False, clock.monotonic, delay_ms_max=5_000)
    quotas.take(limited({READ: 100}))
    bill = quotas.of(CALLER)
    assert bill is not None
    call = Call(RequestHeader(1, 12, 1, "x"), CALLER, bill=bill)
    wanted = (OfTopic(NAME.topic, (PartitionPosition(NAME.partition, -1, 0, 10**6),)),)
    request = FetchRequest(0, 0, 10**6, 0, wanted)

    async def reply(answer: FetchAnswer) -> None:
        answers.append(answer)

    async with seated(tmp_path) as seat:
        for value in ("a" * 60, "b" * 60, "c" * 60):
            write(seat.replica, 4, value)
        seat.replica.raise_watermark(Offset(3))
        seat.lead_alone(5)
        handlers = log_handlers(seat)
        api = fetch_api(handlers)
        await api.handle(request, call, reply)
        assert api.wait(request._replace(bytes_min=1), call, lambda _: None) is None
        await api.handle(request, call, reply)
    ((first,),) = [topic.partitions for topic in answers[0].topics]
    assert 100 < len(first.records) < 200, "one batch, which is larger than what a second allows"
    assert bill.wait_s == pytest.approx(len(first.records) / 100 - 1)
    assert answers[1] == FetchAnswer(())
