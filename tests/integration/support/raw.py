"""The Log service as it is on the wire: for what a real client would smooth over.

A client waits, retries and finds the new leader; these tests also have to see what one broker answers
to one request, a deposed leader's lies included. `produce` and `log` need brokers that are processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import grpc

from strandline.adapters.codecs.log import FETCH, LIST_OFFSETS, METADATA
from strandline.adapters.system.clock import SystemClock
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Stream, Transport
from strandline.records import encode_values
from strandline.rpc import log_pb2, log_pb2_grpc
from strandline.vocabulary.log import (
    FetchAnswer,
    Fetched,
    FetchPartition,
    FetchRequest,
    ListedOffset,
    MetadataQuery,
    OffsetQuery,
)
from strandline.vocabulary.metadata import PartitionMetadata
from tests.reachable import Reachable

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
    """Calls to each broker of a cluster, live or dead."""

    def __init__(self, cluster: Reachable) -> None:
        self._addresses = dict(zip(cluster.broker_ids, cluster.bootstrap.split(","), strict=True))
        self._transport = cluster.host.transport(None)
        self._channels: dict[int, grpc.aio.Channel] = {}
        self.ids = list(self._addresses)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.close()
        for channel in self._channels.values():
            await channel.close()

    def log(self, broker: int) -> log_pb2_grpc.LogAsyncStub:
        if broker not in self._channels:
            self._channels[broker] = grpc.aio.insecure_channel(self._addresses[broker], options=_OPTIONS)
        return log_pb2_grpc.LogStub(self._channels[broker])

    async def metadata(
        self, broker: int, topic: str, *, timeout_s: float = CALL_S_MAX
    ) -> Sequence[PartitionMetadata]:
        """The topic's partitions as this broker knows them; none if it does not answer."""
        try:
            answer = await self._transport.call(
                self._addresses[broker], METADATA, MetadataQuery([topic]), timeout_s=timeout_s
            )
        except StrandlineError:
            return ()
        return answer.cluster.topics[0].partitions if answer.cluster.topics else ()

    async def latest(self, broker: int, name: TopicPartition) -> ListedOffset | None:
        """This broker's answer about the partition's end; None if it does not answer."""
        try:
            (listed,) = await self._transport.call(
                self._addresses[broker], LIST_OFFSETS, [OffsetQuery(name, LATEST)], timeout_s=CALL_S_MAX
            )
        except StrandlineError:
            return None
        return listed

    def produce(self, broker: int, name: TopicPartition) -> ProduceStream:
        return ProduceStream(self.log(broker).Produce(), name)

    def fetch(self, broker: int, name: TopicPartition) -> FetchStream:
        return FetchStream(self._transport, self._addresses[broker], name)


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
    """One open fetch stream to one broker, for one partition. It is opened by the first fetch."""

    def __init__(self, transport: Transport, address: str, name: TopicPartition) -> None:
        self._transport = transport
        self._address = address
        self._name = name
        self._stream: Stream[FetchRequest, FetchAnswer] | None = None

    async def fetch(
        self, offset: int, *, leader_epoch: int = -1, wait_ms: int = FETCH_WAIT_MS
    ) -> Fetched | None:
        """One answer; None if it is empty. Raises Ended, also if the broker hangs."""
        wanted = FetchPartition(self._name, offset, leader_epoch, FETCH_BYTES)
        request = FetchRequest(0, wait_ms, 1, FETCH_BYTES, [wanted])
        try:
            async with asyncio.timeout(wait_ms / 1000 + CALL_S_MAX):
                if self._stream is None:
                    self._stream = await self._transport.open(self._address, FETCH, timeout_s=CALL_S_MAX)
                await self._stream.write(request)
                answer = await self._stream.read()
        except (StrandlineError, TimeoutError) as error:
            raise Ended(str(error)) from error
        return answer.partitions[0] if answer.partitions else None

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
