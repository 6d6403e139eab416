"""A member of confluent-kafka (librdkafka), in a thread: its calls block, and serve its callbacks."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.integration.kafka.support.heard import ASSIGNED, LOST, REVOKED, Heard

SETTINGS: Final[dict[str, Any]] = {
    "session.timeout.ms": 6_000,
    "heartbeat.interval.ms": 200,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "fetch.wait.max.ms": 100,
}
"""Short times, so that a test waits for what happens and not for a default."""

STATIC_SESSION_MS: Final = 30_000
"""Time for a static member to return."""
POLL_S: Final = 0.05
CONSUMER: Final = "consumer"
"""In place of an assignor: the coordinator assigns (KIP-848)."""


def protocol(assignor: str) -> dict[str, Any]:
    """The settings of a member of either protocol: with the newer one, the brokers say how often it beats."""
    if assignor == CONSUMER:
        return {"group.protocol": CONSUMER, "session.timeout.ms": None, "heartbeat.interval.ms": None}
    return {"partition.assignment.strategy": assignor}


class ConfluentMember:
    """Reads until it is stopped. It commits what it was handed out before it gives a partition up."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, assignor: str, name: str, instance: str | None
    ) -> None:
        self.heard = Heard(name)
        self.errors: list[Any] = []
        self.places: list[tuple[str, int, int]] = []
        self._topic = topic
        self._next: dict[tuple[str, int], int] = {}
        self._stop = threading.Event()
        static = {"group.instance.id": instance, "session.timeout.ms": STATIC_SESSION_MS}
        settings = {
            **SETTINGS,
            **({} if instance is None else static),
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": name,
            **protocol(assignor),
        }
        self._consumer = Consumer({key: value for key, value in settings.items() if value is not None})

    async def read(self) -> None:
        await asyncio.to_thread(self._read)

    def stop(self) -> None:
        self._stop.set()

    def _read(self) -> None:
        consumer = self._consumer
        consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )
        try:
            while not self._stop.is_set():
                message = consumer.poll(POLL_S)
                if message is None:
                    continue
                if message.error():
                    self.errors.append(message.error())
                    continue
                topic, partition, offset = message.topic(), message.partition(), message.offset()
                assert topic is not None and partition is not None and offset is not None
                self.places.append((topic, partition, offset))
                self._next[topic, partition] = offset + 1
        finally:
            consumer.close()

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.heard.hear(ASSIGNED, [(each.topic, each.partition) for each in partitions])

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        names = [(each.topic, each.partition) for each in partitions]
        offsets = [TopicPartition(*name, self._next.pop(name)) for name in names if name in self._next]
        try:
            if offsets:
                consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            self.errors.append(error)
        self.heard.hear(REVOKED, names)

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        names = [(each.topic, each.partition) for each in partitions]
        for name in names:
            self._next.pop(name, None)
        self.heard.hear(LOST, names)
