"""Answers OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from strandline.broker.groups.handlers import GroupHandlers
from strandline.broker.kafka.answers import AnswerSize
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import code_of, commit_code
from strandline.broker.kafka.wire.groups.offsets import (
    GroupWanted,
    OffsetCommitAnswer,
    OffsetCommitRequest,
    OffsetDeleteAnswer,
    OffsetDeleteRequest,
    OffsetFetchAnswer,
    OffsetFetchRequest,
    OffsetsOfGroup,
    PartitionOffset,
    PartitionResult,
)
from strandline.broker.kafka.wire.topics import OfTopic, Topics, by_topic, each_partition, names_of
from strandline.errors import ErrorCode, StrandlineError
from strandline.ids import TopicPartition
from strandline.security.rights import DESCRIBE_TOPIC
from strandline.vocabulary.groups import CommittedOffset, FetchedOffsets, OffsetCommit, OffsetFetch


class GroupOffsetsApi:
    """These APIs, for all connections of one broker."""

    def __init__(self, groups: GroupHandlers) -> None:
        self._groups = groups

    # --- commit ------------------------------------------------------------------------------

    async def commit(self, request: OffsetCommitRequest, call: Call) -> OffsetCommitAnswer:
        """Answered once the offsets are in the log. An error of the whole request is each partition's."""
        offsets = {
            TopicPartition(topic, asked.partition): CommittedOffset(
                asked.offset, asked.leader_epoch, asked.metadata or ""
            )
            for topic, asked in each_partition(request.topics)
        }
        asked = OffsetCommit(request.group, request.member, request.generation, offsets, request.instance)
        try:
            results = await self._groups.commit(asked, call.caller)
        except StrandlineError as error:
            results = dict.fromkeys(offsets, error)
        return OffsetCommitAnswer(_results(offsets, results))

    # --- fetch -------------------------------------------------------------------------------

    async def fetch(self, request: OffsetFetchRequest, call: Call, size: AnswerSize) -> OffsetFetchAnswer:
        """A group that is not known has no offsets; that is no error. Clients ask again for groups that get
        COORDINATOR_LOAD_IN_PROGRESS, since the answer is full."""
        return OffsetFetchAnswer(tuple([await self._fetch_one(each, call, size) for each in request.groups]))

    async def _fetch_one(self, wanted: GroupWanted, call: Call, size: AnswerSize) -> OffsetsOfGroup:
        await size.add(wanted.group)
        if size.full:
            return OffsetsOfGroup(wanted.group, error=int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        names = None
        unseen: dict[TopicPartition, StrandlineError] = {}
        if wanted.topics is not None:
            asked = tuple(names_of(wanted.topics))
            unseen = self._groups.refusals(call.caller, DESCRIBE_TOPIC, asked)
            names = tuple(name for name in asked if name not in unseen)
        try:
            offsets = await self._groups.fetch_offsets(OffsetFetch(wanted.group, names), call.caller)
        except StrandlineError as error:
            refused = dict.fromkeys((*(names or ()), *unseen), error)
            return OffsetsOfGroup(wanted.group, _refused(refused), code_of(error))
        return OffsetsOfGroup(wanted.group, (*await _found(offsets, size), *_refused(unseen)))

    # --- delete ------------------------------------------------------------------------------

    async def delete(self, request: OffsetDeleteRequest, call: Call) -> OffsetDeleteAnswer:
        names = list(names_of(request.topics))
        try:
            results = await self._groups.delete_offsets(request.group, names, call.caller)
        except StrandlineError as error:
            return OffsetDeleteAnswer(code_of(error))
        return OffsetDeleteAnswer(0, _results(names, results))


def _results(
    names: Iterable[TopicPartition], results: Mapping[TopicPartition, StrandlineError | None]
) -> Topics[PartitionResult]:
    return by_topic(
        (name.topic, PartitionResult(name.partition, commit_code(results[name]))) for name in names
    )


def _refused(errors: Mapping[TopicPartition, StrandlineError]) -> Topics[PartitionOffset]:
    return by_topic(
        (name.topic, PartitionOffset(name.partition, error=code_of(error))) for name, error in errors.items()
    )


async def _found(offsets: FetchedOffsets, size: AnswerSize) -> Topics[PartitionOffset]:
    """By topic: a group keeps its offsets in the order of their commits."""
    topics: dict[str, list[PartitionOffset]] = {}
    for name, committed in offsets.items():
        topics.setdefault(name.topic, []).append(
            PartitionOffset(name.partition)
            if committed is None
            else PartitionOffset(name.partition, committed.offset, committed.leader_epoch, committed.metadata)
        )
        await size.add("" if committed is None else committed.metadata)
    return tuple(OfTopic(topic, tuple(partitions)) for topic, partitions in topics.items())
