"""Calls and streams between simulated processes: what arrives, in which order, and which error says what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest

from strandline.config.services.listener import ListenerSettings
from strandline.errors import (
    BrokerNotAvailable,
    InvalidRequest,
    NotLeaderOrFollower,
    OutcomeUnknown,
    StrandlineError,
)
from strandline.host import ProbeResult, ServiceHost
from strandline.ports import Caller, Method, Reply, Rpc, ServedCall, ServedStream, StreamEnded
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline.simulation.engine.world import World
from strandline.vocabulary.metadata import Endpoint

T = TypeVar("T")

ECHO: Method[bytes, bytes] = Method("/test.Test/Echo", bytes, bytes)
STREAM: Method[bytes, bytes] = Method("/test.Test/Stream", bytes, bytes)


class Server:
    """A process that serves two calls, and what they met."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.process = world.new_process("server", world.new_machine())
        self.client = world.new_process("client", world.new_machine())
        self.endpoint = Endpoint(1, "", 0)
        self.callers: list[Caller] = []
        self.cancelled: list[str] = []
        self.read: list[bytes] = []
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.process.start(self.serve)

    async def serve(self, host: ServiceHost) -> None:
        listener = host.listen(
            ListenerSettings(host=self.process.machine.host),
            (),
            on_answered=lambda name, ms: None,
            on_refused=lambda error, connection: None,
        )
        self.endpoint = listener.bind(1)
        await listener.start(
            [
                ServedCall(Rpc(ECHO.path, bytes, lambda answer, to: answer), self.echo),
                ServedStream(Rpc(STREAM.path, bytes, lambda answer, to: answer), self.stream),
            ]
        )
        await host.stop_requested.wait()
        await listener.stop(1.0)

    async def echo(self, request: bytes, caller: Caller) -> bytes:
        self.callers.append(caller)
        if request == b"refuse":
            raise NotLeaderOrFollower("not me")
        try:
            await asyncio.sleep(float(request) if request[:1].isdigit() else 0.0)
        except asyncio.CancelledError:
            self.cancelled.append("echo")
            raise
        return request

    async def stream(self, requests: AsyncIterator[bytes], reply: Reply[bytes], caller: Caller) -> None:
        try:
            async for request in requests:
                await self.may_read.wait()
                self.read.append(request)
                if request == b"refuse":
                    raise InvalidRequest("no")
                await reply(request)
        except asyncio.CancelledError:
            self.cancelled.append("stream")
            raise

    async def echoed(self, request: bytes, timeout_s: float = 1.0) -> bytes:
        transport = self.client.host.transport(lambda: b"key")
        try:
            return await transport.call(self.endpoint.address, ECHO, request, timeout_s=timeout_s)
        finally:
            await transport.close()


@pytest.fixture
def server() -> Iterator[Server]:
    with World(7) as world:
        yield Server(world)


def run(server: Server, work: Callable[[Server], Awaitable[T]]) -> T:
    """Run in the client's process, once the server listens."""

    async def started() -> T:
        await asyncio.sleep(0.01)
        task = server.client.run(_awaited(work(server)))
        return await task

    return server.world.run(started())


async def _awaited(work: Awaitable[T]) -> T:
    return await work


def test_a_call_is_answered_after_the_latency(server: Server) -> None:
    async def work(server: Server) -> float:
        before = server.world.loop.now_ns()
        assert await server.echoed(b"hello") == b"hello"
        [caller] = server.callers
        assert (caller.host, caller.member_key) == (server.client.machine.host, b"key")
        with pytest.raises(NotLeaderOrFollower, match="not me"):
            await server.echoed(b"refuse")
        return (server.world.loop.now_ns() - before) / 1e9

    assert 0.000_1 < run(server, work) < 0.05


def test_an_address_without_a_listener_is_not_available(server: Server) -> None:
    async def work(server: Server) -> None:
        server.process.kill()
        with pytest.raises(BrokerNotAvailable, match="unreachable"):
            await server.echoed(b"hello")
        assert await server.client.host.probe(server.endpoint, 0.2) is ProbeResult.GONE

    run(server, work)


def test_a_call_that_takes_too_long_is_cancelled_at_the_server(server: Server) -> None:
    async def work(server: Server) -> None:
        assert await server.client.host.probe(server.endpoint, 0.2) is ProbeResult.ALIVE
        with pytest.raises(OutcomeUnknown):
            await server.echoed(b"5", timeout_s=1.0)
        await asyncio.sleep(0.1)
        assert server.cancelled == ["echo"]

    run(server, work)


@pytest.mark.parametrize("end", ["kill", "power", "cut", "pause"])
def test_a_server_that_is_gone_is_noticed(server: Server, end: str) -> None:
    world = server.world

    async def work(server: Server) -> float:
        world.loop.call_later(0.5, ends[end])
        began = world.loop.now_ns()
        with pytest.raises(OutcomeUnknown):
            await server.echoed(b"9", timeout_s=30.0)
        return (world.loop.now_ns() - began) / 1e9

    ends: dict[str, Callable[[], Any]] = {
        "kill": server.process.kill,
        "power": lambda: world.lose_power(server.process.machine),
        "cut": lambda: world.network.cut(server.process.machine.host, server.client.machine.host),
        "pause": server.process.pause,
    }
    silent_s = run(server, work) - 0.5
    assert silent_s < 0.01 if end == "kill" else 0.5 <= silent_s < 1.6


def test_a_short_cut_only_delays(server: Server) -> None:
    network = server.world.network
    ends = (server.process.machine.host, server.client.machine.host)

    async def work(server: Server) -> None:
        server.world.loop.call_later(0.01, network.cut, *ends)
        server.world.loop.call_later(0.4, network.heal, *ends)
        began = server.world.loop.now_ns()
        assert await server.echoed(b"0.05") == b"0.05"
        assert 0.4 < (server.world.loop.now_ns() - began) / 1e9 < 0.7

    run(server, work)


def test_a_link_may_lose_only_answers_and_what_lost_one_stays_silent(server: Server) -> None:
    """Requests arrive and are carried out. A connection with a hole is given up; a new one is whole."""
    network = server.world.network
    ends = (server.process.machine.host, server.client.machine.host)

    async def work(server: Server) -> None:
        assert await server.echoed(b"hello") == b"hello"
        network.lose_answers(*ends)
        with pytest.raises(OutcomeUnknown):
            await server.echoed(b"arrives", timeout_s=0.3)
        network.lose_answers(*reversed(ends))  # the client serves nothing
        network.find_answers(*ends)
        assert await server.echoed(b"again", timeout_s=5.0) == b"again"
        assert len(server.callers) == 3

    run(server, work)


async def opened(server: Server, client: SimulatedProcess | None = None) -> Any:
    transport = (client or server.client).host.transport(None)
    return await transport.open(server.endpoint.address, STREAM, timeout_s=1.0)


def test_a_stream_keeps_its_order_and_ends_in_good_order(server: Server) -> None:
    async def work(server: Server) -> None:
        stream = await opened(server)
        for number in range(100):
            await stream.write(b"%d" % number)
        assert [await stream.read() for _ in range(100)] == [b"%d" % number for number in range(100)]
        await stream.finish()
        with pytest.raises(StreamEnded):
            await stream.read()

    run(server, work)


def test_a_refused_stream_says_why_after_its_answers(server: Server) -> None:
    async def work(server: Server) -> None:
        stream = await opened(server)
        await stream.write(b"one")
        await stream.write(b"refuse")
        assert await stream.read() == b"one"
        for _ in range(2):
            with pytest.raises(InvalidRequest, match="no"):
                await stream.read()
        with pytest.raises(StrandlineError):
            await stream.write(b"more")

    run(server, work)


def test_a_slow_reader_slows_the_writer_down(server: Server) -> None:
    async def work(server: Server) -> None:
        server.may_read.clear()
        stream = await opened(server)
        written = 0

        async def write() -> None:
            nonlocal written
            for _ in range(20):
                await stream.write(bytes(16 * 1024))
                written += 1

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(write())
            await asyncio.sleep(5)
            assert written == 5, "one is read, 64 KiB are under way"
            server.may_read.set()
            assert [len(await stream.read()) for _ in range(20)] == [16 * 1024] * 20
        assert written == 20

    run(server, work)


@pytest.mark.parametrize("how", ["close", "kill"])
def test_a_hang_up_cancels_the_handler(server: Server, how: str) -> None:
    async def work(server: Server) -> None:
        client = server.world.new_process("other", server.world.new_machine())
        stream = await client.run(opened(server, client))
        if how == "close":
            stream.close()
            with pytest.raises(OutcomeUnknown):
                await stream.read()
        else:
            client.kill()
        await asyncio.sleep(0.1)
        assert server.cancelled == ["stream"]

    run(server, work)


def test_a_stopping_server_ends_its_calls(server: Server) -> None:
    async def work(server: Server) -> None:
        stream = await opened(server)
        server.process.sigterm()
        with pytest.raises(OutcomeUnknown):
            await stream.read()
        await server.process.ended
        assert server.process.defect is None
        with pytest.raises(BrokerNotAvailable):
            await server.echoed(b"hello")

    run(server, work)


def test_one_seed_gives_one_trace() -> None:
    async def work(server: Server) -> None:
        stream = await opened(server)
        async with asyncio.TaskGroup() as tasks:
            for number in range(20):
                tasks.create_task(server.echoed(b"0.0%d" % number))
                await stream.write(b"%d" % number)

    def digest(seed: int) -> str:
        with World(seed) as world:
            run(Server(world), work)
            return world.trace.digest()

    assert digest(1) == digest(1) != digest(2)
