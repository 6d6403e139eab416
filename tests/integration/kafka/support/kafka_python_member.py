"""A member of kafka-python, in a thread: its calls block, and serve its callbacks."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any, Final

from kafka import KafkaConsumer
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import CommitFailedError, RebalanceInProgressError

from tests.integration.kafka.support.heard import ASSIGNED, LOST, REVOKED, Heard

ASSIGNORS: Final = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}
POLL_MS: Final = 50


class KafkaPythonMember(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Reads until it is stopped. It commits after each read: the library's callbacks must not block. A commit
    that a rebalance refuses is not repeated, since the partitions may belong to another member by then."""

    def __init__(self, bootstrap: str, group: str, topic: str, assignor: str, name: str) -> None:
        self.heard = Heard(name)
        self.errors: list[Any] = []
        self.places: list[tuple[str, int, int]] = []
        self._topic = topic
        self._stop = threading.Event()
        self._settings = {
            "bootstrap_servers": bootstrap.split(","),
            "group_id": group,
            "client_id": name,
            "partition_assignment_strategy": (ASSIGNORS[assignor],),
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": 200,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "fetch_max_wait_ms": 100,
        }

    async def read(self) -> None:
        await asyncio.to_thread(self._read)

    def stop(self) -> None:
        self._stop.set()

    def _read(self) -> None:
        consumer = KafkaConsumer(**self._settings)
        consumer.subscribe([self._topic], listener=self)
        try:
            while not self._stop.is_set():
                found = consumer.poll(POLL_MS)
                for name, records in found.items():
                    self.places += ((name.topic, name.partition, record.offset) for record in records)
                if found:
                    with suppress(CommitFailedError, RebalanceInProgressError):
                        consumer.commit()
        finally:
            consumer.close()

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.heard.hear(ASSIGNED, [(each.topic, each.partition) for each in assigned])

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.heard.hear(REVOKED, [(each.topic, each.partition) for each in revoked])

    def on_partitions_lost(self, lost: Any) -> None:
        self.heard.hear(LOST, [(each.topic, each.partition) for each in lost])
