"""Between protobuf and the clients' own types: the calls of `Admin` about where replicas are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from strandline.adapters.rpc.wire_errors import error_from_wire, refuse
from strandline.client.messages import (
    ElectUnclean,
    OngoingReassignment,
    PartitionResult,
    Reassign,
    UncleanElection,
)
from strandline.ids import TopicPartition
from strandline.ports import Method
from strandline.rpc import admin_pb2


def _encode_reassign(request: Reassign) -> bytes:
    message = admin_pb2.ReassignRequest(
        throttle_bytes_per_s=request.throttle_bytes_per_s, validate_only=request.validate_only
    )
    for each in request.partitions:
        message.partitions.add(topic=each.name.topic, partition=each.name.partition, replicas=each.replicas)
    return message.SerializeToString()


def _decode_reassign(data: bytes) -> Sequence[PartitionResult]:
    return _results(admin_pb2.ReassignResponse.FromString(data).results)


def _results(messages: Iterable[admin_pb2.PartitionResult]) -> Sequence[PartitionResult]:
    return [PartitionResult(TopicPartition(m.topic, m.partition), error_from_wire(m.error)) for m in messages]


def _encode_list(_request: None) -> bytes:
    return admin_pb2.ListReassignmentsRequest().SerializeToString()


def _decode_list(data: bytes) -> Sequence[OngoingReassignment]:
    response = admin_pb2.ListReassignmentsResponse.FromString(data)
    refuse(response.error)
    return [
        OngoingReassignment(
            TopicPartition(m.topic, m.partition),
            tuple(m.original),
            tuple(m.replicas),
            tuple(m.isr),
            m.throttle_bytes_per_s,
            m.reverting,
        )
        for m in response.reassignments
    ]


def _encode_elect(names: Sequence[TopicPartition]) -> bytes:
    message = admin_pb2.ElectPreferredRequest()
    for name in names:
        message.partitions.add(topic=name.topic, partition=name.partition)
    return message.SerializeToString()


def _decode_elect(data: bytes) -> Sequence[PartitionResult]:
    response = admin_pb2.ElectPreferredResponse.FromString(data)
    refuse(response.error)
    return _results(response.results)


def _encode_unclean(request: ElectUnclean) -> bytes:
    message = admin_pb2.ElectUncleanRequest(validate_only=request.validate_only)
    for name in request.partitions:
        message.partitions.add(topic=name.topic, partition=name.partition)
    return message.SerializeToString()


def _decode_unclean(data: bytes) -> Sequence[UncleanElection]:
    response = admin_pb2.ElectUncleanResponse.FromString(data)
    refuse(response.error)
    return [
        UncleanElection(
            TopicPartition(m.topic, m.partition),
            error_from_wire(m.error),
            m.broker,
            m.last_epoch,
            m.log_end,
            m.known_end,
            m.known,
            tuple(m.missing),
        )
        for m in response.results
    ]


REASSIGN: Final = Method("/strandline.v1.Admin/Reassign", _encode_reassign, _decode_reassign)
LIST_REASSIGNMENTS: Final = Method("/strandline.v1.Admin/ListReassignments", _encode_list, _decode_list)
ELECT_PREFERRED: Final = Method("/strandline.v1.Admin/ElectPreferred", _encode_elect, _decode_elect)
ELECT_UNCLEAN: Final = Method("/strandline.v1.Admin/ElectUnclean", _encode_unclean, _decode_unclean)
