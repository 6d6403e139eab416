"""A host client's view of a cluster of containers: one topic, written, read and described."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self
from uuid import uuid4

from strandline import Admin, Consumer, NewTopic, Producer, TopicPartition
from strandline.errors import StrandlineError
from strandline.vocabulary.metadata import PartitionMetadata
from strandline_lab.chaos.core.faults import Member, Role
from strandline_lab.chaos.world import World
from tests.waiting import eventually

SETTLE_S_MAX: Final = 90.0


class Sight:
    """A new topic of one partition, replicas 1, 2, 3 in this order; the records that were acknowledged."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.topic = f"tides-{uuid4().hex[:8]}"
        self.acknowledged: list[bytes] = []
        self._admin = Admin(world.bootstrap)
        self._producer = Producer(world.bootstrap)

    async def __aenter__(self) -> Self:
        await self._admin.start()
        await self._producer.start()
        await self._admin.create_topics([NewTopic(self.topic, 1, assignments=[(1, 2, 3)])])
        await self.isr_is(1, 2, 3)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._producer.stop()
        await self._admin.stop()

    async def write(self, count: int = 100) -> None:
        """Records that all in-sync replicas have."""
        for _ in range(count):
            value = f"{len(self.acknowledged)}".encode()
            await self._producer.send_and_wait(self.topic, value)
            self.acknowledged.append(value)

    async def read(self) -> list[bytes]:
        """Everything in the topic, by a fresh reader."""
        partition = TopicPartition(self.topic, 0)
        async with Consumer(self.world.bootstrap, offset_reset="earliest") as consumer:
            consumer.assign([partition])
            found: list[bytes] = []
            while len(found) < len(self.acknowledged):
                found.append((await consumer.getone()).value or b"")
            return found

    async def partition(self) -> PartitionMetadata:
        topics = (await self._admin.metadata([self.topic])).topics
        return topics[0].partitions[0]

    async def leader(self) -> Member:
        return broker((await self.partition()).leader)

    async def led_by_another_than(self, old: Member) -> None:
        async def led() -> bool:
            try:
                return (await self.partition()).leader not in (old.number, -1)
            except StrandlineError:
                return False

        await eventually(led, deadline_s=SETTLE_S_MAX, what=f"another leader than {old}")

    async def isr_is(self, *brokers: int) -> None:
        async def is_it() -> bool:
            try:
                return sorted((await self.partition()).isr) == sorted(brokers)
            except StrandlineError:
                return False

        await eventually(is_it, deadline_s=SETTLE_S_MAX, what=f"the ISR is {brokers}")

    async def create_another_topic(self) -> None:
        """Needs a controller. If one dies meanwhile, the outcome is unknown: then another name is tried."""

        async def created() -> bool:
            try:
                await self._admin.create_topic(f"other-{uuid4().hex[:8]}", partitions=1, replication_factor=3)
            except StrandlineError:
                return False
            return True

        await eventually(created, deadline_s=SETTLE_S_MAX, what="a controller creates a topic")


def broker(number: int) -> Member:
    return Member(Role.BROKER, number)
