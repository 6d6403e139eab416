"""The follower's stream over a transport carries messages, and ends with one kind of error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from strandline.adapters.codecs.replication import REPLICA_FETCH
from strandline.broker.replication.follower_end import StreamBroken
from strandline.broker.replication.stream import TransportReplicaStream, open_replica_stream
from strandline.config.services import ListenerSettings
from strandline.errors import NotLeaderOrFollower
from strandline.ids import BrokerEpoch, BrokerId
from strandline.local.ports import LOOPBACK, free_ports
from strandline.ports import Caller, Reply, ServedStream
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.replication import FollowerMessage, Hello, Push
from tests.broker.support.replicas import HOST

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


@asynccontextmanager
async def leading() -> AsyncIterator[TransportReplicaStream]:
    listener = HOST.listen(
        ListenerSettings(), [], on_answered=lambda _, took_ms: None, on_refused=lambda _, peer: None
    )
    endpoint = listener.bind(1)
    await listener.start([ServedStream(REPLICA_FETCH.served, _lead)])
    stream = await open_replica_stream(partial(HOST.transport, None), endpoint)
    try:
        yield stream
    finally:
        await stream.close()
        await listener.stop()


async def _send(stream: TransportReplicaStream) -> None:
    await stream.send(
        hello=HELLO, subscribe=[], progress=[(7, 10)], unsubscribe=[6], acknowledged=3, hold_copies_ms=9
    )


async def test_messages_go_both_ways_until_the_leader_refuses_one() -> None:
    async with leading() as stream:
        await _send(stream)
        assert await stream.receive() == (4, PUSHES)
        await _send(stream)
        with pytest.raises(StreamBroken, match="it leads no more"):
            await stream.receive()


async def test_a_stream_that_was_closed_takes_nothing() -> None:
    async with leading() as stream:
        await _send(stream)
        await stream.close()
        with pytest.raises(StreamBroken):
            await _send(stream)


async def test_a_leader_that_cannot_be_reached_is_a_broken_stream() -> None:
    (port,) = free_ports(1)
    with pytest.raises(StreamBroken, match="unreachable"):
        await open_replica_stream(partial(HOST.transport, None), Endpoint(1, LOOPBACK, port))
