"""Finds the leaders of a benchmark's partitions, and when the last of them changed.

That moment is read from `__state_changes` afterwards: repeated requests for the metadata of 3,000 partitions
would be the larger part of the brokers' work.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from strandline import Admin
from strandline.errors import BrokerNotAvailable
from strandline.ids import NO_BROKER
from strandline.vocabulary.state_changes import ChangeKind

PREFIX: Final = "topic-"
"""Prefix of the benchmark's topics; the system has topics of its own."""
POLL_S: Final = 0.5
QUIET_S: Final = 5.0
"""No request is sent for this time after many changes."""
SETTLE_S_MAX: Final = 120.0


async def leaders(admin: Admin) -> Counter[int]:
    """The number of partitions that each broker leads; NO_BROKER alone if it is unknown now."""
    try:
        cluster = await admin.metadata()
    except BrokerNotAvailable:  # ZooKeeper is too busy to answer
        return Counter({NO_BROKER: 1})
    return Counter(
        partition.leader
        for topic in cluster.topics
        if topic.name.startswith(PREFIX)
        for partition in topic.partitions
    )


async def moved_after_s(admin: Admin, victim: int, began_ms: int) -> float:
    """The time from `began_ms` until the last of the victim's partitions had another leader. Raises
    TimeoutError."""
    async with asyncio.timeout(SETTLE_S_MAX):
        await asyncio.sleep(QUIET_S)
        while True:
            led = await leaders(admin)
            if not {NO_BROKER, victim} & led.keys():
                break
            await asyncio.sleep(POLL_S)
        elected_ms = [
            event.at_ms
            async for event in admin.state_changes(since_ms=began_ms)
            if event.command is ChangeKind.ELECT_LEADER and event.topic.startswith(PREFIX)
        ]
    return (max(elected_ms) - began_ms) / 1000
