"""Internal topics are the members' own: that a client calls its request internal changes nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence

import grpc
import pytest

from strandline import Admin
from strandline.adapters.rpc.member_key import METADATA_NAME, key_metadata
from strandline.adapters.rpc.wire_errors import error_of_call
from strandline.errors import ErrorCode
from strandline.ids import GROUP_EVENTS_TOPIC, OFFSETS_TOPIC
from strandline.records import encode_values
from strandline.rpc import admin_pb2, admin_pb2_grpc, log_pb2
from tests.integration.groups.support.member_calls import member_key
from tests.integration.support.harness import Harness
from tests.integration.support.raw import CALL_S_MAX

Metadata = Sequence[tuple[str, bytes]]
GUESSED = ((METADATA_NAME, os.urandom(64)),)


async def written(shared: Harness, topic: str, metadata: Metadata, *, internal: bool = True) -> int:
    """The error number that a write to partition 0 of the topic is answered with by broker 1."""
    entry = log_pb2.PartitionRecords(
        correlation_id=1, topic=topic, partition=0, acks=-1, timeout_ms=1_000,
        records=encode_values([b"forged"], 0), internal=internal,
    )  # fmt: skip
    call = shared.brokers.log(1).Produce(timeout=CALL_S_MAX, metadata=tuple(metadata))
    await call.write(log_pb2.ProduceRequest(entries=[entry]))
    response = await call.read()
    call.cancel()
    assert isinstance(response, log_pb2.ProduceResponse)
    return response.results[0].error.code


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, GROUP_EVENTS_TOPIC, "__nothing"])
async def test_only_members_write_to_internal_topics(shared: Harness, topic: str) -> None:
    """CORRECTNESS X3: `internal` is not the client's to say, from the address of a broker neither."""
    assert await written(shared, topic, ()) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert await written(shared, topic, GUESSED) == ErrorCode.BROKER_NOT_AVAILABLE
    shown = key_metadata((await member_key(shared.cluster)).shown())
    allowed = await written(shared, topic, shown)
    assert allowed not in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.BROKER_NOT_AVAILABLE)
    assert await written(shared, topic, shown, internal=False) == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("metadata", "code"), [((), ErrorCode.INVALID_TOPIC_EXCEPTION), (GUESSED, ErrorCode.BROKER_NOT_AVAILABLE)]
)
async def test_only_members_create_internal_topics(
    shared: Harness, metadata: tuple[tuple[str, bytes], ...], code: int
) -> None:
    """CORRECTNESS X3."""
    async with Admin(shared.cluster.bootstrap) as admin:
        controller = (await admin.metadata([])).controller
    assert controller is not None
    request = admin_pb2.CreateTopicsRequest(
        topics=[admin_pb2.NewTopic(name="__forged", partitions=1, replication_factor=1)], internal=True
    )
    async with grpc.aio.insecure_channel(controller.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await admin_pb2_grpc.AdminStub(channel).CreateTopics(
                request, timeout=CALL_S_MAX, metadata=metadata
            )
    refused = error_of_call(caught.value)
    assert refused is not None
    assert refused.code == code
