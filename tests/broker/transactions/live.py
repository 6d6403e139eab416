"""A partition of `__transaction_state` on a replica with a real log, led with a ZooKeeper in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from strandline.broker.coordinators.partition import Surroundings
from strandline.broker.core.transactions.coordinator import TransactionCoordinator
from strandline.broker.core.transactions.effects import SendMarkers, TransactionEvent
from strandline.broker.core.transactions.limits import TransactionLimits
from strandline.broker.core.transactions.requests import End, Initialize
from strandline.broker.replicas.replica import Replica
from strandline.broker.transactions.marker_sender import Marked
from strandline.broker.transactions.partition import TransactionPartition
from strandline.ids import TopicPartition
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.topic_config import TopicConfig
from strandline.vocabulary.transactions import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitTransactions,
    TransactionState,
)
from tests.broker.support.replicas import CLOCK, Led, leading, open_replica, settings
from tests.waiting import eventually

ALONE = TopicConfig(min_insync_replicas=1)
A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
NEW_ID = 4_000
"""The producer id that a new transactional id gets."""


@dataclass(slots=True)
class Leaders:
    """The leaders of a transaction's partitions: they write markers when the test says so."""

    sent: list[tuple[SendMarkers, int]] = field(default_factory=list)
    """With the coordinator's epoch."""
    ended: int = 0
    """Deliveries that ended, also early."""
    confirmed: asyncio.Event = field(default_factory=asyncio.Event)

    async def deliver(self, markers: SendMarkers, epoch: int, marked: Marked) -> None:
        self.sent.append((markers, epoch))
        try:
            await self.confirmed.wait()
            marked(markers.partitions)
        finally:
            self.ended += 1


@dataclass(slots=True)
class Live:
    partition: TransactionPartition
    leader: Led
    leaders: Leaders
    events: list[TransactionEvent]
    failed: list[str]

    async def serving(self) -> None:
        await eventually(lambda: self.partition.active)

    async def init(self, *, timeout_ms: int = 60_000) -> ProducerIdentity:
        return await self.partition.ask(Initialize(InitTransactions("payments", timeout_ms), NEW_ID))

    async def begin(self, producer: ProducerIdentity, *names: TopicPartition) -> None:
        results = await self.partition.ask(AddPartitions("payments", producer, names))
        assert not any(results.values()), results

    async def end(
        self, producer: ProducerIdentity, *, commit: bool = True, next_epoch: bool = True
    ) -> ProducerIdentity:
        return await self.partition.ask(End(EndTransaction("payments", producer, commit, next_epoch)))

    async def state(self) -> TransactionState:
        return (await self.partition.ask(DescribeTransaction("payments"))).state

    async def reaches(self, state: TransactionState) -> None:
        async def there() -> bool:
            return await self.state() is state

        await eventually(there)


@asynccontextmanager
async def live(replica: Replica | None = None, epoch: int = 5, **given: Any) -> AsyncIterator[Live]:
    """Broker 1 leads the replica alone (`isr` for more), its coordinator running; at the end both end."""
    replica = replica or open_replica(ALONE)
    isr = given.pop("isr", (1,))
    async with leading(replica, epoch, isr=isr, **given) as leader, asyncio.TaskGroup() as tasks:
        own, leaders = settings(**given), Leaders()
        events: list[TransactionEvent] = []
        failed: list[str] = []
        around = Surroundings(
            CLOCK,
            append_timeout_ms=own.transaction_append_timeout_ms,
            appends_max=own.commit_queue_entries_max,
            hint=lambda: None,
            holds_lease=lambda: True,
            on_storage_failed=lambda: failed.append("storage"),
            expiry_ms=CLOCK.wall_ms,
        )
        core = TransactionCoordinator(TransactionLimits.of(own))
        partition = TransactionPartition(leader.leadership, core, around, leaders.deliver, events.append)
        running = tasks.create_task(partition.run())
        try:
            yield Live(partition, leader, leaders, events, failed)
        finally:
            partition.end()
            await running
