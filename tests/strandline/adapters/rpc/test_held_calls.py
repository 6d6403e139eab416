"""An address has a bounded number of calls and streams open, over all its connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
import pytest
from grpc_health.v1 import health, health_pb2_grpc

from strandline.adapters.rpc.grpc_listener import add_calls, new_server
from strandline.adapters.rpc.refused_requests import LOGGED_EVERY_S, TOO_MANY, RefusedRequests
from strandline.adapters.rpc.server.held_calls import HeldCalls, TooManyCalls
from strandline.adapters.rpc.transport import GrpcTransport
from strandline.adapters.rpc.wire_errors import error_of_call
from strandline.config.services.controller import ControllerSettings
from strandline.errors import InvalidRequest, Outcome, ThrottlingQuotaExceeded
from strandline.ports import Caller, Listener, Method, Reply, Rpc, Served, ServedCall, ServedStream
from tests.broker.storage.support.disk import ManualClock
from tests.waiting import eventually

CALLS_MAX = 3
TIMEOUT_S = 10.0
ASK = Method("/test.Calls/Ask", str.encode, bytes.decode)
TALK = Method("/test.Calls/Talk", str.encode, bytes.decode)
HEALTH: Final = "/grpc.health.v1.Health/"


def rpc(method: Method[str, str]) -> Rpc[str, str]:
    return Rpc(method.path, bytes.decode, lambda answer, to: answer.encode())


@dataclass(slots=True)
class Port:
    """Holds calls until they may be answered; streams until their clients end them."""

    held: HeldCalls
    refused: RefusedRequests
    address: str = ""
    begun: int = 0
    answering: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, request: str, caller: Caller) -> str:
        self.begun += 1
        await self.answering.wait()
        return request

    async def talk(self, requests: AsyncIterator[str], reply: Reply[str], caller: Caller) -> None:
        self.begun += 1
        async for request in requests:
            await reply(request)


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    server, clock = grpc.aio.server(), ManualClock()
    port = Port(HeldCalls(CALLS_MAX), RefusedRequests(clock))
    add_calls(
        server,
        [ServedCall(rpc(ASK), port.ask), ServedStream(rpc(TALK), port.talk)],
        Listener.INTERNAL,
        clock,
        lambda *_: None,
        port.refused.note,
        held=port.held,
    )
    port.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    yield port
    await server.stop(None)


async def test_an_address_has_its_bound_over_all_connections(port: Port) -> None:
    """CORRECTNESS X14: refused with an error that a client tries again after, and counted; the calls that
    are open go on, and each that ends makes room."""
    transports = [GrpcTransport() for _ in range(CALLS_MAX)]
    one, other, another = transports
    stream = await one.open(port.address, TALK, timeout_s=TIMEOUT_S)
    await stream.write("held")
    assert await stream.read() == "held"
    async with asyncio.TaskGroup() as tasks:
        for transport in (one, other):
            tasks.create_task(transport.call(port.address, ASK, "held", timeout_s=TIMEOUT_S))
        await eventually(lambda: port.begun == CALLS_MAX, what="three are open")
        with pytest.raises(ThrottlingQuotaExceeded, match=r"127\.0\.0\.1 has 3 calls") as refused:
            await another.call(port.address, ASK, "one more", timeout_s=TIMEOUT_S)
        assert refused.value.outcome is Outcome.RETRIABLE
        assert refused.value.limit == CALLS_MAX
        further = await another.open(port.address, TALK, timeout_s=TIMEOUT_S)
        with pytest.raises(ThrottlingQuotaExceeded):
            await further.read()
        await stream.write("still held")
        assert await stream.read() == "still held"
        port.answering.set()
    assert [(metric, value) for metric, _, value in port.refused.read()] == [(TOO_MANY, 2)]
    assert await another.call(port.address, ASK, "after it", timeout_s=TIMEOUT_S) == "after it"
    stream.close()
    await eventually(lambda: port.held.addresses == 0, what="nothing is remembered")
    for transport in transports:
        await transport.close()


@pytest.mark.parametrize(
    ("path", "request_bytes"),
    [(ASK.path, None), (f"{HEALTH}Check", None), (f"{HEALTH}Watch", None), (f"{HEALTH}Watch", b"")],
)
async def test_a_call_counts_before_its_request_is_there(path: str, request_bytes: bytes | None) -> None:
    """CORRECTNESS X14: calls without one, and those of the health service, took all of `calls_max`, and no
    other address was served."""
    port, clock = Port(HeldCalls(CALLS_MAX), RefusedRequests(ManualClock())), ManualClock()
    server = new_server(ControllerSettings(), port.refused.note, port.held)
    asked: list[Served] = [ServedCall(rpc(ASK), port.ask)]
    add_calls(server, asked, Listener.INTERNAL, clock, lambda *_: None, port.refused.note, held=port.held)
    health_pb2_grpc.add_HealthServicer_to_server(health.aio.HealthServicer(), server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    async with grpc.aio.insecure_channel(address) as channel:
        calls: list[Any] = [channel.stream_stream(path)() for _ in range(CALLS_MAX)]
        for call in calls if request_bytes is not None else ():
            await call.write(request_bytes)
        await eventually(lambda: port.held.of("127.0.0.1") == CALLS_MAX, what="all count")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            one_more: Any = channel.unary_unary(path)
            await one_more(b"", timeout=TIMEOUT_S)
        assert isinstance(error_of_call(refused.value), ThrottlingQuotaExceeded)
        for call in calls:
            call.cancel()
        await eventually(lambda: port.held.addresses == 0, what="nothing is remembered")
        with pytest.raises(grpc.aio.AioRpcError) as empty:
            without: Any = channel.stream_unary(ASK.path)(iter(()), timeout=TIMEOUT_S)
            await without
        assert isinstance(error_of_call(empty.value), InvalidRequest)
    await server.stop(None)


def test_addresses_have_bounds_of_their_own() -> None:
    held = HeldCalls(1)
    with held.one("10.0.0.1"), held.one("10.0.0.2"):
        with pytest.raises(TooManyCalls):
            held.one("10.0.0.1")
        assert held.addresses == 2
    assert held.addresses == 0


def test_the_log_has_one_line_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock()
    refused = RefusedRequests(clock)
    for _ in range(3):
        refused.note(TooManyCalls("full"), "ipv4:10.0.0.1:1")
    clock.ms += int(LOGGED_EVERY_S * 1000)
    refused.note(TooManyCalls("full"), "ipv4:10.0.0.1:1")
    assert capsys.readouterr().out.count("too many calls") == 2
