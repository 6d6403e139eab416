"""Defects: which exceptions count, where they are caught, and how they end a process (Kafka's design V2,
goal 2)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import grpc
import pytest

from strandline.adapters.rpc.grpc_listener import add_calls
from strandline.adapters.rpc.refused_requests import RefusedRequests
from strandline.adapters.rpc.request_parsing import parse
from strandline.adapters.rpc.request_times import RequestTimes
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.system.fail_fast import DEFECT_STATUS, defect_in, defect_told
from strandline.errors import InvalidRequest, StorageFailed
from strandline.ports import Caller, Listener, Reply, Rpc, ServedStream
from strandline.rpc import log_pb2
from strandline.states import IllegalTransition


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (IllegalTransition("x"), True),
        (AssertionError("x"), True),
        (KeyError("x"), True),
        (StorageFailed("x"), False),
        (ConnectionResetError("x"), False),
        (asyncio.CancelledError(), False),
        (grpc.aio.UsageError("x"), False),
        (ExceptionGroup("x", [StorageFailed("x"), ExceptionGroup("y", [KeyError("x")])]), True),
        (ExceptionGroup("x", [StorageFailed("x"), ConnectionResetError("x")]), False),
    ],
)
def test_a_defect_is_an_unexpected_error(error: BaseException, found: bool) -> None:
    assert (defect_in(error) is not None) is found


@pytest.mark.parametrize(
    ("message", "error", "found"),
    [
        (
            "Fatal error on SSL protocol",
            RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed"),
            False,
        ),
        ("Fatal error on SSL protocol", RuntimeError("dictionary changed size during iteration"), True),
        ("Fatal error on SSL protocol", KeyError("x"), True),
        ("Task exception was never retrieved", RuntimeError("x; the handler is closed"), True),
        ("Exception in callback", KeyError("x"), True),
        ("Exception in callback", ConnectionResetError("x"), False),
        ("a message alone", None, False),
    ],
)
def test_the_end_of_an_encrypted_connection_is_no_defect(
    message: str, error: Exception | None, found: bool
) -> None:
    """CORRECTNESS X14: a peer that dies in a handshake must not end those that were greeting it."""
    assert (defect_told({"message": message, "exception": error}) is not None) is found


Handle = Callable[[AsyncIterator[bytes], Reply[bytes], Caller], Awaitable[None]]


def _decode(data: bytes) -> bytes:
    return parse(log_pb2.ProduceRequest, data).SerializeToString()


@asynccontextmanager
async def serving(**handles: Handle) -> AsyncIterator[tuple[grpc.aio.Channel, list[BaseException]]]:
    """A channel to a server of these streams of `strandline.v1.Log`, and the reports to the loop's
    handler."""
    heard: list[BaseException] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: heard.append(context["exception"]))
    server = grpc.aio.server()
    served = [
        ServedStream(Rpc(f"/strandline.v1.Log/{name}", _decode, lambda answer, to: answer), handle)
        for name, handle in handles.items()
    ]
    clock = SystemClock()
    times, refused = RequestTimes(clock), RefusedRequests(clock)
    add_calls(server, served, Listener.INTERNAL, clock, times.observe, refused.note)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel, heard
    finally:
        await server.stop(None)
        loop.set_exception_handler(None)


async def ended(channel: grpc.aio.Channel, name: str, *sent: bytes) -> grpc.StatusCode:
    call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(f"/strandline.v1.Log/{name}")()
    for each in sent:
        await call.write(each)
    await call.done_writing()
    return await call.code()


async def test_a_handlers_defect_is_reported_and_a_peers_fault_is_not() -> None:
    """Bytes that are no message, a refusal, and a peer that hangs up end no process."""

    async def breaks(requests: AsyncIterator[bytes], reply: Reply[bytes], caller: Caller) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_break())

    async def refuses(requests: AsyncIterator[bytes], reply: Reply[bytes], caller: Caller) -> None:
        raise InvalidRequest("no")

    async def reads(requests: AsyncIterator[bytes], reply: Reply[bytes], caller: Caller) -> None:
        async for _ in requests:
            await reply(b"x")

    async with serving(Breaks=breaks, Refuses=refuses, Reads=reads) as (channel, heard):
        assert await ended(channel, "Refuses") is grpc.StatusCode.INVALID_ARGUMENT
        assert await ended(channel, "Reads", b"\xff\xff\xff") is grpc.StatusCode.INVALID_ARGUMENT
        hung_up: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream("/strandline.v1.Log/Reads")()
        await hung_up.write(b"")
        hung_up.cancel()
        assert heard == []
        assert await ended(channel, "Breaks") is grpc.StatusCode.UNKNOWN
        (error,) = heard
        assert isinstance(defect_in(error), IllegalTransition)


async def _break() -> None:
    raise IllegalTransition("replica x: closed → leader is illegal")


PROCESS = """
import asyncio, threading, time
from strandline.adapters.system.fail_fast import FailFast, report

def withdraw():
    {withdraw}
    print("withdrawn", flush=True)

def broken():
    raise AssertionError("HW 7 above LEO 5")

async def main():
    loop = asyncio.get_running_loop()
    FailFast(withdraw).install(loop)
    loop.call_later(0, {first})
    {then}
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("first", "then", "withdraw"),
    [
        ("broken", "loop.call_later(0, print, 'went on')", "pass"),
        ("int", "threading.Thread(target=broken).start()", "pass"),
        ("int", "loop.call_soon_threadsafe(broken)", "pass"),
        ("broken", "pass", "threading.Event().wait()"),
    ],
    ids=["timer", "thread", "crossing", "ZooKeeper is silent"],
)
def test_a_process_ends_at_its_first_defect(first: str, then: str, withdraw: str) -> None:
    """With its values, after it left the cluster, and with nothing done after the defect."""
    source = PROCESS.format(first=first, then=then, withdraw=withdraw)
    command = [sys.executable, "-c", source]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert ran.returncode == DEFECT_STATUS
    assert ("withdrawn" in ran.stdout) is (withdraw == "pass")
    assert "went on" not in ran.stdout
    assert "HW 7 above LEO 5" in ran.stdout + ran.stderr
