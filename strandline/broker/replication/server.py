"""The call of the service `Replication`: connects one stream a follower to its `FollowerStream`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import structlog

from strandline.adapters.codecs.replication import REPLICA_FETCH, REPORT_SILENCE
from strandline.broker.replication.handlers import Followers
from strandline.broker.replication.leader_end import FollowerStream
from strandline.errors import InvalidRequest, StrandlineError
from strandline.ports import Caller, Clock, Reply, ServedStream
from strandline.security.access import Access
from strandline.serving.serve import CallRow, Row
from strandline.tasks import Slices
from strandline.vocabulary.replication import FollowerMessage, LeaderMessage, SilenceQuestion

logger = structlog.get_logger(__name__)

PushReply = Reply[LeaderMessage]


class ReplicationService:
    """`strandline.v1.Replication`, for the listener that cluster members use."""

    def __init__(self, followers: Followers, access: Access, clock: Clock) -> None:
        self._followers = followers
        self._access = access
        self._clock = clock

    def rows(self) -> list[Row]:
        return [
            ServedStream(REPLICA_FETCH.served, self.serve),
            CallRow(REPORT_SILENCE.served, self.report),
        ]

    async def report(self, question: SilenceQuestion, caller: Caller) -> float | None:
        """For how long this broker has not heard that one, in seconds; None if it cannot say. Raises as
        `Access.check_member`."""
        self._access.check_member(caller)
        return self._followers.silent_s(question)

    async def serve(self, requests: AsyncIterator[FollowerMessage], reply: PushReply, caller: Caller) -> None:
        """Serves one follower until it ends its stream. Raises the error with which the stream is refused."""
        first = await anext(requests, None)
        if first is None:
            return
        if first.hello is None:
            raise InvalidRequest("the first message of a replication stream must name the follower")
        self._access.check_broker(caller, first.hello.broker_id)
        stream = await self._followers.open(first.hello)
        try:
            async with asyncio.TaskGroup() as tasks:
                pushing = tasks.create_task(self._push(stream, reply))
                await self._take(stream, first)
                async for message in requests:
                    await self._take(stream, message)
                pushing.cancel()
        except* StrandlineError as group:
            logger.warning(
                "replication stream refused",
                follower=stream.hello.broker_id,
                reason=str(group.exceptions[0]),
            )
            raise
        finally:
            self._followers.close(stream)

    async def _take(self, stream: FollowerStream, message: FollowerMessage) -> None:
        for sub_id in message.unsubscribe:
            stream.unsubscribe(sub_id)
        if message.subscribe:
            slices = Slices(self._clock)
            for subscribe in message.subscribe:
                if slices.used_up:
                    await slices.next()
                    stream.heard()  # what the follower says meanwhile waits behind this message
                stream.subscribe(subscribe)
        if message.progress:
            stream.progress(message.progress)
        stream.hold_copies(message.hold_copies_ms)
        stream.acknowledge(message.acknowledged)

    @staticmethod
    async def _push(stream: FollowerStream, reply: PushReply) -> None:
        while True:
            await reply(await stream.next_message())
