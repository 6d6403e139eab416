"""Between protobuf and the broker's own types: the service `Log`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from strandline.adapters.rpc.frames import nested, tag
from strandline.adapters.rpc.listeners import endpoint_to_wire
from strandline.adapters.rpc.wire_errors import error_to_wire
from strandline.broker.log.handlers import Fetched, FetchPartition, Listed
from strandline.broker.replicas.leadership import Outcome, Produced
from strandline.errors import InvalidTopic, StrandlineError, UnknownTopicOrPartition
from strandline.ids import TopicPartition
from strandline.rpc import log_pb2
from strandline.vocabulary.metadata import ClusterMetadata
from strandline.vocabulary.topics import check_topic_name

# --- produce ------------------------------------------------------------------------------------


def produce_result(correlation_id: int, outcome: Outcome) -> log_pb2.ProduceResult:
    if isinstance(outcome, Produced):
        return log_pb2.ProduceResult(
            correlation_id=correlation_id,
            base_offset=outcome.base_offset,
            log_start_offset=outcome.log_start_offset,
            appended=outcome.appended,
        )
    return log_pb2.ProduceResult(correlation_id=correlation_id, error=error_to_wire(outcome), base_offset=-1)


# --- fetch --------------------------------------------------------------------------------------


def fetch_partitions(request: log_pb2.FetchRequest) -> list[FetchPartition]:
    return [
        FetchPartition(TopicPartition(p.topic, p.partition), p.fetch_offset, p.leader_epoch, p.max_bytes)
        for p in request.partitions
    ]


_PARTITIONS: Final = tag(log_pb2.FetchResponse.PARTITIONS_FIELD_NUMBER)
_FETCHED_RECORDS: Final = tag(log_pb2.FetchedPartition.RECORDS_FIELD_NUMBER)


def fetch_response(correlation_id: int, found: Iterable[Fetched]) -> bytes:
    """A FetchResponse, serialized."""
    parts: list[bytes] = [log_pb2.FetchResponse(correlation_id=correlation_id).SerializeToString()]
    for fetched in found:
        head = log_pb2.FetchedPartition(
            topic=fetched.name.topic,
            partition=fetched.name.partition,
            error=None if fetched.error is None else error_to_wire(fetched.error),
            high_watermark=fetched.high_watermark,
            log_start_offset=fetched.log_start_offset,
            leader_epoch=fetched.leader_epoch,
        ).SerializeToString()
        parts += nested(_PARTITIONS, head, _FETCHED_RECORDS, fetched.records)
    return b"".join(parts)


def offset_queries(request: log_pb2.ListOffsetsRequest) -> list[tuple[TopicPartition, int]]:
    return [(TopicPartition(p.topic, p.partition), p.timestamp_ms) for p in request.partitions]


def listed_offset(listed: Listed) -> log_pb2.ListedOffset:
    return log_pb2.ListedOffset(
        topic=listed.name.topic,
        partition=listed.name.partition,
        error=None if listed.error is None else error_to_wire(listed.error),
        offset=listed.offset,
        timestamp_ms=listed.timestamp_ms,
        leader_epoch=listed.leader_epoch,
        high_watermark=listed.high_watermark,
        log_start_offset=listed.log_start_offset,
        log_end_offset=listed.log_end_offset,
    )


# --- metadata -----------------------------------------------------------------------------------


def leader_waits(request: log_pb2.MetadataRequest) -> list[tuple[TopicPartition, int]]:
    return [(TopicPartition(w.topic, w.partition), w.above_epoch) for w in request.waits]


def metadata_response(
    cluster: ClusterMetadata, unknown: Sequence[str], *, include_config: bool
) -> log_pb2.MetadataResponse:
    response = log_pb2.MetadataResponse(
        cluster_id=cluster.cluster_id,
        brokers=[endpoint_to_wire(broker) for broker in cluster.brokers],
        controller=None if cluster.controller is None else endpoint_to_wire(cluster.controller),
        controller_unknown=cluster.controller_unknown,
    )
    for topic in cluster.topics:
        found = response.topics.add(topic=topic.name, topic_id=topic.topic_id)
        if include_config:
            found.config.update(topic.config)
        for p in topic.partitions:
            found.partitions.add(
                partition=p.partition,
                leader=p.leader,
                leader_epoch=p.leader_epoch,
                replicas=p.replicas,
                isr=p.isr,
            )
    for name in unknown:
        response.topics.add(topic=name, error=error_to_wire(_no_topic(name)))
    return response


def _no_topic(name: str) -> StrandlineError:
    try:
        check_topic_name(name)
    except InvalidTopic as error:
        return error
    return UnknownTopicOrPartition(f"topic {name!r} does not exist")
