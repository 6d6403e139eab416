"""The follower's stream over a transport carries messages, and ends with one kind of error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial

import pytest
from structlog.testing import capture_logs

from strandline.adapters.codecs.replication import REPLICA_FETCH
from strandline.broker.replication.follower_end import StreamBroken
from strandline.broker.replication.stream import OwnReplicaStream, ReplicaStreams
from strandline.config.services import ListenerSettings
from strandline.errors import NotLeaderOrFollower
from strandline.ids import BrokerEpoch, BrokerId
from strandline.local.ports import LOOPBACK, free_ports
from strandline.ports import Caller, Reply, ServedStream
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.replication import FollowerMessage, Hello, Push
from tests.broker.support.replicas import HOST
from tests.strandline.adapters.framed.serving import serving

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
BY_GRPC = ReplicaStreams(partial(HOST.transport, None), None, lambda: None)
BY_FRAMES = ReplicaStreams(partial(HOST.transport, None), HOST.member_streams, lambda: None)


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
    with capture_logs() as logged, pytest.raises(StreamBroken, match="unreachable"):
        await BY_FRAMES.open(Endpoint(1, LOOPBACK, port, replication=(LOOPBACK, other)))
    assert logged == []
