"""What an honest client writes to a gRPC port, as the network has it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import grpc

from strandline.adapters.tls.grpc_credentials import open_channel
from strandline.adapters.tls.pem import Pem
from strandline.records import encode_values
from strandline.rpc import log_pb2, log_pb2_grpc
from tests.integration.hostile.support.hostile_calls import OPTIONS

CALL_S_MAX: Final = 20.0
CHUNK_BYTES: Final = 1 << 16


class Recorder:
    """Passes connections on to a port, and keeps what their clients write."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.written: list[bytearray] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", self._port)
        kept = bytearray()
        self.written.append(kept)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_pass_on(reader, onward_writer, kept))
                tasks.create_task(_pass_on(onward_reader, writer, bytearray()))
        except* OSError:
            pass  # one end has closed
        finally:
            writer.transport.abort()
            onward_writer.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bytearray) -> None:
    while data := await reader.read(CHUNK_BYTES):
        kept += data
        writer.write(data)
        await writer.drain()
    writer.transport.abort()


async def recorded_connections(port: int, topic: str, pem: Pem | None = None) -> Sequence[bytes]:
    """Of a client that asks for metadata, another that produces, and a third that fetches."""
    recorder = Recorder(port)
    server = await asyncio.start_server(recorder.serve, "127.0.0.1")
    try:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for ask in (_metadata, _produce, _fetch):
            async with open_channel(address, pem, OPTIONS) as channel:
                await ask(log_pb2_grpc.LogStub(channel), topic)
    finally:
        server.close()
    return [bytes(each) for each in recorder.written]


async def _metadata(log: log_pb2_grpc.LogAsyncStub, topic: str) -> None:
    await log.Metadata(log_pb2.MetadataRequest(topics=[topic]), timeout=CALL_S_MAX)


async def _produce(log: log_pb2_grpc.LogAsyncStub, topic: str) -> None:
    entry = log_pb2.PartitionRecords(
        correlation_id=1, topic=topic, acks=-1, timeout_ms=5_000, records=encode_values([b"honest"], 0)
    )
    call = log.Produce(timeout=CALL_S_MAX)
    await call.write(log_pb2.ProduceRequest(entries=[entry]))
    assert await call.read() is not grpc.aio.EOF
    call.cancel()


async def _fetch(log: log_pb2_grpc.LogAsyncStub, topic: str) -> None:
    wanted = log_pb2.FetchPartition(topic=topic, leader_epoch=-1, max_bytes=1_000)
    call = log.Fetch(timeout=CALL_S_MAX)
    await call.write(log_pb2.FetchRequest(min_bytes=1, max_bytes=1_000, partitions=[wanted]))
    assert await call.read() is not grpc.aio.EOF
    call.cancel()
