"""The RPCs of `strandline.v1.Replication`, with the values of `strandline.vocabulary.replication`.

The stream is written by hand, since it carries records, and an element for each replica of a broker.
"""

from __future__ import annotations

from typing import Final

from strandline.adapters.codecs.messages import Call, call, only, plain, shape
from strandline.adapters.rpc.frames import nested, tag
from strandline.adapters.rpc.request_parsing import parse
from strandline.adapters.rpc.wire_errors import error_from_wire, error_to_wire
from strandline.config.limits import REPLICAS_PER_BROKER_MAX
from strandline.ids import BrokerEpoch, BrokerId, PartitionId, PartitionKey, TopicId
from strandline.ports import Listener, Rpc
from strandline.rpc import replication_pb2
from strandline.vocabulary.replication import (
    FollowerMessage,
    Hello,
    LeaderMessage,
    Push,
    SilenceQuestion,
    Subscribe,
)

ELEMENTS_MAX: Final = 4 * REPLICAS_PER_BROKER_MAX
"""Elements of one message: a follower may begin, end and report a subscription of each replica in it."""


# --- the follower's messages --------------------------------------------------------------------


def _decode_message(data: bytes) -> FollowerMessage:
    request = parse(replication_pb2.ReplicaFetchRequest, data, elements_max=ELEMENTS_MAX)
    return FollowerMessage(
        _read_hello(request.hello) if request.HasField("hello") else None,
        [_subscribe(each) for each in request.subscribe],
        [(each.subscription_id, each.log_end_offset) for each in request.progress],
        request.unsubscribe,
        request.acknowledged,
        request.hold_copies_ms,
    )


def _read_hello(h: replication_pb2.FollowerHello) -> Hello:
    return Hello(
        BrokerId(h.broker_id), BrokerEpoch(h.broker_epoch), BrokerId(h.leader_id), h.cluster_id, h.beats
    )


def _write_hello(h: Hello) -> replication_pb2.FollowerHello:
    return replication_pb2.FollowerHello(
        broker_id=h.broker_id,
        broker_epoch=h.broker_epoch,
        leader_id=h.leader_id,
        cluster_id=h.cluster_id,
        beats=h.beats,
    )


def _subscribe(s: replication_pb2.Subscribe) -> Subscribe:
    return Subscribe(
        s.subscription_id,
        s.topic,
        PartitionKey(TopicId(s.topic_id), PartitionId(s.partition)),
        s.leader_epoch,
        s.fetch_offset,
        s.last_fetched_epoch,
    )


def _encode_message(message: FollowerMessage) -> bytes:
    request = replication_pb2.ReplicaFetchRequest(
        hello=None if message.hello is None else _write_hello(message.hello),
        subscribe=[
            replication_pb2.Subscribe(
                subscription_id=s.subscription_id,
                topic=s.topic,
                topic_id=s.key.topic_id,
                partition=s.key.partition,
                leader_epoch=s.leader_epoch,
                fetch_offset=s.fetch_offset,
                last_fetched_epoch=s.last_fetched_epoch,
            )
            for s in message.subscribe
        ],
        progress=[
            replication_pb2.Progress(subscription_id=i, log_end_offset=leo) for i, leo in message.progress
        ],
        unsubscribe=message.unsubscribe,
        acknowledged=message.acknowledged,
        hold_copies_ms=message.hold_copies_ms,
    )
    return request.SerializeToString()


# --- the leader's messages ----------------------------------------------------------------------

_PUSHES: Final = tag(replication_pb2.ReplicaFetchResponse.PUSHES_FIELD_NUMBER)
_PUSHED_RECORDS: Final = tag(replication_pb2.PartitionPush.RECORDS_FIELD_NUMBER)


def _encode_pushes(message: LeaderMessage, to: Listener) -> bytes:
    """Serializes a ReplicaFetchResponse from a sequence number and its pushes."""
    sequence, pushes = message
    parts: list[bytes] = [replication_pb2.ReplicaFetchResponse(sequence=sequence).SerializeToString()]
    for push in pushes:
        head = replication_pb2.PartitionPush(
            subscription_id=push.subscription_id,
            high_watermark=push.high_watermark,
            log_start_offset=push.log_start_offset,
            copy=push.copy,
            kept_from=push.kept_from,
        )
        if push.error is not None:
            head.error.CopyFrom(error_to_wire(push.error, to))
        if push.diverging is not None:
            head.diverging.epoch, head.diverging.end_offset = push.diverging
        parts += nested(_PUSHES, head.SerializeToString(), _PUSHED_RECORDS, push.records)
    return b"".join(parts)


def _decode_pushes(data: bytes) -> LeaderMessage:
    response = parse(replication_pb2.ReplicaFetchResponse, data, elements_max=ELEMENTS_MAX)
    pushes = [
        Push(
            p.subscription_id,
            p.high_watermark,
            p.log_start_offset,
            p.records,
            error_from_wire(p.error) if p.HasField("error") else None,
            (p.diverging.epoch, p.diverging.end_offset) if p.HasField("diverging") else None,
            p.copy,
            p.kept_from,
        )
        for p in response.pushes
    ]
    return response.sequence, pushes


_SERVICE: Final = "/strandline.v1.Replication/"
_PATH: Final = _SERVICE + "ReplicaFetch"

REPLICA_FETCH: Final = Call(
    _PATH, _encode_message, _decode_pushes, Rpc(_PATH, _decode_message, _encode_pushes)
)

_CANNOT_SAY: Final = -1

REPORT_SILENCE: Final = call(
    _SERVICE + "ReportSilence",
    shape(replication_pb2.SilenceQuestion, SilenceQuestion),
    only(
        replication_pb2.SilenceReport,
        "silent_ms",
        plain(
            lambda silent_s: _CANNOT_SAY if silent_s is None else round(silent_s * 1000),
            lambda silent_ms: None if silent_ms < 0 else silent_ms / 1000,
        ),
    ),
)
"""Its answer is in seconds; None if the broker that was asked cannot say."""
