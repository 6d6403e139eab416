"""DescribeCluster: the brokers, their addresses, and the controller."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.fields import Reader, Writer
from strandline.broker.kafka.wire.metadata import OPERATIONS_UNKNOWN, BrokerAddress

BROKERS: Final = 1
CONTROLLERS: Final = 2
"""Kinds of endpoints (KIP-919): what the client is configured to talk to."""


class DescribeClusterRequest(NamedTuple):
    """`operations` asks for what the client may do with the cluster (KIP-430)."""

    endpoints: int = BROKERS
    operations: bool = False


class DescribeClusterAnswer(NamedTuple):
    """`endpoints` repeats the request's."""

    cluster_id: str = ""
    controller: int = -1
    brokers: tuple[BrokerAddress, ...] = ()
    endpoints: int = BROKERS
    error: int = 0
    message: str | None = None
    operations: int = OPERATIONS_UNKNOWN


def read_request(reader: Reader, version: int) -> DescribeClusterRequest:
    operations = reader.boolean()
    return DescribeClusterRequest(reader.int8() if version >= 1 else BROKERS, operations)


def write_answer(writer: Writer, answer: DescribeClusterAnswer, version: int) -> None:
    def write_broker(broker: BrokerAddress) -> None:
        writer.int32(broker.broker)
        writer.string(broker.host)
        writer.int32(broker.port)
        writer.string(broker.rack)
        writer.tags()

    writer.throttle_time()
    writer.int16(answer.error)
    writer.string(answer.message)
    if version >= 1:
        writer.int8(answer.endpoints)
    writer.string(answer.cluster_id)
    writer.int32(answer.controller)
    writer.array(answer.brokers, write_broker)
    writer.int32(answer.operations)
    writer.tags()
