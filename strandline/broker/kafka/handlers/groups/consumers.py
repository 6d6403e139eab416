"""Answers ConsumerGroupHeartbeat and ConsumerGroupDescribe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Final

from strandline.broker.groups.handlers import GroupHandlers
from strandline.broker.kafka.answers import AnswerSize
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import code_of
from strandline.broker.kafka.handlers.operations import operations_of
from strandline.broker.kafka.wire.groups.consumers import (
    Assignment,
    ConsumerDescribeAnswer,
    ConsumerDescribeRequest,
    ConsumerDescription,
    ConsumerGroupDescription,
    ConsumerHeartbeatAnswer,
    ConsumerHeartbeatRequest,
    NamedAssignment,
    NamedNumbers,
    TopicNumbers,
)
from strandline.errors import ErrorCode, InvalidGroupId, InvalidRequest, StrandlineError
from strandline.ids import PartitionId, PartitionKey, TopicId
from strandline.security.access import Access
from strandline.security.acls import ResourceType
from strandline.vocabulary.groups import ConsumerBeat, ConsumerHeartbeat, DescribedConsumerGroup

OWN_ID_SINCE: Final = 1
"""From this version on, a member makes its id (KIP-1082); before, it may ask for one when it joins."""

TYPE_CLASSIC: Final = 0
TYPE_CONSUMER: Final = 1
"""Of a member, by its protocol (KIP-1099)."""


class ConsumersApi:
    """For all connections of one broker."""

    def __init__(self, groups: GroupHandlers, access: Access) -> None:
        self._groups = groups
        self._access = access

    async def heartbeat(self, request: ConsumerHeartbeatRequest, call: Call) -> ConsumerHeartbeatAnswer:
        try:
            if not request.group.strip():
                raise InvalidRequest("a heartbeat without a group id")
            beat = await self._groups.consumer_heartbeat(self._asked(request, call), call.caller)
        except InvalidGroupId as error:
            return ConsumerHeartbeatAnswer(code_of(InvalidRequest(error.message)), error.message)
        except StrandlineError as error:
            return ConsumerHeartbeatAnswer(code_of(error), error.message)
        return ConsumerHeartbeatAnswer(0, None, beat.member, beat.epoch, beat.interval_ms, _assignment(beat))

    def _asked(self, request: ConsumerHeartbeatRequest, call: Call) -> ConsumerHeartbeat:
        """Clients may ask for any rebalance timeout, as in the classic protocol."""
        member = request.member
        if not member and call.version < OWN_ID_SINCE and request.epoch == 0:
            member = self._groups.new_member_id()
        owned = None
        if request.owned is not None:
            owned = tuple(
                PartitionKey(TopicId(topic.topic_id), PartitionId(number))
                for topic in request.owned
                for number in topic.partitions
            )
        return ConsumerHeartbeat(
            request.group,
            member,
            request.epoch,
            request.instance,
            request.rack,
            request.rebalance_timeout_ms,
            request.topics,
            request.pattern,
            request.assignor,
            owned,
            call.header.client_id,
        )

    async def describe(
        self, request: ConsumerDescribeRequest, call: Call, size: AnswerSize
    ) -> ConsumerDescribeAnswer:
        """Clients ask again for groups that get COORDINATOR_LOAD_IN_PROGRESS, since the answer is full."""
        found = [await self._describe_one(group, call, size) for group in request.groups]
        if request.operations:
            found = [self._with_operations(each, call) for each in found]
        return ConsumerDescribeAnswer(tuple(found))

    def _with_operations(self, group: ConsumerGroupDescription, call: Call) -> ConsumerGroupDescription:
        if group.error:
            return group
        operations = operations_of(self._access, call.caller, ResourceType.GROUP, group.group)
        return group._replace(operations=operations)

    async def _describe_one(self, group: str, call: Call, size: AnswerSize) -> ConsumerGroupDescription:
        await size.add(group)
        if size.full:
            return ConsumerGroupDescription(group, int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        try:
            found = _described(await self._groups.describe_consumers(group, call.caller))
        except InvalidGroupId as error:  # as from Kafka, without a text
            return ConsumerGroupDescription(group, code_of(error))
        except StrandlineError as error:
            return ConsumerGroupDescription(group, code_of(error), error.message)
        for member in found.members:
            await size.add(member.member, member.client_id, *member.topics, member.pattern or "")
        return found


def _described(group: DescribedConsumerGroup) -> ConsumerGroupDescription:
    """Hosts look as those of Kafka's brokers, whose Java writes an address after the name of its host."""
    return ConsumerGroupDescription(
        group.group,
        0,
        None,
        group.state,
        group.epoch,
        group.target_epoch,
        group.assignor,
        tuple(
            ConsumerDescription(
                member.member,
                member.instance,
                member.rack,
                member.epoch,
                member.client_id,
                f"/{member.host}",
                member.topics,
                member.pattern,
                _named(member.assigned, group.names),
                _named(member.target, group.names),
                TYPE_CLASSIC if member.classic else TYPE_CONSUMER,
            )
            for member in group.members
        ),
    )


def _named(keys: Iterable[PartitionKey], names: Mapping[TopicId, str]) -> NamedAssignment:
    topics = groupby(keys, key=lambda key: key.topic_id)
    return NamedAssignment(
        tuple(
            [
                NamedNumbers(topic_id, names[topic_id], tuple([key.partition for key in found]))
                for topic_id, found in topics
            ]
        )
    )


def _assignment(beat: ConsumerBeat) -> Assignment | None:
    if beat.assignment is None:
        return None
    topics = groupby(beat.assignment, key=lambda key: key.topic_id)
    return Assignment(
        tuple([TopicNumbers(topic_id, tuple([key.partition for key in keys])) for topic_id, keys in topics])
    )
