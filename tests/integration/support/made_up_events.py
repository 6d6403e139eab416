"""Events in `__state_changes` that a test made up, of a topic that never was: so nothing else is of it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from strandline import Admin
from strandline.adapters.system.clock import SystemClock
from strandline.client.events.writer import EventWriter
from strandline.ids import (
    STATE_CHANGES_TOPIC,
    BrokerId,
    LeaderEpoch,
    PartitionId,
    PartitionKey,
    TopicId,
)
from strandline.local.cluster import LocalCluster
from strandline.vocabulary.state_changes import (
    Command,
    RequestState,
    StateChangeEvent,
    event_key,
    event_value,
)
from tests.integration.groups.support.member_calls import member_transport
from tests.waiting import eventually

_numbers = itertools.count(1)

REQUESTED = StateChangeEvent(
    id="",
    command=Command.START_REPLICA,
    state=RequestState.REQUESTED,
    topic="",
    key=PartitionKey(TopicId("ab" * 16), PartitionId(0)),
    broker=BrokerId(1),
    epoch=LeaderEpoch(10),
    at_ms=1_000,
    requester=BrokerId(2),
)


class MadeUpEvents:
    """Writes events, numbered from 0, of a topic of its own."""

    def __init__(self, writer: EventWriter) -> None:
        self.topic = f"made_up-{next(_numbers)}"
        self.count = 0
        self._writer = writer

    def put(self, how_many: int = 1, **facts: object) -> list[StateChangeEvent]:
        """As many more."""
        events = []
        for _ in range(how_many):
            event = replace(REQUESTED, id=f"{self.topic}-{self.count}", topic=self.topic, **facts)  # type: ignore[arg-type]  # a test's own
            self.count += 1
            events.append(event)
            self.put_again(event)
        return events

    def put_again(self, event: StateChangeEvent) -> None:
        """Write it again, like a writer that cannot know whether it is in the log."""
        self._writer.put(event_key(event), event_value(event), event.at_ms)

    async def written(self) -> None:
        assert await self._writer.flush(30)
        assert self._writer.dropped == 0


@asynccontextmanager
async def writing_events(cluster: LocalCluster) -> AsyncIterator[MadeUpEvents]:
    """The topic is made by the brokers, once something has happened."""
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic(f"happens-{next(_numbers)}", 1, 3)

        async def there() -> bool:
            return STATE_CHANGES_TOPIC in await admin.list_topics()

        await eventually(there, deadline_s=20)

    async def prepare() -> None:
        return

    async with EventWriter(
        cluster.bootstrap,
        STATE_CHANGES_TOPIC,
        events_max=100_000,
        prepare=prepare,
        transport=await member_transport(cluster),
        clock=SystemClock(),
    ) as writer:
        yield MadeUpEvents(writer)
