"""Confirms that a leader still leads, by asking the replicas that could have taken its place.

A leader that answers from memory what is committed, or acknowledges alone, has to know that no other broker
has been elected before it was asked. Any successor is one of the other in-sync replicas, so each of them
confirms, after the question, that it still follows. An open stream proves nothing: it stays open where the
network is cut (CORRECTNESS E1).

A follower also promises something for the time after its answer: it stands against this leader no sooner
than `QUIET_S` after it took the last message that it acknowledged, and it stops following before it stands.
So no question is needed where all of them acknowledged what was sent within the last `FOLLOWED_S`. The
difference between the two bounds is for clocks that do not run at the same rate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Final, Protocol

import structlog

from strandline.adapters.zookeeper import znodes
from strandline.errors import CoordinationError
from strandline.ids import BrokerId, LeaderEpoch, TopicPartition
from strandline.ports import Check, Coordination

logger = structlog.get_logger(__name__)

FOLLOWED_S: Final = 0.02
"""How long a leader counts on an acknowledgement, from the moment when it sent what was acknowledged."""
QUIET_S: Final = 0.025
"""How long a follower does not stand, from the moment when it took what it acknowledged last."""
ASK_ZOOKEEPER_AFTER_S: Final = 0.05
"""How long only the followers are asked, before ZooKeeper is asked too."""


class FollowerFlow(Protocol):
    """One leadership's log on its way to one follower."""

    @property
    def broker(self) -> BrokerId: ...

    @property
    def over(self) -> bool:
        """True once the follower has to ask anew."""
        ...

    @property
    def followed_at(self) -> float:
        """When this leader sent the last message that the follower has acknowledged in this flow."""
        ...

    def wake(self) -> None:
        """There may be something to send."""
        ...

    def confirmed(self) -> asyncio.Future[bool]:
        """True when the follower has answered a message that was sent after this call, and follows; False
        when the flow ends. Shared: not to be cancelled."""
        ...


def followed_at(flows: Iterable[FollowerFlow], brokers: Collection[BrokerId]) -> float:
    """A moment at which all of these brokers followed; inf if there are none, -inf if one may never have."""
    moments = dict.fromkeys(brokers, float("-inf"))
    for flow in flows:
        if flow.broker in moments and not flow.over:
            moments[flow.broker] = max(moments[flow.broker], flow.followed_at)
    return min(moments.values(), default=float("inf"))


def followed_lately(flows: Iterable[FollowerFlow], brokers: Collection[BrokerId], now: float) -> bool:
    """True if all of these brokers followed so short a time ago that none of them can stand yet."""
    return followed_at(flows, brokers) > now - FOLLOWED_S


async def all_follow(flows: Iterable[FollowerFlow], brokers: Collection[BrokerId], timeout_s: float) -> bool:
    """True if each of these brokers has said since this call that it follows; False if one ends its flow, has
    none, or says nothing in time."""
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
    """The leader and its epoch that `isr` names now, by a read that follows a write: no server that lost
    the others answers that. None if ZooKeeper does not say it in time."""
    path = znodes.isr(name.topic, name.partition)
    try:
        async with asyncio.timeout(timeout_s):
            await session.multi([Check(path)])
            node = await session.get(path)
        state = znodes.load_isr(name.topic, name.partition, node.data)
    except (TimeoutError, CoordinationError, znodes.UnreadableZnode) as error:
        logger.debug("leadership not confirmed", partition=str(name), reason=repr(error))
        return None
    return state.leader, state.leader_epoch
