"""Answers ConsumerGroupHeartbeat."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from strandline.broker.groups.handlers import GroupHandlers
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import code_of
from strandline.broker.kafka.wire.groups.consumers import (
    Assignment,
    ConsumerHeartbeatAnswer,
    ConsumerHeartbeatRequest,
    TopicNumbers,
)
from strandline.errors import InvalidGroupId, InvalidRequest, StrandlineError
from strandline.ids import PartitionId, PartitionKey, TopicId
from strandline.vocabulary.groups import ConsumerBeat, ConsumerHeartbeat

OWN_ID_SINCE: Final = 1
"""From this version on, a member makes its id (KIP-1082); before, it may ask for one when it joins."""


class ConsumersApi:
    """For all connections of one broker."""

    def __init__(self, groups: GroupHandlers) -> None:
        self._groups = groups

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


def _assignment(beat: ConsumerBeat) -> Assignment | None:
    if beat.assignment is None:
        return None
    topics = groupby(beat.assignment, key=lambda key: key.topic_id)
    return Assignment(
        tuple([TopicNumbers(topic_id, tuple([key.partition for key in keys])) for topic_id, keys in topics])
    )
