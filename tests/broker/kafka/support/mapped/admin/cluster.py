"""DescribeCluster."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.admin.cluster import DescribeClusterAnswer, DescribeClusterRequest
from strandline.broker.kafka.wire.apis import DESCRIBE_CLUSTER
from strandline.broker.kafka.wire.metadata import BrokerAddress
from tests.broker.kafka.support.kio_codec import Values
from tests.broker.kafka.support.mapped.mapped import Mapped


def request(asked: Values, version: int) -> DescribeClusterRequest:
    return DescribeClusterRequest(
        asked.get("endpoint_type", 1), asked["include_cluster_authorized_operations"]
    )


def answer(found: Values, version: int) -> DescribeClusterAnswer:
    return DescribeClusterAnswer(
        found["cluster_id"],
        found["controller_id"],
        tuple(BrokerAddress(b["broker_id"], b["host"], b["port"], b["rack"]) for b in found["brokers"]),
        found.get("endpoint_type", 1),
        found["error_code"],
        found["error_message"],
        found["cluster_authorized_operations"],
    )


MAPPED: Final = (Mapped(DESCRIBE_CLUSTER, request, answer),)
