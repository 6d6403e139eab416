"""The RPC of members whose coordinator assigns, with the values of `strandline.vocabulary.groups`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from strandline.adapters.codecs.messages import Call, MessageCodec, call, check_count
from strandline.config.limits import GROUP_REQUEST_ELEMENTS_MAX
from strandline.ids import PartitionId, PartitionKey, TopicId
from strandline.ports import Listener
from strandline.rpc import group_pb2
from strandline.vocabulary.groups import AS_BEFORE, ConsumerBeat, ConsumerHeartbeat


def _write_held(keys: Iterable[PartitionKey], names: Mapping[TopicId, str]) -> group_pb2.HeldPartitions:
    by_topic: dict[TopicId, list[int]] = {}
    for key in keys:
        by_topic.setdefault(key.topic_id, []).append(key.partition)
    return group_pb2.HeldPartitions(
        topics=[
            group_pb2.HeldTopic(topic_id=topic_id, topic=names.get(topic_id, ""), partitions=partitions)
            for topic_id, partitions in by_topic.items()
        ]
    )


def _read_held(message: group_pb2.HeldPartitions) -> tuple[PartitionKey, ...]:
    check_count(len(message.topics), GROUP_REQUEST_ELEMENTS_MAX, "topics")
    check_count(sum(len(t.partitions) for t in message.topics), GROUP_REQUEST_ELEMENTS_MAX, "partitions")
    return tuple(
        PartitionKey(TopicId(topic.topic_id), PartitionId(partition))
        for topic in message.topics
        for partition in topic.partitions
    )


def _write_heartbeat(asked: ConsumerHeartbeat, to: Listener) -> group_pb2.ConsumerGroupHeartbeatRequest:
    topics = None if asked.topics is None else group_pb2.SubscribedTopics(names=asked.topics)
    timeout_ms = None if asked.rebalance_timeout_ms == AS_BEFORE else asked.rebalance_timeout_ms
    return group_pb2.ConsumerGroupHeartbeatRequest(
        group=asked.group,
        member=asked.member,
        epoch=asked.epoch,
        instance=asked.instance or "",
        rebalance_timeout_ms=timeout_ms,
        topics=topics,
        pattern=asked.pattern,
        assignor=asked.assignor or "",
        owned=None if asked.owned is None else _write_held(asked.owned, {}),
        client_id=asked.client_id,
        rack=asked.rack or "",
        max_wait_ms=asked.max_wait_ms,
    )


def _read_heartbeat(message: group_pb2.ConsumerGroupHeartbeatRequest) -> ConsumerHeartbeat:
    check_count(len(message.topics.names), GROUP_REQUEST_ELEMENTS_MAX, "topics")
    timed = message.HasField("rebalance_timeout_ms")
    return ConsumerHeartbeat(
        message.group,
        message.member,
        message.epoch,
        message.instance or None,
        message.rack or None,
        message.rebalance_timeout_ms if timed else AS_BEFORE,
        tuple(message.topics.names) if message.HasField("topics") else None,
        message.pattern if message.HasField("pattern") else None,
        message.assignor or None,
        _read_held(message.owned) if message.HasField("owned") else None,
        message.client_id,
        message.max_wait_ms,
    )


def _write_beat(beat: ConsumerBeat, to: Listener) -> group_pb2.ConsumerGroupHeartbeatResponse:
    assigned = None if beat.assignment is None else _write_held(beat.assignment, beat.names)
    return group_pb2.ConsumerGroupHeartbeatResponse(
        member=beat.member, epoch=beat.epoch, interval_ms=beat.interval_ms, assignment=assigned
    )


def _read_beat(message: group_pb2.ConsumerGroupHeartbeatResponse) -> ConsumerBeat:
    assigned = _read_held(message.assignment) if message.HasField("assignment") else None
    # A topic that is gone by now has no name: the member does not take its partitions.
    names = {TopicId(topic.topic_id): topic.topic for topic in message.assignment.topics if topic.topic}
    return ConsumerBeat(message.member, message.epoch, message.interval_ms, assigned, names)


CONSUMER_HEARTBEAT: Final[Call[ConsumerHeartbeat, ConsumerBeat]] = call(
    "/strandline.v1.Groups/ConsumerGroupHeartbeat",
    MessageCodec(group_pb2.ConsumerGroupHeartbeatRequest, _write_heartbeat, _read_heartbeat),
    MessageCodec(group_pb2.ConsumerGroupHeartbeatResponse, _write_beat, _read_beat),
    refuses_malformed=True,
)
