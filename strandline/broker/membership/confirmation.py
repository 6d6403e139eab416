"""Confirms that a leader still leads, by asking the replicas that could have replaced it.

A leader that reports committed offsets from memory, or acknowledges alone, has to know that no other broker
was elected before the request. Any successor is one of the other in-sync replicas. So each of them confirms,
after the request, that it still follows. An open stream proves nothing: it stays open when the network is cut
(CORRECTNESS E1).

A follower's answer is also a promise for the time after it: the follower does not stand against this leader
within `QUIET_S` of receiving the last message that it acknowledged, and it stops following before it stands.
So no question is needed if all of them acknowledged a message sent within the last `FOLLOWED_S`. The
difference between the two bounds allows for clocks that run at different rates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Final, Protocol

import structlog

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.errors import CoordinationError
from strandline.ids import BrokerId, LeaderEpoch, TopicPartition
from strandline.ports import Check, Coordination

logger = structlog.get_logger(__name__)

FOLLOWED_S: Final = 0.02
"""Time for which a leader relies on an acknowledgement, counted from when it sent the acknowledged
message."""
QUIET_S: Final = 0.025
"""Time for which a follower does not stand, counted from when it received the last message that it
acknowledged."""
ASK_ZOOKEEPER_AFTER_S: Final = 0.05
"""Time after which ZooKeeper is asked as well as the followers."""


class FollowerFlow(Protocol):
    """The replication of one leadership's log to one follower."""

    @property
    def broker(self) -> BrokerId: ...

    @property
    def over(self) -> bool:
        """True once the follower has to subscribe again."""
        ...

    @property
    def followed_at(self) -> float:
        """When this leader sent the last message that the follower has acknowledged in this flow."""
        ...

    def wake(self) -> None:
        """Notes that there may be something to send."""
        ...

    def confirmed(self) -> asyncio.Future[bool]:
        """True when the follower has answered a message that was sent after this call, and follows; False
        when the flow ends. The future is shared and must not be cancelled."""
        ...


def followed_at(flows: Iterable[FollowerFlow], brokers: Collection[BrokerId]) -> float:
    """A moment at which all of these brokers followed; inf if there are none, -inf if one may never have
    followed."""
    moments = dict.fromkeys(brokers, float("-inf"))
    for flow in flows:
        if flow.broker in moments and not flow.over:
            moments[flow.broker] = max(moments[flow.broker], flow.followed_at)
    return min(moments.values(), default=float("inf"))


def followed_lately(flows: Iterable[FollowerFlow], brokers: Collection[BrokerId], now: float) -> bool:
    """True if all of these brokers followed so recently that none of them can stand yet."""
    return followed_at(flows, brokers) > now - FOLLOWED_S


async def all_follow(flows: Iterable[FollowerFlow], brokers: Collection[BrokerId], timeout_s: float) -> bool:
    """True if each of these brokers has confirmed since this call that it follows; False if one ends its
    flow, has none, or does not answer in time."""
    by_broker = {flow.broker: flow for flow in flows if not flow.over}
    if not by_broker.keys() >= set(brokers):
        return False
    answers = [by_broker[broker].confirmed() for broker in brokers]
    try:
        async with asyncio.timeout(timeout_s):
            for answer in asyncio.as_completed(answers):
                if not await answer:
                    return False
    except TimeoutError:
        return False
    return True


async def leader_of_record(
    session: Coordination, name: TopicPartition, timeout_s: float
) -> tuple[BrokerId, LeaderEpoch] | None:
    """The leader and epoch that `isr` names now. Reads after a write, so a server without a quorum cannot
    answer. None if ZooKeeper does not answer in time."""
    path = znodes.isr(name.topic, name.partition)
    try:
        async with asyncio.timeout(timeout_s):
            await session.multi([Check(path)])
            node = await session.get(path)
        state = isr_znodes.load_isr(name.topic, name.partition, node.data)
    except (TimeoutError, CoordinationError, znodes.UnreadableZnode) as error:
        logger.debug("leadership not confirmed", partition=str(name), reason=repr(error))
        return None
    return state.leader, state.leader_epoch
