"""The gRPC face of the service `Replication`: one stream a follower, onto its `FollowerStream`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import structlog

from strandline.adapters.rpc.served_stream import write
from strandline.adapters.rpc.wire_errors import abort
from strandline.broker.replication import wire
from strandline.broker.replication.handlers import Followers
from strandline.broker.replication.leader_end import FollowerStream
from strandline.errors import StrandlineError
from strandline.ports import Clock
from strandline.rpc import replication_pb2
from strandline.tasks import Slices

logger = structlog.get_logger(__name__)

# It answers with messages that are serialized already (`strandline.adapters.rpc.frames`).
ReplicaContext = grpc.aio.ServicerContext[replication_pb2.ReplicaFetchRequest, bytes]


class ReplicationService:
    """`strandline.v1.Replication`."""

    def __init__(self, followers: Followers, clock: Clock) -> None:
        self._followers = followers
        self._clock = clock

    async def ReplicaFetch(
        self,
        request_iterator: AsyncIterator[replication_pb2.ReplicaFetchRequest],
        context: ReplicaContext,
    ) -> None:
        first = await anext(request_iterator, None)
        if first is None:
            return
        try:
            link = await self._followers.open(wire.hello(first))
        except StrandlineError as error:
            await abort(context, error)
        refusal: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                pushing = tasks.create_task(self._push(link, context))
                await self._take(link, first)
                async for request in request_iterator:
                    await self._take(link, request)
                pushing.cancel()
        except* StrandlineError as group:
            refusal = group.exceptions[0]
        finally:
            link.close()
            self._followers.close(link.hello)
        if refusal is not None:  # not in `except*`: what is raised there leaves as a group
            assert isinstance(refusal, StrandlineError)
            logger.warning(
                "replication stream refused", follower=link.hello.broker_id, reason=refusal.message
            )
            await abort(context, refusal)

    async def _take(self, link: FollowerStream, request: replication_pb2.ReplicaFetchRequest) -> None:
        slices = Slices(self._clock)
        for sub_id in request.unsubscribe:
            link.unsubscribe(sub_id)
        for subscribe in wire.subscriptions(request):
            if slices.used_up:
                await slices.next()
            link.subscribe(subscribe)
        if request.progress:
            link.progress([(p.subscription_id, p.log_end_offset) for p in request.progress])
        link.acknowledge(request.acknowledged)

    @staticmethod
    async def _push(link: FollowerStream, context: ReplicaContext) -> None:
        while True:
            sequence, pushes = await link.next_message()
            await write(context, wire.replica_response(sequence, pushes))


def add_replication_service(server: grpc.aio.Server, replication: ReplicationService) -> None:
    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "ReplicaFetch": grpc.stream_stream_rpc_method_handler(
            replication.ReplicaFetch, replication_pb2.ReplicaFetchRequest.FromString
        ),
    }
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("strandline.v1.Replication", methods),)
    )
