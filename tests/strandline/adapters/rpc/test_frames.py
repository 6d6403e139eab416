"""Messages framed by hand are protobuf like any other."""

from __future__ import annotations

import pytest

from strandline.adapters.codecs.log import FETCH, PRODUCE
from strandline.adapters.codecs.replication import REPLICA_FETCH
from strandline.adapters.rpc.frames import varint
from strandline.errors import NotLeaderOrFollower, OffsetOutOfRange
from strandline.ids import TopicPartition
from strandline.ports import Listener
from strandline.rpc import log_pb2
from strandline.vocabulary.log import FetchAnswer, Fetched, ProduceEntry
from strandline.vocabulary.replication import Push

NAME = TopicPartition("tides", 3)
SIZES = [0, 1, 127, 128, 16_383, 16_384, 524_288]


@pytest.mark.parametrize("size", SIZES)
def test_a_produce_request_reads_back_as_it_was_meant(size: int) -> None:
    records = bytes(size)
    data = PRODUCE.encode([ProduceEntry(NAME, records, -1, 5, 2**63), ProduceEntry(NAME, b"x", 0, 6, 2)])
    first, second = log_pb2.ProduceRequest.FromString(data).entries
    assert (first.correlation_id, first.topic, first.partition, first.acks) == (2**63, "tides", 3, -1)
    assert (first.timeout_ms, first.records) == (5, records)
    assert (second.correlation_id, second.records) == (2, b"x")


@pytest.mark.parametrize("size", SIZES)
def test_a_fetch_response_reads_back_as_it_was_meant(size: int) -> None:
    found = [Fetched(NAME, None, -1, 4, bytes(size), 5), Fetched(NAME, NotLeaderOrFollower("not here"))]
    response = log_pb2.FetchResponse.FromString(FETCH.served.encode(FetchAnswer(9, found), Listener.INTERNAL))
    first, second = response.partitions
    assert response.correlation_id == 9
    assert (first.topic, first.high_watermark, first.log_start_offset, first.leader_epoch) == (
        "tides",
        -1,
        4,
        5,
    )
    assert (first.records, first.HasField("error")) == (bytes(size), False)
    assert second.error.message == "not here"


@pytest.mark.parametrize("size", SIZES)
def test_a_replication_message_reads_back_as_it_was_meant(size: int) -> None:
    pushes = [
        Push(1, 10, 2, bytes(size)),
        Push(2, error=OffsetOutOfRange("begins at 7", limit=7)),
        Push(3, diverging=(-1, -1)),
    ]
    sequence, read = REPLICA_FETCH.decode(REPLICA_FETCH.served.encode((4, pushes), Listener.INTERNAL))
    assert sequence == 4
    assert (read[0], read[2]) == (pushes[0], pushes[2])
    assert read[1].error is not None
    assert (read[1].error.message, read[1].error.limit) == ("begins at 7", 7)


@pytest.mark.parametrize(
    ("number", "data"), [(0, b"\x00"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02")]
)
def test_lengths_are_written_as_protobuf_writes_them(number: int, data: bytes) -> None:
    assert varint(number) == data
