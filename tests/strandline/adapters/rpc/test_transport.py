"""A message that cannot be encoded is refused at the call: gRPC itself would log it and send an empty
request."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import grpc
import pytest

from strandline.adapters.rpc.blocking import GrpcBlockingTransport
from strandline.adapters.rpc.transport import GrpcTransport
from strandline.adapters.rpc.wire_errors import never_sent
from strandline.errors import InvalidRequest, OutcomeUnknown, StrandlineError, UnknownTopicOrPartition
from strandline.ports import Method, StreamEnded
from strandline.rpc import group_pb2
from tests.waiting import eventually

TIMEOUT_S = 10.0
UNSENDABLE = ["\ud800", 3]


def encode(group: str) -> bytes:
    return group_pb2.FindCoordinatorRequest(group=group).SerializeToString()


def decode(data: bytes) -> str:
    group = group_pb2.FindCoordinatorRequest.FromString(data).group
    if group == "refused":
        raise UnknownTopicOrPartition("what an answer carries")
    return group


Call = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]

ASK = Method("/echo/Ask", encode, decode)
TALK = Method("/echo/Talk", encode, decode)
HOLD = Method("/echo/Hold", encode, decode)


@dataclass(slots=True)
class Echo:
    """Answers every request with itself, and keeps what arrived."""

    address: str
    arrived: list[bytes] = field(default_factory=list)


@pytest.fixture
async def echo() -> AsyncIterator[Echo]:
    server = grpc.aio.server()
    echo = Echo(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")

    async def ask(request: bytes, _: object) -> bytes:
        echo.arrived.append(request)
        return request

    async def hold(request: bytes, _: object) -> bytes:
        echo.arrived.append(request)
        await asyncio.Event().wait()
        return request

    async def talk(requests: AsyncIterator[bytes], _: object) -> AsyncIterator[bytes]:
        async for request in requests:
            echo.arrived.append(request)
            yield request

    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "Ask": grpc.unary_unary_rpc_method_handler(ask),
        "Hold": grpc.unary_unary_rpc_method_handler(hold),
        "Talk": grpc.stream_stream_rpc_method_handler(talk),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo", handlers),))
    await server.start()
    yield echo
    await server.stop(None)


@pytest.mark.parametrize("group", UNSENDABLE)
async def test_a_call_that_cannot_be_sent_is_refused(echo: Echo, group: str) -> None:
    transport = GrpcTransport()
    with pytest.raises(InvalidRequest, match="/echo/Ask cannot be sent: "):
        await transport.call(echo.address, ASK, group, timeout_s=TIMEOUT_S)
    assert await transport.call(echo.address, ASK, "g", timeout_s=TIMEOUT_S) == "g"
    assert echo.arrived == [encode("g")]
    await transport.close()


@pytest.mark.parametrize("group", UNSENDABLE)
async def test_a_message_of_a_stream_that_cannot_be_sent_is_refused_and_the_stream_continues(
    echo: Echo, group: str
) -> None:
    transport = GrpcTransport()
    stream = await transport.open(echo.address, TALK, timeout_s=TIMEOUT_S)
    with pytest.raises(InvalidRequest, match="/echo/Talk cannot be sent: "):
        await stream.write(group)
    await stream.write("g")
    assert await stream.read() == "g"
    assert echo.arrived == [encode("g")]
    await stream.finish()
    await transport.close()


@pytest.mark.parametrize("group", UNSENDABLE)
async def test_a_call_of_a_thread_that_cannot_be_sent_is_refused(echo: Echo, group: str) -> None:
    transport = GrpcBlockingTransport()
    with pytest.raises(InvalidRequest, match="/echo/Ask cannot be sent: "):
        transport.begin(echo.address, ASK, group, timeout_s=TIMEOUT_S)
    assert echo.arrived == []
    transport.close()


async def test_the_error_of_an_answer_in_a_stream_is_raised(echo: Echo) -> None:
    """gRPC would log what its deserializer raised, and hand out nothing."""
    transport = GrpcTransport()
    stream = await transport.open(echo.address, TALK, timeout_s=TIMEOUT_S)
    await stream.write("refused")
    with pytest.raises(StrandlineError, match="what an answer carries"):
        await stream.read()
    stream.close()
    await transport.close()


@pytest.mark.parametrize("close_all", [False, True])
async def test_a_reader_of_a_stream_that_another_task_closes_is_not_cancelled(
    echo: Echo, close_all: bool
) -> None:
    """gRPC reports that its call was cancelled; the reader's own task was not, and continues."""
    transport = GrpcTransport()
    stream = await transport.open(echo.address, TALK, timeout_s=TIMEOUT_S)
    await stream.write("g")
    assert await stream.read() == "g"

    async def read() -> None:
        with pytest.raises(OutcomeUnknown, match="was closed"):
            await stream.read()

    async with asyncio.timeout(TIMEOUT_S), asyncio.TaskGroup() as tasks:
        reader = tasks.create_task(read())
        await asyncio.sleep(0)
        if close_all:
            await transport.close()
        else:
            stream.close()
    assert not reader.cancelled()
    await transport.close()


async def test_a_caller_whose_connection_another_task_closes_is_not_cancelled(echo: Echo) -> None:
    """A task group forgot it, and the rest of a lookup of offsets waited for its answer without end."""
    transport = GrpcTransport()

    async def ask() -> None:
        with pytest.raises(OutcomeUnknown, match="was closed"):
            await transport.call(echo.address, HOLD, "g", timeout_s=TIMEOUT_S)

    async with asyncio.timeout(TIMEOUT_S), asyncio.TaskGroup() as tasks:
        caller = tasks.create_task(ask())
        await eventually(lambda: echo.arrived, what="the request has arrived")
        await transport.close()
    assert not caller.cancelled()
    with pytest.raises(InvalidRequest, match="has been stopped"):
        await transport.call(echo.address, ASK, "g", timeout_s=TIMEOUT_S)


async def test_a_task_cancelled_while_it_reads_stays_cancelled(echo: Echo) -> None:
    transport = GrpcTransport()
    stream = await transport.open(echo.address, TALK, timeout_s=TIMEOUT_S)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await stream.read()
    stream.close()
    await transport.close()


async def test_a_call_without_a_connection_is_distinguished_from_one_that_lost_it() -> None:
    """CORRECTNESS E9: a request that was never sent may be sent again, to another broker. A channel that
    was connected a moment ago may not be when the call is made."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        unconnected: Call = channel.unary_unary(ASK.path)
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await unconnected(b"")
    assert never_sent(failed.value)

    server, arrived = grpc.aio.server(), asyncio.Event()

    async def waits(_: bytes, context: object) -> bytes:
        arrived.set()
        return await asyncio.Future[bytes]()

    asked: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(waits)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo", {"Ask": asked}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        connected: Call = channel.unary_unary(ASK.path)
        call = connected(b"")
        await arrived.wait()
        await server.stop(None)
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await call
    assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
    assert not never_sent(failed.value)


async def test_a_stream_that_its_peer_ends_is_distinguished_from_one_that_breaks(echo: Echo) -> None:
    transport = GrpcTransport()
    stream = await transport.open(echo.address, TALK, timeout_s=TIMEOUT_S)
    await stream.write("g")
    assert await stream.read() == "g"
    await stream.finish()
    with pytest.raises(StreamEnded):
        await stream.read()
    await transport.close()
