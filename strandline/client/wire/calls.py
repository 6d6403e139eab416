"""Between protobuf and the clients' own types: the unary calls of `Log`, and `Admin`.

An answer that carries an error as a whole is raised by `decode` as that error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strandline.adapters.rpc.wire_errors import error_from_wire, refuse
from strandline.client.messages import (
    AlterTopic,
    CreateTopics,
    ListedOffset,
    MetadataAnswer,
    MetadataQuery,
    OffsetQuery,
    ProducerIdentity,
    TopicResult,
)
from strandline.errors import StrandlineError
from strandline.ids import TopicId, TopicPartition
from strandline.ports import Method
from strandline.rpc import admin_pb2, common_pb2, log_pb2
from strandline.vocabulary.metadata import ClusterMetadata, Endpoint, PartitionMetadata, TopicMetadata


def _endpoint(message: common_pb2.Endpoint) -> Endpoint:
    return Endpoint(message.id, message.host, message.port, message.rack)


# --- metadata -----------------------------------------------------------------------------------


def _encode_metadata(query: MetadataQuery) -> bytes:
    request = log_pb2.MetadataRequest(
        topics=query.topics or (),
        max_wait_ms=query.max_wait_ms,
        include_config=True,
        omit_topics=query.topics is None,
    )
    for wait in query.waits:
        request.waits.add(topic=wait.name.topic, partition=wait.name.partition, above_epoch=wait.above_epoch)
    return request.SerializeToString()


def _topic(message: log_pb2.TopicMetadata) -> TopicMetadata:
    partitions = tuple(
        PartitionMetadata(p.partition, p.leader, p.leader_epoch, tuple(p.replicas), tuple(p.isr))
        for p in sorted(message.partitions, key=lambda p: p.partition)
    )
    return TopicMetadata(message.topic, TopicId(message.topic_id), partitions, dict(message.config))


def _decode_metadata(data: bytes) -> MetadataAnswer:
    response = log_pb2.MetadataResponse.FromString(data)
    errors: dict[str, StrandlineError] = {}
    topics: list[TopicMetadata] = []
    for topic in response.topics:
        error = error_from_wire(topic.error)
        if error is None:
            topics.append(_topic(topic))
        else:
            errors[topic.topic] = error
    cluster = ClusterMetadata(
        response.cluster_id,
        tuple(map(_endpoint, response.brokers)),
        _endpoint(response.controller) if response.HasField("controller") else None,
        tuple(topics),
        response.controller_unknown,
    )
    return MetadataAnswer(cluster, errors)


METADATA: Final = Method("/strandline.v1.Log/Metadata", _encode_metadata, _decode_metadata)


# --- partition counts ---------------------------------------------------------------------------


def _encode_partition_counts(topics: Sequence[str]) -> bytes:
    return log_pb2.PartitionCountsRequest(topics=topics).SerializeToString()


def _decode_partition_counts(data: bytes) -> dict[str, int]:
    response = log_pb2.PartitionCountsResponse.FromString(data)
    refuse(response.error)
    return {each.topic: each.partitions for each in response.topics}


PARTITION_COUNTS: Final = Method(
    "/strandline.v1.Log/PartitionCounts", _encode_partition_counts, _decode_partition_counts
)


# --- offsets ------------------------------------------------------------------------------------


def _encode_list_offsets(queries: Sequence[OffsetQuery]) -> bytes:
    request = log_pb2.ListOffsetsRequest()
    for query in queries:
        request.partitions.add(
            topic=query.name.topic, partition=query.name.partition, timestamp_ms=query.timestamp_ms
        )
    return request.SerializeToString()


def _decode_list_offsets(data: bytes) -> Sequence[ListedOffset]:
    return [
        ListedOffset(
            TopicPartition(p.topic, p.partition),
            error_from_wire(p.error),
            p.offset,
            p.timestamp_ms,
            p.leader_epoch,
            p.high_watermark,
            p.log_start_offset,
            p.log_end_offset,
        )
        for p in log_pb2.ListOffsetsResponse.FromString(data).partitions
    ]


LIST_OFFSETS: Final = Method("/strandline.v1.Log/ListOffsets", _encode_list_offsets, _decode_list_offsets)


# --- producer ids -------------------------------------------------------------------------------


def _encode_init_producer_id(_request: None) -> bytes:
    return log_pb2.InitProducerIdRequest().SerializeToString()


def _decode_init_producer_id(data: bytes) -> ProducerIdentity:
    response = log_pb2.InitProducerIdResponse.FromString(data)
    refuse(response.error)
    return ProducerIdentity(response.producer_id, response.producer_epoch)


INIT_PRODUCER_ID: Final = Method(
    "/strandline.v1.Log/InitProducerId", _encode_init_producer_id, _decode_init_producer_id
)


# --- admin --------------------------------------------------------------------------------------


def _encode_create_topics(request: CreateTopics) -> bytes:
    message = admin_pb2.CreateTopicsRequest(validate_only=request.validate_only, internal=request.internal)
    for topic in request.topics:
        message.topics.add(
            name=topic.name,
            partitions=topic.partitions or len(topic.assignments),
            replication_factor=topic.replication_factor,
            config=topic.config,
            assignments=[admin_pb2.ReplicaAssignment(replicas=replicas) for replicas in topic.assignments],
        )
    return message.SerializeToString(deterministic=True)  # it has a map


def _results(messages: Sequence[admin_pb2.TopicResult]) -> list[TopicResult]:
    return [TopicResult(m.topic, error_from_wire(m.error), m.topic_id) for m in messages]


def _decode_create_topics(data: bytes) -> list[TopicResult]:
    return _results(admin_pb2.CreateTopicsResponse.FromString(data).results)


def _encode_delete_topics(topics: Sequence[str]) -> bytes:
    return admin_pb2.DeleteTopicsRequest(topics=topics).SerializeToString()


def _decode_delete_topics(data: bytes) -> list[TopicResult]:
    return _results(admin_pb2.DeleteTopicsResponse.FromString(data).results)


def _encode_alter_topic(request: AlterTopic) -> bytes:
    message = admin_pb2.AlterTopicRequest(
        topic=request.topic,
        unset=request.unset,
        partitions=request.partitions,
        assignments=[admin_pb2.ReplicaAssignment(replicas=replicas) for replicas in request.assignments],
    )
    message.set.update(request.set)
    return message.SerializeToString(deterministic=True)  # it has a map


def _decode_alter_topic(data: bytes) -> None:
    refuse(admin_pb2.AlterTopicResponse.FromString(data).error)


CREATE_TOPICS: Final = Method(
    "/strandline.v1.Admin/CreateTopics", _encode_create_topics, _decode_create_topics
)
DELETE_TOPICS: Final = Method(
    "/strandline.v1.Admin/DeleteTopics", _encode_delete_topics, _decode_delete_topics
)
ALTER_TOPIC: Final = Method("/strandline.v1.Admin/AlterTopic", _encode_alter_topic, _decode_alter_topic)
