"""The gRPC face of the service `Log`: streams and unary calls onto `handlers`, bounded everywhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import grpc

from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.rpc.request_times import RequestTimes
from strandline.adapters.rpc.served_stream import write
from strandline.adapters.rpc.wire_errors import abort, error_to_wire
from strandline.broker.log import wire
from strandline.broker.log.handlers import Handlers, answer_bytes
from strandline.broker.log.read_memory import Room
from strandline.broker.replicas.leadership import Outcome
from strandline.config import BrokerSettings
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Clock
from strandline.rpc import log_pb2
from strandline.tasks import Slices

ACKS_ALL: Final = -1

ProduceContext = grpc.aio.ServicerContext[log_pb2.ProduceRequest, log_pb2.ProduceResponse]
# It answers with messages that are serialized already (`strandline.adapters.rpc.frames`).
FetchContext = grpc.aio.ServicerContext[log_pb2.FetchRequest, bytes]


@dataclass(slots=True)
class _Arrived:
    """A message of a produce stream: when it came, and how many of its entries wait for an answer."""

    at: float
    entries: int


RESULTS_MAX: Final = 500
"""Results in one message of a produce stream: with the longest error messages they fit MESSAGE_BYTES_MAX."""


class _ProduceStream:
    """One produce stream: entries in, results out in the order in which they are known, coalesced."""

    def __init__(
        self,
        handlers: Handlers,
        settings: BrokerSettings,
        times: RequestTimes,
        clock: Clock,
        stranger: StrandlineError | None,
    ) -> None:
        self._handlers = handlers
        self._clock = clock
        self._stranger = stranger
        """Why the client may not write to internal topics; None for a member of the cluster."""
        self._times = times
        self._times_ms = times.of("Produce")
        self._in_flight_max = settings.produce_entries_in_flight_max
        self._in_flight = 0
        """Entries whose results are not written yet."""
        self._results: list[tuple[int, Outcome]] = []
        """Put into messages by `write`, within the call: what is told of a leader depends on the listener."""
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._finished = False

    def _done(self, arrived: _Arrived, correlation_id: int, acks: int, outcome: Outcome) -> None:
        arrived.entries -= 1
        if arrived.entries == 0:
            self._times_ms.observe(self._times.since_ms(arrived.at))
        if acks != 0 or isinstance(outcome, StrandlineError):  # acks=0: only bad news is news
            self._results.append((correlation_id, outcome))
        else:
            self._let_go(1)
        self._news.set()

    def _let_go(self, entries: int) -> None:
        self._in_flight -= entries
        self._room.set()

    async def read(self, requests: AsyncIterator[log_pb2.ProduceRequest]) -> None:
        produce, done = self._handlers.produce, self._done
        async for request in requests:
            slices = Slices(self._clock)
            arrived = _Arrived(self._times.now(), len(request.entries))
            alone = {TopicPartition(e.topic, e.partition) for e in request.entries if e.acks != ACKS_ALL}
            unsure = await self._handlers.unsure(alone) if alone else frozenset[TopicPartition]()
            for entry in request.entries:
                if slices.used_up:
                    await slices.next()
                self._in_flight += 1
                if entry.internal and self._stranger is not None:
                    done(arrived, entry.correlation_id, entry.acks, self._stranger)
                    continue
                produce(
                    entry.topic,
                    entry.partition,
                    entry.records,
                    entry.acks,
                    entry.timeout_ms,
                    partial(done, arrived, entry.correlation_id, entry.acks),
                    internal=entry.internal,
                    expected_offset=entry.expected_offset if entry.HasField("expected_offset") else None,
                    sure=not unsure or (entry.topic, entry.partition) not in unsure,
                )
            while self._in_flight >= self._in_flight_max:
                self._room.clear()
                await self._room.wait()
        self._finished = True
        self._news.set()

    async def write(self, context: ProduceContext) -> None:
        while not (self._finished and self._in_flight == 0 and not self._results):
            await self._news.wait()
            self._news.clear()
            if self._results:
                results, self._results = self._results[:RESULTS_MAX], self._results[RESULTS_MAX:]
                await write(
                    context, log_pb2.ProduceResponse(results=[wire.produce_result(*r) for r in results])
                )
                self._let_go(len(results))  # who does not read its results is not read either
                self._news.set()


class LogService:
    """`strandline.v1.Log`."""

    def __init__(
        self,
        handlers: Handlers,
        settings: BrokerSettings,
        times: RequestTimes,
        clock: Clock,
        key: MemberKey,
    ) -> None:
        self._handlers = handlers
        self._settings = settings
        self._times = times
        self._key = key
        self._clock = clock
        self._answers = Room(of_one=settings.fetch_connection_bytes_max, of_all=settings.fetch_bytes_max)
        """Bytes that were read and are not written, by connection."""
        self._asked = Room(
            of_one=settings.fetch_connection_partitions_max, of_all=settings.fetch_partitions_max
        )
        """Partitions in requests that are not answered, by connection."""

    async def Produce(
        self, request_iterator: AsyncIterator[log_pb2.ProduceRequest], context: ProduceContext
    ) -> None:
        stranger = self._key.refusal(context.invocation_metadata())
        stream = _ProduceStream(self._handlers, self._settings, self._times, self._clock, stranger)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(stream.read(request_iterator))
            tasks.create_task(stream.write(context))

    async def Fetch(
        self, request_iterator: AsyncIterator[log_pb2.FetchRequest], context: FetchContext
    ) -> None:
        times_ms = self._times.of("Fetch")
        slots = asyncio.Semaphore(self._settings.fetches_in_flight_max)
        writing = asyncio.Lock()
        peer = context.peer()

        async def answer(request: log_pb2.FetchRequest, arrived: float) -> None:
            partitions, bytes_max = wire.fetch_partitions(request), request.max_bytes
            await self._handlers.fetchable(
                partitions, wait_ms=request.max_wait_ms, bytes_min=request.min_bytes, bytes_max=bytes_max
            )
            # What a client does not read is not read from the disk either, but for one answer a stream.
            async with writing, self._answers.taken(peer, answer_bytes(bytes_max)):
                found = await self._handlers.read(partitions, bytes_max)
                await write(context, wire.fetch_response(request.correlation_id, found))
            times_ms.observe(self._times.since_ms(arrived))

        async def answered(request: log_pb2.FetchRequest, arrived: float, asked: int) -> None:
            try:
                await answer(request, arrived)
            finally:
                self._asked.give_back(peer, asked)
                slots.release()

        async with asyncio.TaskGroup() as tasks:
            async for request in request_iterator:
                arrived = self._times.now()
                await slots.acquire()
                asked = await self._asked.take(peer, len(request.partitions))
                tasks.create_task(answered(request, arrived, asked))

    async def ListOffsets(
        self, request: log_pb2.ListOffsetsRequest, context: object
    ) -> log_pb2.ListOffsetsResponse:
        listed = await self._handlers.list_offsets(wire.offset_queries(request))
        return log_pb2.ListOffsetsResponse(partitions=map(wire.listed_offset, listed))

    async def Metadata(
        self,
        request: log_pb2.MetadataRequest,
        context: grpc.aio.ServicerContext[log_pb2.MetadataRequest, log_pb2.MetadataResponse],
    ) -> log_pb2.MetadataResponse:
        try:
            cluster, unknown = await self._handlers.metadata(
                request.topics,
                wire.leader_waits(request),
                request.max_wait_ms,
                omit_topics=request.omit_topics,
            )
        except StrandlineError as error:
            await abort(context, error)
        return wire.metadata_response(cluster, unknown, include_config=request.include_config)

    async def PartitionCounts(
        self, request: log_pb2.PartitionCountsRequest, context: object
    ) -> log_pb2.PartitionCountsResponse:
        try:
            counts = await self._handlers.partition_counts(request.topics)
        except StrandlineError as error:
            return log_pb2.PartitionCountsResponse(error=error_to_wire(error))
        return log_pb2.PartitionCountsResponse(
            topics=[log_pb2.PartitionCount(topic=name, partitions=count) for name, count in counts.items()]
        )

    async def InitProducerId(
        self, request: log_pb2.InitProducerIdRequest, context: object
    ) -> log_pb2.InitProducerIdResponse:
        try:
            producer_id = await self._handlers.new_producer_id()
        except StrandlineError as error:
            return log_pb2.InitProducerIdResponse(error=error_to_wire(error))
        return log_pb2.InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


# Not by the generated function: Fetch writes bytes, not messages.


def add_log_service(server: grpc.aio.Server, log: LogService) -> None:
    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Produce": grpc.stream_stream_rpc_method_handler(
            log.Produce, log_pb2.ProduceRequest.FromString, log_pb2.ProduceResponse.SerializeToString
        ),
        "Fetch": grpc.stream_stream_rpc_method_handler(log.Fetch, log_pb2.FetchRequest.FromString),
        "ListOffsets": grpc.unary_unary_rpc_method_handler(
            log.ListOffsets,
            log_pb2.ListOffsetsRequest.FromString,
            log_pb2.ListOffsetsResponse.SerializeToString,
        ),
        "Metadata": grpc.unary_unary_rpc_method_handler(
            log.Metadata, log_pb2.MetadataRequest.FromString, log_pb2.MetadataResponse.SerializeToString
        ),
        "PartitionCounts": grpc.unary_unary_rpc_method_handler(
            log.PartitionCounts,
            log_pb2.PartitionCountsRequest.FromString,
            log_pb2.PartitionCountsResponse.SerializeToString,
        ),
        "InitProducerId": grpc.unary_unary_rpc_method_handler(
            log.InitProducerId,
            log_pb2.InitProducerIdRequest.FromString,
            log_pb2.InitProducerIdResponse.SerializeToString,
        ),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("strandline.v1.Log", methods),))
