"""The follower's stream over a transport carries messages, and ends with one kind of error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from strandline.adapters.codecs.replication import REPLICA_FETCH
from strandline.broker.replication.follower_end import StreamBroken
from strandline.broker.replication.stream import GRPC_AGAIN_S, OwnReplicaStream, ReplicaStreams
from strandline.config.services.listener import ListenerSettings
from strandline.errors import NotLeaderOrFollower
from strandline.host import MemberStreams
from strandline.ids import BrokerEpoch, BrokerId
from strandline.local.ports import LOOPBACK, free_ports
from strandline.ports import Caller, Reply, ServedStream, Stream, Transport
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.replication import FollowerMessage, Hello, Push
from tests.broker.support.replicas import CLOCK, HOST
from tests.hand_clock import HandClock
from tests.strandline.adapters.framed.serving import serving
from tests.waiting import eventually

HELLO = Hello(BrokerId(2), BrokerEpoch(20), BrokerId(1), "cluster")
PUSHES = [Push(7, 10, 2, b"records", copy=True), Push(8, diverging=(3, 4))]


async def _lead(
    requests: AsyncIterator[FollowerMessage], reply: Reply[tuple[int, list[Push]]], _: Caller
) -> None:
    """Answers the first message, and refuses the second."""
    first = await anext(requests)
    assert first == FollowerMessage(HELLO, [], [(7, 10)], [6], 3, 9)
    await reply((4, PUSHES))
    await anext(requests)
    raise NotLeaderOrFollower("it leads no more")


LEADING = [ServedStream(REPLICA_FETCH.served, _lead)]
BY_GRPC = ReplicaStreams(partial(HOST.transport, None), None, lambda: None, CLOCK.monotonic)
BY_FRAMES = ReplicaStreams(partial(HOST.transport, None), HOST.member_streams, lambda: None, CLOCK.monotonic)


@asynccontextmanager
async def grpc_leader() -> AsyncIterator[Endpoint]:
    listener = HOST.listen(
        ListenerSettings(), [], on_answered=lambda _, took_ms: None, on_refused=lambda _, peer: None
    )
    endpoint = listener.bind(1)
    await listener.start(LEADING)
    try:
        yield endpoint
    finally:
        await listener.stop()


@pytest.fixture(params=["by gRPC", "by frames"])
async def leading(request: pytest.FixtureRequest) -> AsyncIterator[OwnReplicaStream]:
    """The stream of a follower to a leader."""
    async with AsyncExitStack() as stack:
        if request.param == "by gRPC":
            stream = await BY_GRPC.open(await stack.enter_async_context(grpc_leader()))
        else:
            stream = await BY_FRAMES.open(await stack.enter_async_context(serving(LEADING)))
        yield stream
        await stream.close()


async def _send(stream: OwnReplicaStream) -> None:
    await stream.send(
        hello=HELLO, subscribe=[], progress=[(7, 10)], unsubscribe=[6], acknowledged=3, hold_copies_ms=9
    )


async def test_messages_go_both_ways_until_the_leader_refuses_one(leading: OwnReplicaStream) -> None:
    await _send(leading)
    assert await leading.receive() == (4, PUSHES)
    await _send(leading)
    with pytest.raises(StreamBroken, match="it leads no more"):
        await leading.receive()


async def test_a_stream_that_was_closed_takes_nothing(leading: OwnReplicaStream) -> None:
    await _send(leading)
    await leading.close()
    with pytest.raises(StreamBroken):
        await _send(leading)
        await leading.receive()


async def test_a_leader_whose_port_for_frames_cannot_be_reached_is_followed_by_grpc() -> None:
    """As one behind a firewall that knows the first port only. The log says so."""
    (closed,) = free_ports(1)
    async with grpc_leader() as endpoint:
        with capture_logs() as logged:
            stream = await BY_FRAMES.open(replace(endpoint, replication=(LOOPBACK, closed)))
        assert [line["event"] for line in logged] == ["a leader is followed by gRPC"]
        await _send(stream)
        assert await stream.receive() == (4, PUSHES)
        await stream.close()


async def test_a_leader_that_cannot_be_reached_is_a_broken_stream() -> None:
    """It is tried again twenty times a second, so no attempt has a line in the log."""
    port, other = free_ports(2)
    with capture_logs() as logged, pytest.raises(StreamBroken, match="unreachable") as broken:
        await BY_FRAMES.open(Endpoint(1, LOOPBACK, port, replication=(LOOPBACK, other)))
    assert logged == []
    assert not broken.value.answered


async def test_a_leader_that_refuses_a_stream_has_answered() -> None:
    """CORRECTNESS E19: it does not hang."""
    (port,) = free_ports(1)
    async with serving([]) as leader:
        with pytest.raises(StreamBroken) as broken:
            await BY_FRAMES.open(Endpoint(1, LOOPBACK, port, replication=leader.replication))
    assert broken.value.answered


async def test_beside_a_port_that_refuses_grpc_is_tried_once_in_a_while() -> None:
    """A follower whose key is refused tries twenty times a second, and each time made a channel."""
    clock, made = HandClock(), list[Transport]()

    def new_transport() -> Transport:
        made.append(HOST.transport(None))
        return made[-1]

    streams = ReplicaStreams(new_transport, HOST.member_streams, lambda: None, clock.monotonic)
    (port,) = free_ports(1)
    async with serving([]) as leader:
        refusing = Endpoint(1, LOOPBACK, port, replication=leader.replication)
        for tried in (1, 1, 1, 2):
            if tried == 2:
                clock.now_s += GRPC_AGAIN_S
            with pytest.raises(StreamBroken) as broken:
                await streams.open(refusing)
            assert broken.value.answered
            assert len(made) == tried


@dataclass
class Silent:
    """A port that accepts connections, and says nothing."""

    address: tuple[str, int] = (LOOPBACK, 0)
    open: int = 0
    ended: int = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        await reader.read()
        self.ended += 1
        writer.close()


def patient() -> ReplicaStreams:
    """No attempt of these streams to connect reaches its limit within a test."""
    return ReplicaStreams(
        partial(HOST.transport, None), HOST.member_streams, lambda: None, CLOCK.monotonic, 10_000.0
    )


@pytest.fixture
async def silent() -> AsyncIterator[Silent]:
    found = Silent()
    async with await asyncio.start_server(found.take, LOOPBACK, 0) as server:
        found.address = server.sockets[0].getsockname()[:2]
        yield found


async def test_a_port_for_frames_that_drops_what_it_gets_does_not_hold_a_follower_up(silent: Silent) -> None:
    """CORRECTNESS E19: its followers would suspect a leader that is well."""
    streams = patient()
    async with grpc_leader() as endpoint:
        with capture_logs() as logged:
            for _ in range(2):
                stream = await streams.open(replace(endpoint, replication=silent.address))
                await eventually(lambda: silent.open and silent.ended == silent.open, what="it is given up")
                await _send(stream)
                assert await stream.receive() == (4, PUSHES)
                await stream.close()
    assert [line["event"] for line in logged] == ["a leader is followed by gRPC"], "once, not each time"


async def test_a_port_for_frames_that_is_another_brokers_is_left_for_grpc() -> None:
    """As one that a container maps wrongly. Its first message would be refused, at each attempt."""
    streams = ReplicaStreams(
        partial(HOST.transport, None), HOST.member_streams, lambda: None, CLOCK.monotonic
    )
    async with grpc_leader() as endpoint, serving(LEADING, broker_id=2) as other:
        with capture_logs() as logged:
            stream = await streams.open(replace(endpoint, replication=other.replication))
        await _send(stream)
        assert await stream.receive() == (4, PUSHES)
        await stream.close()
    (line,) = logged
    assert line["log_level"] == "warning"
    assert line["reason"] == "broker 1 was meant, this is broker 2"


async def test_a_follower_that_ends_while_it_opens_a_stream_leaves_none(silent: Silent) -> None:
    host, port = silent.address
    async with asyncio.TaskGroup() as tasks:
        opening = tasks.create_task(patient().open(Endpoint(1, host, port, replication=silent.address)))
        await eventually(lambda: silent.open == 2, what="both ports are tried")
        opening.cancel()
    await eventually(lambda: silent.ended == 2, what="both are given up")


@dataclass
class Held:
    """The streams that a leader has."""

    begun: int = 0
    ended: int = 0

    async def lead(
        self, requests: AsyncIterator[FollowerMessage], reply: Reply[tuple[int, list[Push]]], _: Caller
    ) -> None:
        self.begun += 1
        try:
            await anext(requests, None)
        finally:
            self.ended += 1


async def test_a_follower_that_ends_once_it_has_a_stream_leaves_none(silent: Silent) -> None:
    """While the attempt beside it is given up."""

    class Leaving:
        """A transport with which the follower ends when it is closed."""

        def __init__(self) -> None:
            self._transport = HOST.transport(None)

        def __getattr__(self, name: str) -> object:
            return getattr(self._transport, name)

        async def close(self) -> None:
            opening.cancel()
            await self._transport.close()

    async def late(*member: Any, timeout_s: float) -> Stream[Any, Any]:
        """Frames are answered once gRPC is tried too."""
        await eventually(lambda: silent.open)
        assert HOST.member_streams is not None
        return await HOST.member_streams(*member, timeout_s=timeout_s)

    host, port = silent.address
    held = Held()
    streams = ReplicaStreams(
        lambda: cast(Transport, Leaving()), cast(MemberStreams, late), lambda: None, CLOCK.monotonic, 10_000.0
    )
    async with serving([ServedStream(REPLICA_FETCH.served, held.lead)]) as leader:
        async with asyncio.TaskGroup() as tasks:
            opening = tasks.create_task(streams.open(Endpoint(1, host, port, replication=leader.replication)))
        assert opening.cancelled()
        await eventually(lambda: held.begun == held.ended == 1, what="the stream that was taken is closed")
