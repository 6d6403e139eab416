"""A coordinator partition on a replica with a real log, led with a ZooKeeper in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from strandline.broker.coordinators.partition import Surroundings
from strandline.broker.core.groups.coordinator import Coordinator
from strandline.broker.core.groups.effects import GroupEvent
from strandline.broker.core.groups.limits import GroupLimits
from strandline.broker.core.groups.requests import Commit
from strandline.broker.groups.partition import GroupPartition
from strandline.broker.replicas.replica import Replica
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import CommittedOffset, OffsetCommit, OffsetFetch
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.replicas import CLOCK, Led, leading, open_replica, settings

ALONE = TopicConfig(min_insync_replicas=1)
ORDERS = TopicPartition("orders", 0)


@dataclass(slots=True)
class Live:
    """A partition that serves, and what it published."""

    partition: GroupPartition
    leader: Led
    lease: list[bool]
    """True if the broker's session is certainly in force."""
    failed: list[str] = field(default_factory=list)
    events: list[GroupEvent] = field(default_factory=list)

    async def commit(self, group: str, offset: int, name: TopicPartition = ORDERS) -> None:
        """From outside the group. Raises what it is refused with."""
        request = OffsetCommit(group, "", -1, {name: CommittedOffset(offset)})
        results = await self.partition.ask(Commit(request))
        if (error := results[name]) is not None:
            raise error

    async def committed(self, group: str, name: TopicPartition = ORDERS) -> int | None:
        request = OffsetFetch(group, (name,))
        found = (await self.partition.ask(request))[name]
        return None if found is None else found.offset


async def refusal(awaited: Any) -> StrandlineError | None:
    """The exception that it raised."""
    try:
        await awaited
    except StrandlineError as error:
        return error
    return None


@asynccontextmanager
async def live(replica: Replica | None = None, epoch: int = 5, **given: Any) -> AsyncIterator[Live]:
    """Broker 1 leads the replica alone (`isr` for more), its coordinator running; at the end both end."""
    replica = replica or open_replica(ALONE)
    given = {"isr": (1,), **given}
    isr = given.pop("isr")
    async with leading(replica, epoch, isr=isr, **given) as leader, asyncio.TaskGroup() as tasks:
        events: list[GroupEvent] = []
        failed: list[str] = []
        lease, own = [True], settings(**given)
        partition = GroupPartition(
            leader.leadership,
            Coordinator(GroupLimits.of(own)),
            Surroundings(
                CLOCK,
                append_timeout_ms=own.group_append_timeout_ms,
                appends_max=own.commit_queue_entries_max,
                hint=lambda: None,
                holds_lease=lambda: lease[0],
                on_storage_failed=lambda: failed.append("storage"),
                expiry_ms=CLOCK.wall_ms,
            ),
            events.append,
        )
        running = tasks.create_task(partition.run())
        try:
            yield Live(partition, leader, lease, failed, events)
        finally:
            partition.end()
            await running
