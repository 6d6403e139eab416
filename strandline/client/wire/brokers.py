"""Between protobuf and the clients' own types: the calls of `Admin` about brokers."""

from __future__ import annotations

from typing import Final

from strandline.adapters.rpc.wire_errors import refuse
from strandline.client.messages import (
    BrokerCheck,
    BrokerDescription,
    CheckBroker,
    ClusterDescription,
    DrainBroker,
    DrainProgress,
)
from strandline.ports import Method
from strandline.rpc import admin_pb2, common_pb2
from strandline.vocabulary.metadata import Endpoint


def _encode_describe_cluster(_request: None) -> bytes:
    return admin_pb2.DescribeClusterRequest().SerializeToString()


def _decode_describe_cluster(data: bytes) -> ClusterDescription:
    response = admin_pb2.DescribeClusterResponse.FromString(data)
    refuse(response.error)
    return ClusterDescription(
        response.cluster_id, _endpoint(response.controller), tuple(map(_description, response.brokers))
    )


def _description(broker: admin_pb2.BrokerDescription) -> BrokerDescription:
    return BrokerDescription(
        _endpoint(broker.endpoint),
        broker.broker_epoch,
        broker.shutting_down,
        broker.queued_state_changes,
        broker.oldest_queued_at_ms,
        broker.alive,
        broker.drained,
    )


def _endpoint(endpoint: common_pb2.Endpoint) -> Endpoint:
    return Endpoint(endpoint.id, endpoint.host, endpoint.port, endpoint.rack)


def _encode_drain(request: DrainBroker) -> bytes:
    return admin_pb2.DrainBrokerRequest(
        broker=request.broker,
        replicas=request.replicas,
        undo=request.undo,
        throttle_bytes_per_s=request.throttle_bytes_per_s,
    ).SerializeToString()


def _decode_drain(data: bytes) -> DrainProgress:
    response = admin_pb2.DrainBrokerResponse.FromString(data)
    refuse(response.error)
    return DrainProgress(
        response.leaderships, response.replicas, tuple(response.problems), response.permanent
    )


def _encode_check(request: CheckBroker) -> bytes:
    message = admin_pb2.CheckBrokerRequest(broker=request.broker, end_drain=request.end_drain)
    return message.SerializeToString()


def _decode_check(data: bytes) -> BrokerCheck:
    response = admin_pb2.CheckBrokerResponse.FromString(data)
    refuse(response.error)
    return BrokerCheck(
        response.ready,
        tuple(response.problems),
        response.leaderships,
        response.replicas,
        tuple(response.permanent),
        response.drain_ended,
    )


DESCRIBE_CLUSTER: Final = Method(
    "/strandline.v1.Admin/DescribeCluster", _encode_describe_cluster, _decode_describe_cluster
)
DRAIN_BROKER: Final = Method("/strandline.v1.Admin/DrainBroker", _encode_drain, _decode_drain)
CHECK_BROKER: Final = Method("/strandline.v1.Admin/CheckBroker", _encode_check, _decode_check)
