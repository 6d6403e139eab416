"""The Log service as it is on the wire: for what a real client would smooth over.

A client waits, retries and finds the new leader; these tests also have to see what one broker answers
to one request, a deposed leader's lies included.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import grpc

from strandline.adapters.system.clock import SystemClock
from strandline.ids import TopicPartition
from strandline.local.cluster import LocalCluster
from strandline.records import encode_values
from strandline.rpc import log_pb2, log_pb2_grpc

CALL_S_MAX = 5.0
FETCH_WAIT_MS = 250
FETCH_BYTES = 256 * 1024
LATEST = -1

_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
    ("grpc.use_local_subchannel_pool", 1),
)

_CLOCK = SystemClock()


class Ended(Exception):
    """The stream is over: its broker was killed, or said so."""


class Brokers:
    """One channel to each broker of a cluster, live or dead."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._channels = {
            broker: grpc.aio.insecure_channel(cluster.address(broker), options=_OPTIONS)
            for broker in cluster.broker_ids
        }
        self.ids = list(self._channels)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for channel in self._channels.values():
            await channel.close()

    def log(self, broker: int) -> log_pb2_grpc.LogAsyncStub:
        return log_pb2_grpc.LogStub(self._channels[broker])

    async def metadata(
        self, broker: int, topic: str, *, timeout_s: float = CALL_S_MAX
    ) -> Sequence[log_pb2.PartitionMetadata]:
        """The topic's partitions as this broker knows them; none if it does not answer."""
        request = log_pb2.MetadataRequest(topics=[topic])
        try:
            answer = await self.log(broker).Metadata(request, timeout=timeout_s)
        except grpc.aio.AioRpcError:
            return ()
        return answer.topics[0].partitions if answer.topics else ()

    async def latest(self, broker: int, name: TopicPartition) -> log_pb2.ListedOffset | None:
        """This broker's answer about the partition's end; None if it does not answer."""
        wanted = log_pb2.ListOffsetsPartition(topic=name.topic, partition=name.partition, timestamp_ms=LATEST)
        request = log_pb2.ListOffsetsRequest(partitions=[wanted])
        try:
            return (await self.log(broker).ListOffsets(request, timeout=CALL_S_MAX)).partitions[0]
        except grpc.aio.AioRpcError:
            return None

    def produce(self, broker: int, name: TopicPartition) -> ProduceStream:
        return ProduceStream(self.log(broker).Produce(), name)

    def fetch(self, broker: int, name: TopicPartition) -> FetchStream:
        return FetchStream(self.log(broker).Fetch(), name)


class ProduceStream:
    """One open produce stream to one broker, for one partition. Batches without a producer id."""

    def __init__(
        self,
        call: grpc.aio.StreamStreamCall[log_pb2.ProduceRequest, log_pb2.ProduceResponse],
        name: TopicPartition,
    ) -> None:
        self._call = call
        self._name = name
        self._next_id = 1
        self._early: dict[int, log_pb2.ProduceResult] = {}

    async def write(self, value: bytes, *, acks: int, timeout_ms: int = 3_000) -> int:
        """Send one record and do not wait; returns the correlation id. Raises Ended."""
        entry = log_pb2.PartitionRecords(
            correlation_id=self._next_id,
            topic=self._name.topic,
            partition=self._name.partition,
            acks=acks,
            timeout_ms=timeout_ms,
            records=encode_values([value], _CLOCK.wall_ms()),
        )
        self._next_id += 1
        try:
            await self._call.write(log_pb2.ProduceRequest(entries=[entry]))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            raise Ended(str(error)) from error
        return entry.correlation_id

    async def result(self, correlation_id: int) -> log_pb2.ProduceResult:
        """Wait for the answer to one request. Raises Ended, and TimeoutError after a while."""
        async with asyncio.timeout(4 * CALL_S_MAX):
            while correlation_id not in self._early:
                try:
                    response = await self._call.read()
                except grpc.aio.AioRpcError as error:
                    raise Ended(str(error)) from error
                if not isinstance(response, log_pb2.ProduceResponse):
                    raise Ended("the broker closed the stream")
                self._early.update({result.correlation_id: result for result in response.results})
        return self._early.pop(correlation_id)

    async def one(self, value: bytes, *, acks: int, timeout_ms: int = 3_000) -> log_pb2.ProduceResult:
        """`write`, and its `result`."""
        return await self.result(await self.write(value, acks=acks, timeout_ms=timeout_ms))

    def close(self) -> None:
        self._call.cancel()


class FetchStream:
    """One open fetch stream to one broker, for one partition."""

    def __init__(
        self,
        call: grpc.aio.StreamStreamCall[log_pb2.FetchRequest, log_pb2.FetchResponse],
        name: TopicPartition,
    ) -> None:
        self._call = call
        self._name = name

    async def fetch(
        self, offset: int, *, leader_epoch: int = -1, wait_ms: int = FETCH_WAIT_MS
    ) -> log_pb2.FetchedPartition | None:
        """One answer; None if it is empty. Raises Ended, also if the broker hangs."""
        wanted = log_pb2.FetchPartition(
            topic=self._name.topic,
            partition=self._name.partition,
            fetch_offset=offset,
            leader_epoch=leader_epoch,
            max_bytes=FETCH_BYTES,
        )
        request = log_pb2.FetchRequest(
            max_wait_ms=wait_ms, min_bytes=1, max_bytes=FETCH_BYTES, partitions=[wanted]
        )
        try:
            async with asyncio.timeout(wait_ms / 1000 + CALL_S_MAX):
                await self._call.write(request)
                response = await self._call.read()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, TimeoutError) as error:
            raise Ended(str(error)) from error
        if not isinstance(response, log_pb2.FetchResponse):
            raise Ended("the broker closed the stream")
        return response.partitions[0] if response.partitions else None

    def close(self) -> None:
        self._call.cancel()
