"""Between protobuf and the types of who reads from a leader: the consumer, and readers of internal topics."""

from __future__ import annotations

from typing import Final

from strandline.adapters.rpc.wire_errors import error_from_wire
from strandline.client.fetches import Answer, FetchRequest, FetchResponse
from strandline.ids import TopicPartition
from strandline.ports import Method
from strandline.rpc import log_pb2


def _encode(request: FetchRequest) -> bytes:
    message = log_pb2.FetchRequest(
        correlation_id=request.plan.number,
        max_wait_ms=request.wait_ms,
        min_bytes=request.bytes_min,
        max_bytes=request.bytes_max,
    )
    for wanted in request.plan.wanted:
        message.partitions.add(
            topic=wanted.name.topic,
            partition=wanted.name.partition,
            fetch_offset=wanted.offset,
            leader_epoch=wanted.leader_epoch,
            max_bytes=request.partition_bytes_max,
        )
    return message.SerializeToString()


def _decode(data: bytes) -> FetchResponse:
    message = log_pb2.FetchResponse.FromString(data)
    answers = [
        Answer(
            TopicPartition(p.topic, p.partition),
            error_from_wire(p.error) if p.HasField("error") else None,
            p.high_watermark,
            p.log_start_offset,
            p.records,
        )
        for p in message.partitions
    ]
    return FetchResponse(message.correlation_id, answers)


FETCH: Final = Method("/strandline.v1.Log/Fetch", _encode, _decode)


def response_to(number: int, response: FetchResponse) -> FetchResponse | None:
    """The response if it answers the fetch of this number, else None."""
    return response if response.number == number else None
