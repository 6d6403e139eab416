"""The RPCs of `strandline.v1.Log` in the broker: converts between bytes and the types of `requests`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from strandline.adapters.rpc.frames import nested, tag
from strandline.adapters.rpc.listeners import endpoint_to_wire
from strandline.adapters.rpc.parsing import parse
from strandline.adapters.rpc.wire_errors import error_to_wire
from strandline.broker.log.requests import (
    ACKS_ALL,
    FetchAnswer,
    FetchPartition,
    FetchRequest,
    Listed,
    MetadataAnswer,
    MetadataRequest,
    ProduceEntry,
    ProduceMessage,
    ProduceResults,
)
from strandline.broker.replicas.leadership import Outcome, Produced
from strandline.errors import InvalidTopic, StrandlineError, UnknownTopicOrPartition
from strandline.ids import TopicPartition
from strandline.ports import Rpc
from strandline.rpc import log_pb2
from strandline.vocabulary.topics import check_topic_name

# --- produce ------------------------------------------------------------------------------------


def _produce(data: bytes) -> ProduceMessage:
    entries = parse(log_pb2.ProduceRequest, data).entries
    unreplicated = frozenset(TopicPartition(e.topic, e.partition) for e in entries if e.acks != ACKS_ALL)
    return ProduceMessage(len(entries), map(_entry, entries), unreplicated)


def _entry(entry: log_pb2.PartitionRecords) -> ProduceEntry:
    return ProduceEntry(
        TopicPartition(entry.topic, entry.partition),
        entry.records,
        entry.acks,
        entry.timeout_ms,
        entry.correlation_id,
        entry.internal,
        entry.expected_offset if entry.HasField("expected_offset") else None,
    )


def _produced(results: ProduceResults) -> bytes:
    return log_pb2.ProduceResponse(results=[_produce_result(*each) for each in results]).SerializeToString()


def _produce_result(correlation_id: int, outcome: Outcome) -> log_pb2.ProduceResult:
    if isinstance(outcome, Produced):
        return log_pb2.ProduceResult(
            correlation_id=correlation_id,
            base_offset=outcome.base_offset,
            log_start_offset=outcome.log_start_offset,
            appended=outcome.appended,
        )
    return log_pb2.ProduceResult(correlation_id=correlation_id, error=error_to_wire(outcome), base_offset=-1)


# --- fetch --------------------------------------------------------------------------------------


def _fetch(data: bytes) -> FetchRequest:
    request = parse(log_pb2.FetchRequest, data)
    return FetchRequest(
        request.correlation_id,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        [
            FetchPartition(TopicPartition(p.topic, p.partition), p.fetch_offset, p.leader_epoch, p.max_bytes)
            for p in request.partitions
        ],
    )


_PARTITIONS: Final = tag(log_pb2.FetchResponse.PARTITIONS_FIELD_NUMBER)
_FETCHED_RECORDS: Final = tag(log_pb2.FetchedPartition.RECORDS_FIELD_NUMBER)


def _fetched(answer: FetchAnswer) -> bytes:
    parts: list[bytes] = [log_pb2.FetchResponse(correlation_id=answer.correlation_id).SerializeToString()]
    for fetched in answer.partitions:
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


# --- offsets ------------------------------------------------------------------------------------


def _list_offsets(data: bytes) -> list[tuple[TopicPartition, int]]:
    request = parse(log_pb2.ListOffsetsRequest, data)
    return [(TopicPartition(p.topic, p.partition), p.timestamp_ms) for p in request.partitions]


def _listed(listed: Sequence[Listed]) -> bytes:
    return log_pb2.ListOffsetsResponse(partitions=map(_listed_offset, listed)).SerializeToString()


def _listed_offset(listed: Listed) -> log_pb2.ListedOffset:
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


# --- the cluster --------------------------------------------------------------------------------


def _metadata(data: bytes) -> MetadataRequest:
    request = parse(log_pb2.MetadataRequest, data)
    return MetadataRequest(
        request.topics,
        [(TopicPartition(w.topic, w.partition), w.above_epoch) for w in request.waits],
        request.max_wait_ms,
        request.omit_topics,
        request.include_config,
    )


def _described(answer: MetadataAnswer) -> bytes:
    cluster = answer.cluster
    response = log_pb2.MetadataResponse(
        cluster_id=cluster.cluster_id,
        brokers=[endpoint_to_wire(broker) for broker in cluster.brokers],
        controller=None if cluster.controller is None else endpoint_to_wire(cluster.controller),
        controller_unknown=cluster.controller_unknown,
    )
    for topic in cluster.topics:
        found = response.topics.add(topic=topic.name, topic_id=topic.topic_id)
        if answer.include_config:
            found.config.update(topic.config)
        for p in topic.partitions:
            found.partitions.add(
                partition=p.partition,
                leader=p.leader,
                leader_epoch=p.leader_epoch,
                replicas=p.replicas,
                isr=p.isr,
            )
    for name in answer.unknown:
        response.topics.add(topic=name, error=error_to_wire(_no_topic(name)))
    return response.SerializeToString(deterministic=True)  # it has maps


def _no_topic(name: str) -> StrandlineError:
    try:
        check_topic_name(name)
    except InvalidTopic as error:
        return error
    return UnknownTopicOrPartition(f"topic {name!r} does not exist")


def _partition_counts(data: bytes) -> Sequence[str]:
    return parse(log_pb2.PartitionCountsRequest, data).topics


def _counted(counts: Mapping[str, int]) -> bytes:
    return log_pb2.PartitionCountsResponse(
        topics=[log_pb2.PartitionCount(topic=name, partitions=count) for name, count in counts.items()]
    ).SerializeToString()


def _not_counted(error: StrandlineError) -> bytes:
    return log_pb2.PartitionCountsResponse(error=error_to_wire(error)).SerializeToString()


def _init_producer_id(data: bytes) -> None:
    parse(log_pb2.InitProducerIdRequest, data)


def _producer_id(given: int) -> bytes:
    return log_pb2.InitProducerIdResponse(producer_id=given, producer_epoch=0).SerializeToString()


def _no_producer_id(error: StrandlineError) -> bytes:
    return log_pb2.InitProducerIdResponse(error=error_to_wire(error)).SerializeToString()


# --- the service --------------------------------------------------------------------------------

PRODUCE: Final = Rpc("/strandline.v1.Log/Produce", _produce, _produced)
FETCH: Final = Rpc("/strandline.v1.Log/Fetch", _fetch, _fetched)
LIST_OFFSETS: Final = Rpc("/strandline.v1.Log/ListOffsets", _list_offsets, _listed)
METADATA: Final = Rpc("/strandline.v1.Log/Metadata", _metadata, _described)
PARTITION_COUNTS: Final = Rpc("/strandline.v1.Log/PartitionCounts", _partition_counts, _counted, _not_counted)
INIT_PRODUCER_ID: Final = Rpc(
    "/strandline.v1.Log/InitProducerId", _init_producer_id, _producer_id, _no_producer_id
)
