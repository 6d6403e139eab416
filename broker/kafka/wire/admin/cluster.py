"""DescribeCluster: the brokers, their addresses, and the controller."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.fields import Reader, Writer
from strandline.broker.kafka.wire.metadata import OPERATIONS_UNKNOWN, BrokerAddress

BROKERS: Final = 1
CONTROLLERS: Final = 2
"""Kinds of endpoints (KIP-919): what the client is configured to talk to."""


class DescribeClusterRequest(NamedTuple):
    endpoints: int = BROKERS


class DescribeClusterAnswer(NamedTuple):
    """`endpoints` repeats the request's."""

    cluster_id: str = ""
    controller: int = -1
    brokers: tuple[BrokerAddress, ...] = ()
    endpoints: int = BROKERS
    error: int = 0
    message: str | None = None


def read_request(reader: Reader, version: int) -> DescribeClusterRequest:
    reader.boolean()  # whether the client asks for its authorized operations
    return DescribeClusterRequest(reader.int8() if version >= 1 else BROKERS)


def write_answer(writer: Writer, answer: DescribeClusterAnswer, version: int) -> None:
    def write_broker(broker: BrokerAddress) -> None:
        writer.int32(broker.broker)
        writer.string(broker.host)
        writer.int32(broker.port)
        writer.string(broker.rack)
        writer.tags()

    writer.int32(0)  # throttle time
    writer.int16(answer.error)
    writer.string(answer.message)
    if version >= 1:
        writer.int8(answer.endpoints)
    writer.string(answer.cluster_id)
    writer.int32(answer.controller)
    writer.array(answer.brokers, write_broker)
    writer.int32(OPERATIONS_UNKNOWN)
    writer.tags()
