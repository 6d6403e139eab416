"""Answers OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from strandline.broker.groups.handlers import GroupHandlers
from strandline.broker.kafka.answers import AnswerSize
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import code_of, commit_code, txn_commit_code
from strandline.broker.kafka.wire.groups.offsets import (
    IDS_SINCE,
    TXN_ADDS_SINCE,
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
    TxnOffsetCommitRequest,
)
from strandline.broker.kafka.wire.topics import (
    OfTopic,
    Topics,
    answering,
    each_partition,
    named,
    names_of,
    with_partitions,
)
from strandline.errors import (
    CoordinatorNotAvailable,
    ErrorCode,
    StaleMemberEpoch,
    StrandlineError,
    UnknownMemberId,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from strandline.ids import NO_TOPIC_ID, TopicId, TopicPartition
from strandline.security.rights import DESCRIBE_GROUP, DESCRIBE_TOPIC, READ_GROUP, Right
from strandline.vocabulary.groups import (
    CommittedOffset,
    FetchedOffsets,
    OffsetCommit,
    OffsetFetch,
    OffsetResults,
)
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.log_position import same_topic
from strandline.vocabulary.transactions import TxnOffsetCommit

P = TypeVar("P")

EPOCHS_SINCE: Final = 9
"""The first version of OffsetCommit for members whose coordinator assigns."""

Unnamed = Mapping[TopicId, StrandlineError]
"""Why topics that are asked for by id have no name here."""


class GroupOffsetsApi:
    """These APIs, for all connections of one broker."""

    def __init__(self, groups: GroupHandlers) -> None:
        self._groups = groups

    # --- commit ------------------------------------------------------------------------------

    async def commit(self, request: OffsetCommitRequest, call: Call) -> OffsetCommitAnswer:
        """Answered once the offsets are in the log."""

        async def ask(commit: OffsetCommit) -> OffsetResults:
            knows_epochs = call.version >= EPOCHS_SINCE
            return await self._groups.commit(commit, call.caller, any_offset=True, knows_epochs=knows_epochs)

        return await self._committed(request, call, ask, commit_code)

    async def commit_in_transaction(self, request: TxnOffsetCommitRequest, call: Call) -> OffsetCommitAnswer:
        """Answered once the offsets are in the log, where they wait for the transaction's marker."""
        producer = ProducerIdentity(request.producer_id, request.producer_epoch)
        add = call.version >= TXN_ADDS_SINCE

        async def ask(commit: OffsetCommit) -> OffsetResults:
            asked = TxnOffsetCommit(request.transactional_id, producer, commit, add)
            return await self._groups.commit_in_transaction(asked, call.caller)

        return await self._committed(request, call, ask, txn_commit_code)

    async def _committed(
        self,
        request: OffsetCommitRequest | TxnOffsetCommitRequest,
        call: Call,
        ask: Callable[[OffsetCommit], Awaitable[OffsetResults]],
        code: Callable[[StrandlineError | None, int], int],
    ) -> OffsetCommitAnswer:
        """An error of the whole request is each partition's. A topic's id goes into the log with its offset:
        one of a topic that was replaced meanwhile never counts for the next topic of the name."""
        topics = with_partitions(request.topics)
        try:
            topics, unnamed = await self._named(topics, READ_GROUP, request.group, call)
            offsets = {
                TopicPartition(topic.name, asked.partition): CommittedOffset(
                    asked.offset, asked.leader_epoch, asked.metadata or "", topic_id=topic.topic_id
                )
                for topic in topics
                if not topic.unknown
                for asked in topic.partitions
                if _may_be(topic.name, asked.partition)
            }
            results = await ask(
                OffsetCommit(request.group, request.member, request.generation, offsets, request.instance)
            )
            errors = [
                unnamed[topic.topic_id]
                if topic.unknown
                else results[TopicPartition(topic.name, asked.partition)]
                if _may_be(topic.name, asked.partition)
                else UnknownTopicOrPartition(f"{topic.name}-{asked.partition} is no partition's name")
                for topic in topics
                for asked in topic.partitions
            ]
        except StrandlineError as error:
            errors = [error for _ in each_partition(topics)]
        each = (
            PartitionResult(asked.partition, code(error, call.version))
            for (_, asked), error in zip(each_partition(topics), errors, strict=True)
        )
        return OffsetCommitAnswer(answering(topics, each))

    async def _named(
        self, topics: Topics[P], right: Right, group: str, call: Call
    ) -> tuple[Topics[P], Unnamed]:
        """The topics with the names of those that are asked for by id, and why others have none. Raises
        GroupAuthorizationFailed without this right to the group."""
        ids = {topic.topic_id for topic in topics if topic.topic_id}
        if not ids:
            return topics, {}
        names = await self._groups.names_of(ids, right, group, call.caller)
        unnamed = {each: _unnamed(each, known=each in names) for each in ids if names.get(each) is None}
        return named(topics, lambda topic: names.get(topic.topic_id)), unnamed

    # --- fetch -------------------------------------------------------------------------------

    async def fetch(self, request: OffsetFetchRequest, call: Call, size: AnswerSize) -> OffsetFetchAnswer:
        """A group that is not known has no offsets; that is no error. Clients ask again for groups that get
        COORDINATOR_LOAD_IN_PROGRESS, since the answer is full."""
        stable = request.require_stable
        answers = [await self._fetch_one(each, call, size, stable=stable) for each in request.groups]
        return OffsetFetchAnswer(tuple(answers))

    async def _fetch_one(
        self, wanted: GroupWanted, call: Call, size: AnswerSize, *, stable: bool
    ) -> OffsetsOfGroup:
        await size.add(wanted.group)
        if size.full:
            return OffsetsOfGroup(wanted.group, error=int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        try:
            asked = OffsetFetch(wanted.group, None, stable, wanted.member, wanted.epoch)
            if wanted.topics is None:
                topics = await self._every(asked, call, size)
            else:
                topics = await self._asked_for(wanted.topics, asked, call, size)
        except (StaleMemberEpoch, UnknownMemberId) as error:
            return OffsetsOfGroup(wanted.group, error=code_of(error))
        except StrandlineError as error:
            return _refused(wanted, code_of(error))
        return OffsetsOfGroup(wanted.group, topics)

    async def _every(self, fetch: OffsetFetch, call: Call, size: AnswerSize) -> Topics[PartitionOffset]:
        """Each offset under the id of the topic that it was committed for. Those that were committed before
        ids were kept count for the present topics; without one, they count no longer."""
        offsets = await self._groups.fetch_offsets(fetch, call.caller)
        if call.version < IDS_SINCE:
            return await _found(offsets, size, None)
        old = {name.topic for name, each in offsets.items() if each is not None and not each.topic_id}
        unstable = {name.topic for name in offsets.unstable}
        return await _found(offsets, size, await self._groups.ids_of(old | unstable))

    async def _asked_for(
        self, wanted: Topics[int], fetch: OffsetFetch, call: Call, size: AnswerSize
    ) -> Topics[PartitionOffset]:
        """An id whose name is not known now is an error of the whole group: clients repeat no other one."""
        topics, unnamed = await self._named(wanted, DESCRIBE_GROUP, fetch.group, call)
        for error in unnamed.values():
            if isinstance(error, CoordinatorNotAvailable):
                raise error
        asked = tuple(names_of(tuple([topic for topic in topics if not topic.unknown])))
        unseen = self._groups.refusals(call.caller, DESCRIBE_TOPIC, asked)
        names = tuple(name for name in asked if name not in unseen)
        offsets = await self._groups.fetch_offsets(replace(fetch, partitions=names), call.caller)
        return await _asked_for(topics, offsets, unseen, size)

    # --- delete ------------------------------------------------------------------------------

    async def delete(self, request: OffsetDeleteRequest, call: Call) -> OffsetDeleteAnswer:
        topics = with_partitions(request.topics)
        names = list(names_of(topics))
        try:
            results = await self._groups.delete_offsets(request.group, names, call.caller)
        except StrandlineError as error:
            return OffsetDeleteAnswer(code_of(error))
        each = (PartitionResult(name.partition, commit_code(results[name], call.version)) for name in names)
        return OffsetDeleteAnswer(0, answering(topics, each))


def _may_be(topic: str, partition: int) -> bool:
    """False for a name that no partition can have: as from Kafka, it is one that does not exist."""
    return bool(topic) and partition >= 0


def _unnamed(topic_id: TopicId, *, known: bool) -> StrandlineError:
    """`known`: that no topic has this id."""
    if known:
        return UnknownTopicId(f"no topic has id {topic_id}")
    return CoordinatorNotAvailable(f"ZooKeeper does not show now whether a topic has id {topic_id}")


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
            elif name in offsets.unstable:
                found.append(_unstable(name))
            else:
                found.append(_offset(name, committed))
            await size.add("" if committed is None else committed.metadata)
    return answering(topics, found)


def _offset(name: TopicPartition, committed: CommittedOffset | None) -> PartitionOffset:
    if committed is None:
        return PartitionOffset(name.partition)
    return PartitionOffset(name.partition, committed.offset, committed.leader_epoch, committed.metadata)


def _unstable(name: TopicPartition) -> PartitionOffset:
    return PartitionOffset(name.partition, error=int(ErrorCode.UNSTABLE_OFFSET_COMMIT))


def _refused(wanted: GroupWanted, code: int) -> OffsetsOfGroup:
    """An error of the whole group is each partition's, too."""
    topics = wanted.topics or ()
    each = (PartitionOffset(number, error=code) for _, number in each_partition(topics))
    return OffsetsOfGroup(wanted.group, answering(topics, each), code)


async def _found(
    offsets: FetchedOffsets, size: AnswerSize, ids: Mapping[str, TopicId] | None
) -> Topics[PartitionOffset]:
    """By topic: a group keeps its offsets in the order of their commits. `ids`: of topics for whose commits
    none was kept; None for an answer by names alone."""
    topics: dict[tuple[str, TopicId], list[PartitionOffset]] = {}
    known = [(name, each.topic_id, _offset(name, each)) for name, each in offsets.items() if each is not None]
    known += [(name, NO_TOPIC_ID, _unstable(name)) for name in sorted(offsets.unstable)]
    for name, own_id, answer in known:
        topic_id = NO_TOPIC_ID if ids is None else own_id or ids.get(name.topic, NO_TOPIC_ID)
        if topic_id or ids is None:
            topics.setdefault((name.topic, topic_id), []).append(answer)
            await size.add(answer.metadata)
    return tuple(OfTopic(name, tuple(found), topic_id) for (name, topic_id), found in topics.items())
