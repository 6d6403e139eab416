"""The RPCs of `strandline.v1.Log`, with the values of `strandline.vocabulary.log`.

Produce, Fetch and Metadata are written by hand: they carry records, or a row for each partition of a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strandline.adapters.codecs.messages import (
    ERROR,
    PARTITION,
    Call,
    MessageCodec,
    at_most,
    call,
    many,
    nothing,
    only,
    plain,
    read_endpoint,
    shape,
)
from strandline.adapters.rpc.frames import nested, tag
from strandline.adapters.rpc.reachable_address import endpoint_to_wire
from strandline.adapters.rpc.request_parsing import parse
from strandline.adapters.rpc.wire_errors import error_from_wire, error_to_wire
from strandline.config.limits import PARTITIONS_DESCRIBED_MAX
from strandline.errors import StrandlineError
from strandline.ids import ACKS_ALL, NO_EPOCH, TopicId, TopicPartition
from strandline.ports import Listener, Method, Rpc
from strandline.rpc import log_pb2
from strandline.vocabulary.log import (
    AbortedFrom,
    DescribedReplicas,
    EpochQuery,
    FetchAnswer,
    Fetched,
    FetchPartition,
    FetchRequest,
    LeaderWait,
    ListedEpochEnd,
    ListedOffset,
    MetadataAnswer,
    MetadataQuery,
    OffsetQuery,
    ProduceEntry,
    ProduceMessage,
    ProduceResult,
    ProducerIdentity,
    ReplicaProgress,
    ReplicasQuery,
)
from strandline.vocabulary.log_position import EpochEnd
from strandline.vocabulary.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata

_SERVICE: Final = "/strandline.v1.Log/"


# --- produce ------------------------------------------------------------------------------------

_ENTRIES: Final = tag(log_pb2.ProduceRequest.ENTRIES_FIELD_NUMBER)
_RECORDS: Final = tag(log_pb2.PartitionRecords.RECORDS_FIELD_NUMBER)


def _encode_produce(entries: Sequence[ProduceEntry]) -> bytes:
    parts: list[bytes] = []
    for entry in entries:
        head = log_pb2.PartitionRecords(
            correlation_id=entry.correlation_id,
            topic=entry.name.topic,
            partition=entry.name.partition,
            acks=entry.acks,
            timeout_ms=entry.timeout_ms,
            internal=entry.internal,
            expected_offset=entry.expected_offset,
            topic_id=entry.topic_id,
            transactional_id=entry.transactional_id,
        ).SerializeToString()
        parts += nested(_ENTRIES, head, _RECORDS, entry.records)
    return b"".join(parts)


def _decode_produce(data: bytes) -> ProduceMessage:
    entries = parse(log_pb2.ProduceRequest, data).entries
    alone = dict.fromkeys(TopicPartition(e.topic, e.partition) for e in entries if e.acks != ACKS_ALL)
    transactional = any(e.transactional_id for e in entries)
    return ProduceMessage(len(entries), map(_entry, entries), tuple(alone), len(data), transactional)


def _entry(entry: log_pb2.PartitionRecords) -> ProduceEntry:
    return ProduceEntry(
        TopicPartition(entry.topic, entry.partition),
        entry.records,
        entry.acks,
        entry.timeout_ms,
        entry.correlation_id,
        entry.internal,
        entry.expected_offset if entry.HasField("expected_offset") else None,
        TopicId(entry.topic_id),
        transactional_id=entry.transactional_id,
    )


def _encode_results(results: Sequence[ProduceResult], to: Listener) -> bytes:
    return log_pb2.ProduceResponse(
        results=[
            log_pb2.ProduceResult(
                correlation_id=r.correlation_id,
                error=None if r.error is None else error_to_wire(r.error, to),
                base_offset=r.base_offset,
                log_start_offset=r.log_start_offset,
                appended=r.appended,
                throttle_ms=r.throttle_ms,
            )
            for r in results
        ]
    ).SerializeToString()


def _decode_results(data: bytes) -> Sequence[ProduceResult]:
    return [
        ProduceResult(
            r.correlation_id,
            error_from_wire(r.error) if r.HasField("error") else None,
            r.base_offset,
            r.appended,
            r.log_start_offset,
            r.throttle_ms,
        )
        for r in log_pb2.ProduceResponse.FromString(data).results
    ]


PRODUCE: Final = Method(_SERVICE + "Produce", _encode_produce, _decode_results)
SERVED_PRODUCE: Final = Rpc(PRODUCE.path, _decode_produce, _encode_results)
"""The broker's end of PRODUCE: it reads a message's entries one by one."""


def result_of(correlation_id: int, results: Sequence[ProduceResult]) -> ProduceResult | None:
    """The result of the entry with this correlation id; None if it is not among these."""
    return next((result for result in results if result.correlation_id == correlation_id), None)


# --- fetch --------------------------------------------------------------------------------------


def _encode_fetch(request: FetchRequest) -> bytes:
    message = log_pb2.FetchRequest(
        correlation_id=request.correlation_id,
        max_wait_ms=request.wait_ms,
        min_bytes=request.bytes_min,
        max_bytes=request.bytes_max,
    )
    for wanted in request.partitions:
        message.partitions.add(
            topic=wanted.name.topic,
            partition=wanted.name.partition,
            fetch_offset=wanted.offset,
            leader_epoch=wanted.leader_epoch,
            max_bytes=wanted.bytes_max,
            topic_id=wanted.topic_id,
            last_epoch=wanted.last_epoch,
            stable=wanted.stable,
        )
    return message.SerializeToString()


def _decode_fetch(data: bytes) -> FetchRequest:
    request = parse(log_pb2.FetchRequest, data)
    return FetchRequest(
        request.correlation_id,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        list(map(_wanted, request.partitions)),
    )


def _wanted(message: log_pb2.FetchPartition) -> FetchPartition:
    return FetchPartition(
        TopicPartition(message.topic, message.partition),
        message.fetch_offset,
        message.leader_epoch,
        message.max_bytes,
        TopicId(message.topic_id),
        message.last_epoch if message.HasField("last_epoch") else NO_EPOCH,
        stable=message.stable,
    )


_PARTITIONS: Final = tag(log_pb2.FetchResponse.PARTITIONS_FIELD_NUMBER)
_FETCHED_RECORDS: Final = tag(log_pb2.FetchedPartition.RECORDS_FIELD_NUMBER)


def _write_epoch_end(end: EpochEnd) -> log_pb2.EpochEnd:
    return log_pb2.EpochEnd(epoch=end.epoch, end_offset=end.end_offset)


def _read_epoch_end(message: log_pb2.EpochEnd) -> EpochEnd:
    return EpochEnd(message.epoch, message.end_offset)


def _encode_fetched(answer: FetchAnswer, to: Listener) -> bytes:
    head_of_all = log_pb2.FetchResponse(correlation_id=answer.correlation_id, throttle_ms=answer.throttle_ms)
    parts: list[bytes] = [head_of_all.SerializeToString()]
    for fetched in answer.partitions:
        head = log_pb2.FetchedPartition(
            topic=fetched.name.topic,
            partition=fetched.name.partition,
            error=None if fetched.error is None else error_to_wire(fetched.error, to),
            high_watermark=fetched.high_watermark,
            log_start_offset=fetched.log_start_offset,
            leader_epoch=fetched.leader_epoch,
            topic_id=fetched.topic_id,
            diverging=None if fetched.diverging is None else _write_epoch_end(fetched.diverging),
            stable_offset=fetched.stable_offset,
            aborted=[
                log_pb2.AbortedFrom(producer_id=producer, first_offset=first)
                for producer, first in fetched.aborted or ()
            ],
        ).SerializeToString()
        parts += nested(_PARTITIONS, head, _FETCHED_RECORDS, fetched.records)
    return b"".join(parts)


def _decode_fetched(data: bytes) -> FetchAnswer:
    message = log_pb2.FetchResponse.FromString(data)
    return FetchAnswer(
        message.correlation_id,
        [
            Fetched(
                TopicPartition(p.topic, p.partition),
                error_from_wire(p.error) if p.HasField("error") else None,
                p.high_watermark,
                p.log_start_offset,
                p.records,
                p.leader_epoch,
                topic_id=TopicId(p.topic_id),
                diverging=_read_epoch_end(p.diverging) if p.HasField("diverging") else None,
                stable_offset=p.stable_offset,
                aborted=[AbortedFrom(each.producer_id, each.first_offset) for each in p.aborted] or None,
            )
            for p in message.partitions
        ],
        message.throttle_ms,
    )


FETCH: Final = Call(
    _SERVICE + "Fetch",
    _encode_fetch,
    _decode_fetched,
    Rpc(_SERVICE + "Fetch", _decode_fetch, _encode_fetched),
)


def answer_to(correlation_id: int, answer: FetchAnswer) -> FetchAnswer | None:
    """The answer if it is to the fetch with this correlation id, else None."""
    return answer if answer.correlation_id == correlation_id else None


# --- the cluster --------------------------------------------------------------------------------


def _write_query(query: MetadataQuery, to: Listener) -> log_pb2.MetadataRequest:
    return log_pb2.MetadataRequest(
        topics=query.topics or (),
        waits=[
            log_pb2.LeaderWait(topic=w.name.topic, partition=w.name.partition, above_epoch=w.above_epoch)
            for w in query.waits
        ],
        max_wait_ms=query.max_wait_ms,
        include_config=query.include_config,
        omit_topics=query.topics is None,
    )


def _read_query(request: log_pb2.MetadataRequest) -> MetadataQuery:
    return MetadataQuery(
        None if request.omit_topics else tuple(request.topics),
        tuple([LeaderWait(TopicPartition(w.topic, w.partition), w.above_epoch) for w in request.waits]),
        request.max_wait_ms,
        request.include_config,
    )


def _write_metadata(answer: MetadataAnswer, to: Listener) -> log_pb2.MetadataResponse:
    cluster = answer.cluster
    response = log_pb2.MetadataResponse(
        cluster_id=cluster.cluster_id,
        brokers=[endpoint_to_wire(broker, to) for broker in cluster.brokers],
        controller=None if cluster.controller is None else endpoint_to_wire(cluster.controller, to),
        controller_unknown=cluster.controller_unknown,
    )
    for topic in cluster.topics:
        found = response.topics.add(topic=topic.name, topic_id=topic.topic_id, config=topic.config)
        for p in topic.partitions:
            found.partitions.add(
                partition=p.partition,
                leader=p.leader,
                leader_epoch=p.leader_epoch,
                replicas=p.replicas,
                isr=p.isr,
            )
    for name, error in answer.errors.items():
        response.topics.add(topic=name, error=error_to_wire(error, to))
    return response


def _read_topic(message: log_pb2.TopicMetadata) -> TopicMetadata:
    partitions = tuple(
        PartitionMetadata(p.partition, p.leader, p.leader_epoch, tuple(p.replicas), tuple(p.isr))
        for p in sorted(message.partitions, key=lambda p: p.partition)
    )
    return TopicMetadata(message.topic, TopicId(message.topic_id), partitions, dict(message.config))


def _read_metadata(response: log_pb2.MetadataResponse) -> MetadataAnswer:
    errors: dict[str, StrandlineError] = {}
    topics: list[TopicMetadata] = []
    for topic in response.topics:
        error = error_from_wire(topic.error)
        if error is None:
            topics.append(_read_topic(topic))
        else:
            errors[topic.topic] = error
    cluster = ClusterMetadata(
        response.cluster_id,
        tuple(map(read_endpoint, response.brokers)),
        read_endpoint(response.controller) if response.HasField("controller") else None,
        tuple(topics),
        response.controller_unknown,
    )
    return MetadataAnswer(cluster, errors)


_COUNTS: Final = plain(
    lambda counts: [log_pb2.PartitionCount(topic=name, partitions=count) for name, count in counts.items()],
    lambda messages: {each.topic: each.partitions for each in messages},
)

METADATA: Final = call(
    _SERVICE + "Metadata",
    MessageCodec(log_pb2.MetadataRequest, _write_query, _read_query),
    MessageCodec(log_pb2.MetadataResponse, _write_metadata, _read_metadata),
)
PARTITION_COUNTS: Final[Call[Sequence[str], dict[str, int]]] = call(
    _SERVICE + "PartitionCounts",
    only(log_pb2.PartitionCountsRequest, "topics"),
    only(log_pb2.PartitionCountsResponse, "topics", _COUNTS),
)
LIST_OFFSETS: Final[Call[Sequence[OffsetQuery], Sequence[ListedOffset]]] = call(
    _SERVICE + "ListOffsets",
    only(
        log_pb2.ListOffsetsRequest,
        "partitions",
        many(shape(log_pb2.ListOffsetsPartition, OffsetQuery, name=PARTITION)),
    ),
    only(
        log_pb2.ListOffsetsResponse,
        "partitions",
        many(shape(log_pb2.ListedOffset, ListedOffset, name=PARTITION, error=ERROR)),
    ),
)
EPOCH_ENDS: Final[Call[Sequence[EpochQuery], Sequence[ListedEpochEnd]]] = call(
    _SERVICE + "EpochEnds",
    only(
        log_pb2.EpochEndsRequest,
        "partitions",
        many(shape(log_pb2.EpochQuery, EpochQuery, name=PARTITION)),
    ),
    only(
        log_pb2.EpochEndsResponse,
        "partitions",
        many(shape(log_pb2.ListedEpochEnd, ListedEpochEnd, name=PARTITION, error=ERROR)),
    ),
)
DESCRIBE_REPLICAS: Final[Call[Sequence[ReplicasQuery], Sequence[DescribedReplicas]]] = call(
    _SERVICE + "DescribeReplicas",
    only(
        log_pb2.DescribeReplicasRequest,
        "partitions",
        many(
            shape(log_pb2.ReplicasQuery, ReplicasQuery, name=PARTITION),
            at_most(PARTITIONS_DESCRIBED_MAX, "partitions"),
        ),
    ),
    only(
        log_pb2.DescribeReplicasResponse,
        "partitions",
        many(
            shape(
                log_pb2.DescribedReplicas,
                DescribedReplicas,
                name=PARTITION,
                error=ERROR,
                replicas=many(shape(log_pb2.ReplicaProgress, ReplicaProgress)),
            )
        ),
    ),
)
INIT_PRODUCER_ID: Final = call(
    _SERVICE + "InitProducerId",
    nothing(log_pb2.InitProducerIdRequest),
    shape(log_pb2.InitProducerIdResponse, ProducerIdentity),
)
