"""The follower's ReplicaFetch call over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import grpc

from strandline.adapters.rpc.transport import open_channel
from strandline.broker.replication import wire
from strandline.broker.replication.follower_end import StreamBroken
from strandline.broker.replication.leader_end import Hello, Push, Subscribe
from strandline.rpc import replication_pb2, replication_pb2_grpc
from strandline.vocabulary.metadata import Endpoint

Call = grpc.aio.StreamStreamCall[replication_pb2.ReplicaFetchRequest, replication_pb2.ReplicaFetchResponse]


class GrpcReplicaStream:
    """Fulfils `fetcher.ReplicaStream`; owns its channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel
        stub = replication_pb2_grpc.ReplicationStub(channel)
        self._call: Call = stub.ReplicaFetch()

    async def send(
        self,
        *,
        hello: Hello | None,
        subscribe: Sequence[Subscribe],
        progress: Sequence[tuple[int, int]],
        unsubscribe: Sequence[int],
        acknowledged: int,
    ) -> None:
        try:
            await self._call.write(
                wire.replica_request(hello, subscribe, progress, unsubscribe, acknowledged)
            )
        except grpc.aio.AioRpcError as error:
            raise StreamBroken(f"{error.code().name}: {error.details()}") from error
        except asyncio.InvalidStateError as error:  # ended while the message was on its way out
            raise StreamBroken(str(error)) from error

    async def receive(self) -> tuple[int, list[Push]]:
        try:
            response = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise StreamBroken(f"{error.code().name}: {error.details()}") from error
        if not isinstance(response, replication_pb2.ReplicaFetchResponse):
            raise StreamBroken(f"{(await self._call.code()).name}: {await self._call.details()}")
        return response.sequence, wire.pushes(response)

    async def close(self) -> None:
        self._call.cancel()
        await self._channel.close()


def open_replica_stream(endpoint: Endpoint) -> GrpcReplicaStream:
    """A stream on a channel of its own."""
    return GrpcReplicaStream(open_channel(endpoint.address))
