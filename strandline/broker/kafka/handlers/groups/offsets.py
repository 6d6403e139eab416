"""Answers OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from strandline.broker.groups.handlers import GroupHandlers
from strandline.broker.kafka.answers import AnswerSize
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import code_of, commit_code
from strandline.broker.kafka.wire.groups.offsets import (
    IDS_SINCE,
    GroupWanted,
    OffsetCommitAnswer,
    OffsetCommitRequest,
    OffsetDeleteAnswer,
    OffsetDeleteRequest,
    OffsetFetchAnswer,
    OffsetFetchRequest,
    OffsetsOfGroup,
    OffsetToCommit,
    PartitionOffset,
    PartitionResult,
)
from strandline.broker.kafka.wire.topics import OfTopic, Topics, answering, named, names_of
from strandline.errors import ErrorCode, StrandlineError, UnknownTopicId
from strandline.ids import TopicPartition
from strandline.security.rights import DESCRIBE_TOPIC
from strandline.vocabulary.groups import (
    CommittedOffset,
    FetchedOffsets,
    OffsetCommit,
    OffsetFetch,
    OffsetResults,
)
from strandline.vocabulary.log_position import same_topic

P = TypeVar("P")


class GroupOffsetsApi:
    """These APIs, for all connections of one broker."""

    def __init__(self, groups: GroupHandlers) -> None:
        self._groups = groups

    # --- commit ------------------------------------------------------------------------------

    async def commit(self, request: OffsetCommitRequest, call: Call) -> OffsetCommitAnswer:
        """Answered once the offsets are in the log. An error of the whole request is each partition's.

        A topic's id goes into the log with its offset: one of a topic that was replaced meanwhile never
        counts for the next topic of the name.
        """
        topics = await self._named(request.topics)
        offsets = {
            TopicPartition(topic.name, asked.partition): CommittedOffset(
                asked.offset, asked.leader_epoch, asked.metadata or "", topic_id=topic.topic_id
            )
            for topic in topics
            if not topic.unknown
            for asked in topic.partitions
        }
        results: OffsetResults = {}
        if offsets or not topics:
            asked = OffsetCommit(request.group, request.member, request.generation, offsets, request.instance)
            try:
                results = await self._groups.commit(asked, call.caller)
            except StrandlineError as error:
                results = dict.fromkeys(offsets, error)
        each = (
            PartitionResult(asked.partition, commit_code(_result(results, topic, asked), call.version))
            for topic in topics
            for asked in topic.partitions
        )
        return OffsetCommitAnswer(answering(topics, each))

    async def _named(self, topics: Topics[P]) -> Topics[P]:
        """The topics with the names of those that are asked for by id."""
        names = await self._groups.names_of({topic.topic_id for topic in topics if topic.topic_id})
        return named(topics, lambda topic: names.get(topic.topic_id))

    # --- fetch -------------------------------------------------------------------------------

    async def fetch(self, request: OffsetFetchRequest, call: Call, size: AnswerSize) -> OffsetFetchAnswer:
        """A group that is not known has no offsets; that is no error. Clients ask again for groups that get
        COORDINATOR_LOAD_IN_PROGRESS, since the answer is full. Each group has classic members only, so the
        epoch of a member of the next protocol is not compared with anything, as in Kafka."""
        return OffsetFetchAnswer(tuple([await self._fetch_one(each, call, size) for each in request.groups]))

    async def _fetch_one(self, wanted: GroupWanted, call: Call, size: AnswerSize) -> OffsetsOfGroup:
        await size.add(wanted.group)
        if size.full:
            return OffsetsOfGroup(wanted.group, error=int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        topics = None if wanted.topics is None else await self._named(wanted.topics)
        names = None
        unseen: dict[TopicPartition, StrandlineError] = {}
        if topics is not None:
            asked = tuple(names_of(tuple([topic for topic in topics if not topic.unknown])))
            unseen = self._groups.refusals(call.caller, DESCRIBE_TOPIC, asked)
            names = tuple(name for name in asked if name not in unseen)
        try:
            offsets = await self._groups.fetch_offsets(OffsetFetch(wanted.group, names), call.caller)
        except StrandlineError as error:
            return _refused(wanted, code_of(error))
        if topics is not None:
            return OffsetsOfGroup(wanted.group, await _asked_for(topics, offsets, unseen, size))
        found = await _found(offsets, size)
        if call.version >= IDS_SINCE:
            ids = await self._groups.ids_of([topic.name for topic in found])
            found = tuple([each._replace(topic_id=ids[each.name]) for each in found if each.name in ids])
        return OffsetsOfGroup(wanted.group, found)

    # --- delete ------------------------------------------------------------------------------

    async def delete(self, request: OffsetDeleteRequest, call: Call) -> OffsetDeleteAnswer:
        names = list(names_of(request.topics))
        try:
            results = await self._groups.delete_offsets(request.group, names, call.caller)
        except StrandlineError as error:
            return OffsetDeleteAnswer(code_of(error))
        each = (PartitionResult(name.partition, commit_code(results[name], call.version)) for name in names)
        return OffsetDeleteAnswer(0, answering(request.topics, each))


def _result(
    results: OffsetResults, topic: OfTopic[OffsetToCommit], asked: OffsetToCommit
) -> StrandlineError | None:
    if topic.unknown:
        return UnknownTopicId(f"no topic has id {topic.topic_id}")
    return results[TopicPartition(topic.name, asked.partition)]


async def _asked_for(
    topics: Topics[int],
    offsets: FetchedOffsets,
    unseen: Mapping[TopicPartition, StrandlineError],
    size: AnswerSize,
) -> Topics[PartitionOffset]:
    """In the order of the request. An offset of another topic of the name is none of the one that was asked
    for: it was replaced meanwhile."""
    found = []
    for topic in topics:
        for number in topic.partitions:
            name = TopicPartition(topic.name, number)
            committed = offsets.get(name)
            another = committed is not None and not same_topic(committed.topic_id, topic.topic_id)
            if topic.unknown or another:
                found.append(PartitionOffset(number, error=int(ErrorCode.UNKNOWN_TOPIC_ID)))
            elif name in unseen:
                found.append(PartitionOffset(number, error=code_of(unseen[name])))
            else:
                found.append(_offset(name, committed))
            await size.add("" if committed is None else committed.metadata)
    return answering(topics, found)


def _offset(name: TopicPartition, committed: CommittedOffset | None) -> PartitionOffset:
    if committed is None:
        return PartitionOffset(name.partition)
    return PartitionOffset(name.partition, committed.offset, committed.leader_epoch, committed.metadata)


def _refused(wanted: GroupWanted, code: int) -> OffsetsOfGroup:
    """An error of the whole group is each partition's, too."""
    topics = wanted.topics or ()
    each = (PartitionOffset(number, error=code) for topic in topics for number in topic.partitions)
    return OffsetsOfGroup(wanted.group, answering(topics, each), code)


async def _found(offsets: FetchedOffsets, size: AnswerSize) -> Topics[PartitionOffset]:
    """By topic: a group keeps its offsets in the order of their commits."""
    topics: dict[str, list[PartitionOffset]] = {}
    for name, committed in offsets.items():
        topics.setdefault(name.topic, []).append(_offset(name, committed))
        await size.add("" if committed is None else committed.metadata)
    return tuple(OfTopic(topic, tuple(partitions)) for topic, partitions in topics.items())
