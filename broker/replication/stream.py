"""The follower's ReplicaFetch call over a `Transport`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from strandline.adapters.codecs.replication import REPLICA_FETCH
from strandline.broker.replication.follower_end import StreamBroken
from strandline.errors import StrandlineError
from strandline.ports import Stream, Transport
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.replication import FollowerMessage, Hello, LeaderMessage, Subscribe

CONNECT_S_MAX: Final = 1.0
"""The limit for the connection. It fails sooner if the leader's host refuses it."""


class TransportReplicaStream:
    """Fulfils `follower_end.ReplicaStream`; owns its transport, and with it its connection."""

    def __init__(self, transport: Transport, stream: Stream[FollowerMessage, LeaderMessage]) -> None:
        self._transport = transport
        self._stream = stream

    async def send(
        self,
        *,
        hello: Hello | None,
        subscribe: Sequence[Subscribe],
        progress: Sequence[tuple[int, int]],
        unsubscribe: Sequence[int],
        acknowledged: int,
        hold_copies_ms: int,
    ) -> None:
        message = FollowerMessage(hello, subscribe, progress, unsubscribe, acknowledged, hold_copies_ms)
        try:
            await self._stream.write(message)
        except StrandlineError as error:
            raise StreamBroken(error.message) from error

    async def receive(self) -> LeaderMessage:
        try:
            return await self._stream.read()
        except StrandlineError as error:
            raise StreamBroken(error.message) from error

    async def close(self) -> None:
        self._stream.close()
        await self._transport.close()


async def open_replica_stream(
    new_transport: Callable[[], Transport], endpoint: Endpoint
) -> TransportReplicaStream:
    """A stream on a connection of its own. Raises StreamBroken."""
    transport = new_transport()
    try:
        stream = await transport.open(endpoint.address, REPLICA_FETCH, timeout_s=CONNECT_S_MAX)
    except BaseException as error:
        await transport.close()
        if isinstance(error, StrandlineError):
            raise StreamBroken(error.message) from error
        raise
    return TransportReplicaStream(transport, stream)
