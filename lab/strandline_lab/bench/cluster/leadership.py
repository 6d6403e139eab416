"""Finds the leaders and ISRs of a benchmark's partitions, and when the last of them changed.

That moment is read from `__state_changes` afterwards: repeated requests for the metadata of 3,000 partitions
would be the larger part of the brokers' work.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from strandline import Admin
from strandline.errors import BrokerNotAvailable
from strandline.ids import NO_BROKER
from strandline.vocabulary.metadata import PartitionMetadata
from strandline.vocabulary.state_changes import ChangeKind

PREFIX: Final = "topic-"
"""Prefix of the benchmark's topics; the system has topics of its own."""
POLL_S: Final = 0.5
QUIET_S: Final = 5.0
"""No request is sent for this time after many changes."""
SETTLE_S_MAX: Final = 120.0


async def leaders(admin: Admin) -> Counter[int]:
    """The number of partitions that each broker leads; NO_BROKER alone if it is unknown now."""
    partitions = await _partitions(admin)
    return Counter({NO_BROKER: 1} if partitions is None else [partition.leader for partition in partitions])


async def _partitions(admin: Admin) -> Sequence[PartitionMetadata] | None:
    """Those of the benchmark's topics; None while ZooKeeper is too busy to answer."""
    try:
        cluster = await admin.metadata()
    except BrokerNotAvailable:
        return None
    return [each for topic in cluster.topics if topic.name.startswith(PREFIX) for each in topic.partitions]


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


async def left_all_isrs(admin: Admin, broker: int) -> None:
    """Returns once the broker is in no ISR. Raises TimeoutError."""
    await _until_all(admin, lambda partition: broker not in partition.isr)


async def whole_after_s(admin: Admin, broker: int, began_ms: int) -> float:
    """The time from `began_ms` until the broker had joined the last ISR that it belongs to. Raises
    TimeoutError."""
    await _until_all(admin, lambda partition: len(partition.isr) == len(partition.replicas))
    joined_ms = [
        event.at_ms
        async for event in admin.state_changes(since_ms=began_ms)
        if event.topic.startswith(PREFIX)
        and event.command is ChangeKind.CHANGE_ISR
        and broker in event.joined
    ]
    return (max(joined_ms) - began_ms) / 1000


async def _until_all(admin: Admin, true: Callable[[PartitionMetadata], bool]) -> None:
    async with asyncio.timeout(SETTLE_S_MAX):
        while True:
            await asyncio.sleep(QUIET_S)
            partitions = await _partitions(admin)
            if partitions is not None and all(map(true, partitions)):
                return
