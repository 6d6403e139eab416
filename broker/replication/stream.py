"""The follower's ReplicaFetch call: by a stream of frames if the leader has a port for them, else by gRPC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import structlog

from strandline.adapters.codecs.replication import REPLICA_FETCH
from strandline.broker.replication.follower_end import StreamBroken
from strandline.errors import BrokerNotAvailable, StrandlineError
from strandline.host import MemberStreams
from strandline.ports import Stream, Transport
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.replication import FollowerMessage, Hello, LeaderMessage, Subscribe

logger = structlog.get_logger(__name__)

CONNECT_S_MAX: Final = 1.0
"""The limit for the connection. It fails sooner if the leader's host refuses it."""


class OwnReplicaStream:
    """Fulfils `follower_end.ReplicaStream`, on a connection of its own."""

    def __init__(
        self, stream: Stream[FollowerMessage, LeaderMessage], transport: Transport | None = None
    ) -> None:
        """`transport` has the connection; None: the stream has it."""
        self._stream = stream
        self._transport = transport

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
        if self._transport is not None:
            await self._transport.close()


class ReplicaStreams:
    """Opens the streams of one follower."""

    def __init__(
        self,
        new_transport: Callable[[], Transport],
        framed: MemberStreams | None,
        key: Callable[[], bytes | None],
    ) -> None:
        """`framed` None: all are opened by gRPC. `key` returns what the stream shows, as a transport does."""
        self._new_transport = new_transport
        self._framed = framed
        self._key = key

    async def open(self, leader: Endpoint) -> OwnReplicaStream:
        """Raises StreamBroken. A port that cannot be reached may be closed to this broker only, so the other
        one is tried."""
        unreached: BrokerNotAvailable | None = None
        if self._framed is not None and leader.replication is not None:
            try:
                return OwnReplicaStream(
                    await self._framed(leader, REPLICA_FETCH, self._key(), timeout_s=CONNECT_S_MAX)
                )
            except BrokerNotAvailable as error:
                unreached = error
            except StrandlineError as error:
                raise StreamBroken(error.message) from error
        stream = await _open_by_grpc(self._new_transport, leader)
        if unreached is not None:  # not at each attempt to reach a leader that is down
            logger.info("a leader is followed by gRPC", leader=leader.id, reason=unreached.message)
        return stream


async def _open_by_grpc(new_transport: Callable[[], Transport], endpoint: Endpoint) -> OwnReplicaStream:
    transport = new_transport()
    try:
        stream = await transport.open(endpoint.address, REPLICA_FETCH, timeout_s=CONNECT_S_MAX)
    except BaseException as error:
        await transport.close()
        if isinstance(error, StrandlineError):
            raise StreamBroken(error.message) from error
        raise
    return OwnReplicaStream(stream, transport)
