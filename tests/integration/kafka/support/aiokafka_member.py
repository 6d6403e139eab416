"""A member of aiokafka, which knows no cooperative assignor."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from tests.integration.kafka.support.heard import ASSIGNED, REVOKED, Heard

ASSIGNORS: Final = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
POLL_MS: Final = 50


class AiokafkaMember(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Reads until it is stopped. It commits what it was handed out before it gives a partition up."""

    def __init__(self, bootstrap: str, group: str, topic: str, assignor: str, name: str) -> None:
        self.heard = Heard(name)
        self.errors: list[Any] = []
        self.places: list[tuple[str, int, int]] = []
        self._topic = topic
        self._stop = asyncio.Event()
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            client_id=name,
            partition_assignment_strategy=[ASSIGNORS[assignor]],
            session_timeout_ms=6_000,
            heartbeat_interval_ms=200,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
        )

    async def read(self) -> None:
        self._consumer.subscribe([self._topic], listener=self)
        await self._consumer.start()
        try:
            while not self._stop.is_set():
                for name, records in (await self._consumer.getmany(timeout_ms=POLL_MS)).items():
                    self.places += ((name.topic, name.partition, record.offset) for record in records)
            await self.on_partitions_revoked(self._consumer.assignment())
        finally:
            await self._consumer.stop()

    def stop(self) -> None:
        self._stop.set()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.heard.hear(ASSIGNED, [(each.topic, each.partition) for each in assigned])

    async def on_partitions_revoked(self, revoked: Any) -> None:
        if revoked:
            await self._consumer.commit()
        self.heard.hear(REVOKED, [(each.topic, each.partition) for each in revoked])
