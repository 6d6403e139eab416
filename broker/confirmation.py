"""Whether a leader still leads, asked of those who could have taken its place.

To answer from memory what is committed, a leader has to know that nobody has led before it was asked.
ZooKeeper tells it at once, while its session is certainly in force. While that may be over, the other in-sync
replicas have to: any successor would be one of them, and each says, after the question, that it follows here
still. That its stream is open says nothing, for it stays open where the network is cut (CORRECTNESS E1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Protocol

from strandline.ids import BrokerId


class Flow(Protocol):
    """One leadership's log on its way to one follower."""

    @property
    def broker(self) -> BrokerId: ...

    @property
    def over(self) -> bool:
        """True once the follower has to ask anew."""
        ...

    def wake(self) -> None:
        """There may be something to tell."""
        ...

    def confirmed(self) -> asyncio.Future[bool]:
        """True when the follower has answered a message that was sent after this call, and follows; False
        when the flow ends. Shared: not to be cancelled."""
        ...


async def all_follow(flows: Iterable[Flow], brokers: Collection[BrokerId], timeout_s: float) -> bool:
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
