"""The follower's ReplicaFetch call: by a stream of frames if the leader has a port for them, else by gRPC."""

from __future__ import annotations

import asyncio
import logging
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
HEAD_START_S: Final = 0.3
"""The stream of frames has this time before gRPC is tried beside it: a busy broker takes a while to answer.
If the path to its port drops everything, the follower hears its leader again before `leader_silence_ms`
has passed. It has no such time at a leader that was last followed by gRPC."""
GRPC_AGAIN_S: Final = 1.0
"""If the port for frames refuses, gRPC is tried beside it once in this time: it most likely refuses too, and
each attempt makes a channel."""


class OwnReplicaStream:
    """Fulfils `follower_end.ReplicaStream`, on a connection of its own."""

    def __init__(
        self, stream: Stream[FollowerMessage, LeaderMessage], transport: Transport | None = None
    ) -> None:
        """`transport` has the connection; None: it is a stream of frames, which has one of its own."""
        self._stream = stream
        self._transport = transport

    @property
    def owes_beats(self) -> bool:
        """Versions without beats have no port for frames."""
        return self._transport is None

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


_Attempt = OwnReplicaStream | StrandlineError
"""A stream that was opened, or why it was not."""


class ReplicaStreams:
    """Opens the streams of one follower."""

    def __init__(
        self,
        new_transport: Callable[[], Transport],
        framed: MemberStreams | None,
        key: Callable[[], bytes | None],
        now: Callable[[], float],
        connect_s_max: float = CONNECT_S_MAX,
    ) -> None:
        """`framed` None: all are opened by gRPC. `key` returns what the stream shows, as a transport does.
        `now`: monotonic seconds."""
        self._new_transport = new_transport
        self._framed = framed
        self._key = key
        self._connect_s_max = connect_s_max
        self._now = now
        self._tried_grpc_at: dict[int, float] = {}
        """By leader, when gRPC was last tried beside a port that refused."""
        self._by_grpc_only: set[int] = set()
        """Leaders of which the log says that they are followed by gRPC."""

    async def open(self, leader: Endpoint) -> OwnReplicaStream:
        """Raises StreamBroken.

        A port that cannot be reached may be closed to this broker only, and one that refuses may be another
        broker's, so the other port is tried too. The first stream that is open is taken. Beside a port that
        refuses again and again, gRPC is tried every `GRPC_AGAIN_S` only.
        """
        if self._framed is None or leader.replication is None:
            return _opened([await self._by_grpc(leader)])
        attempts: list[asyncio.Task[_Attempt]] = []
        try:
            async with asyncio.TaskGroup() as tasks:
                by_frames = tasks.create_task(self._by_frames(self._framed, leader))
                attempts.append(by_frames)
                head_start_s = 0.0 if leader.id in self._by_grpc_only else HEAD_START_S
                await asyncio.wait(attempts, timeout=head_start_s)
                if not by_frames.done() or self._wants_grpc(leader, by_frames.result()):
                    attempts.append(tasks.create_task(self._by_grpc(leader)))
                taken = await _first(attempts)
                for each in attempts:
                    each.cancel()
            await _close_but(taken, attempts)
        except BaseException:  # no caller gets the stream that was taken
            await _close_but(None, attempts)
            raise
        self._tell(leader, by_frames, taken)
        return taken or _opened([each.result() for each in attempts])

    def _wants_grpc(self, leader: Endpoint, by_frames: _Attempt) -> bool:
        """Whether to try it after this end of the attempt by frames."""
        if not _is_answer(by_frames):
            return isinstance(by_frames, StrandlineError)
        now = self._now()
        if now - self._tried_grpc_at.get(leader.id, -GRPC_AGAIN_S) < GRPC_AGAIN_S:
            return False
        self._tried_grpc_at[leader.id] = now
        return True

    def _tell(
        self, leader: Endpoint, by_frames: asyncio.Task[_Attempt], taken: OwnReplicaStream | None
    ) -> None:
        """Logs once that a leader is followed by gRPC, and not at each attempt to reach one that is down."""
        outcome = None if by_frames.cancelled() else by_frames.result()
        if taken is None:
            return
        if taken is outcome:
            self._by_grpc_only.discard(leader.id)
            return
        if leader.id in self._by_grpc_only:
            return
        self._by_grpc_only.add(leader.id)
        reason = outcome.message if isinstance(outcome, StrandlineError) else "no answer yet"
        level = logging.WARNING if outcome is not None and _is_answer(outcome) else logging.INFO
        logger.log(level, "a leader is followed by gRPC", leader=leader.id, reason=reason)

    async def _by_frames(self, framed: MemberStreams, leader: Endpoint) -> _Attempt:
        try:
            return OwnReplicaStream(
                await framed(leader, REPLICA_FETCH, self._key(), timeout_s=self._connect_s_max)
            )
        except StrandlineError as error:
            return error

    async def _by_grpc(self, leader: Endpoint) -> _Attempt:
        transport = self._new_transport()
        try:
            stream = await transport.open(leader.address, REPLICA_FETCH, timeout_s=self._connect_s_max)
        except BaseException as error:
            await transport.close()
            if isinstance(error, StrandlineError):
                return error
            raise
        return OwnReplicaStream(stream, transport)


async def _first(attempts: Sequence[asyncio.Task[_Attempt]]) -> OwnReplicaStream | None:
    """The first stream that is open; None if no attempt succeeds."""
    waiting = set(attempts)
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in attempts:
            if each in done and isinstance(opened := each.result(), OwnReplicaStream):
                return opened
    return None


async def _close_but(taken: OwnReplicaStream | None, attempts: Sequence[asyncio.Task[_Attempt]]) -> None:
    """Closes all streams of attempts that have ended, except one."""
    for each in attempts:
        opened = None if each.cancelled() or each.exception() is not None else each.result()
        if isinstance(opened, OwnReplicaStream) and opened is not taken:
            await opened.close()


def _opened(attempts: Sequence[_Attempt]) -> OwnReplicaStream:
    """The stream of the last attempt. Raises StreamBroken."""
    *_, last = attempts
    if isinstance(last, OwnReplicaStream):
        return last
    raise StreamBroken(last.message, answered=any(_is_answer(each) for each in attempts)) from last


def _is_answer(attempt: _Attempt) -> bool:
    """Whether the leader refused the stream."""
    return isinstance(attempt, StrandlineError) and not isinstance(attempt, BrokerNotAvailable)
