"""What members of the consumer protocol ask of the handlers for groups (KIP-848)."""

from __future__ import annotations

from typing import Any

from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.groups.consumers import (
    ConsumerDescribeRequest,
    ConsumerGroupDescription,
    ConsumerHeartbeatAnswer,
    ConsumerHeartbeatRequest,
)
from tests.broker.kafka.support.group_client import TOPIC, GroupClient


class Consumers(GroupClient):
    """Members of the consumer protocol."""

    async def heartbeat(
        self, group: str, member: str, epoch: int, version: int = 1, **more: Any
    ) -> ConsumerHeartbeatAnswer:
        if epoch == 0:
            more = {"rebalance_timeout_ms": 60_000, "topics": (TOPIC,), "owned": (), **more}
        asked = ConsumerHeartbeatRequest(group, member, epoch, **more)
        answer: ConsumerHeartbeatAnswer = await self.ask(apis.CONSUMER_GROUP_HEARTBEAT, asked, version)
        return answer

    async def consumers(self, group: str) -> ConsumerGroupDescription:
        asked = ConsumerDescribeRequest((group,))
        (found,) = (await self.ask(apis.CONSUMER_GROUP_DESCRIBE, asked)).groups
        described: ConsumerGroupDescription = found
        return described


def numbers(answer: ConsumerHeartbeatAnswer) -> list[int] | None:
    if answer.assignment is None:
        return None
    return [number for topic in answer.assignment.partitions for number in topic.partitions]
