"""DescribeCluster: brokers, addresses, the controller. UnregisterBroker: a broker that will not return."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.metadata import OPERATIONS_UNKNOWN, BrokerAddress
from strandline.broker.kafka.wire.table.rows import (
    BOOL,
    ERROR,
    INT8,
    INT32,
    MESSAGE,
    STRING,
    Array,
    Struct,
    row,
    throttle,
)

BROKERS: Final = 1
CONTROLLERS: Final = 2
"""Kinds of endpoints (KIP-919): what the client is configured to talk to."""


class DescribeClusterRequest(NamedTuple):
    """`operations` asks for what the client may do with the cluster (KIP-430), `fenced` for brokers that are
    down too (KIP-1073)."""

    endpoints: int = BROKERS
    operations: bool = False
    fenced: bool = False


class DescribeClusterAnswer(NamedTuple):
    """`endpoints` is the kind that the answer has, or would have."""

    cluster_id: str = ""
    controller: int = -1
    brokers: tuple[BrokerAddress, ...] = ()
    endpoints: int = BROKERS
    error: int = 0
    message: str | None = None
    operations: int = OPERATIONS_UNKNOWN


REQUEST: Final = Struct(
    DescribeClusterRequest,
    BOOL("include_cluster_authorized_operations", "operations"),
    INT8("endpoint_type", "endpoints", since=1),
    BOOL("include_fenced_brokers", "fenced", since=2),
)
_BROKER: Final = Struct(
    BrokerAddress,
    INT32("broker_id", "broker"),
    STRING("host"),
    INT32("port"),
    STRING("rack", nullable=0),
    BOOL("is_fenced", "fenced", since=2),
)
ANSWER: Final = Struct(
    DescribeClusterAnswer,
    throttle(),
    ERROR,
    MESSAGE,
    INT8("endpoint_type", "endpoints", since=1),
    STRING("cluster_id"),
    INT32("controller_id", "controller"),
    row("brokers", Array(_BROKER)),
    INT32("cluster_authorized_operations", "operations"),
)


# --- UnregisterBroker -------------------------------------------------------------------------


class UnregisterBrokerRequest(NamedTuple):
    broker: int


class UnregisterBrokerAnswer(NamedTuple):
    error: int = 0
    message: str | None = None


UNREGISTER_REQUEST: Final = Struct(UnregisterBrokerRequest, INT32("broker_id", "broker"))
UNREGISTER_ANSWER: Final = Struct(UnregisterBrokerAnswer, throttle(), ERROR, MESSAGE)
