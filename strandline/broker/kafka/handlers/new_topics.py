"""What Kafka clients leave open about a new topic, and the wait until it can be used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from strandline.broker.kafka.handlers.controller import Deadline
from strandline.config.services.broker import BrokerSettings
from strandline.errors import LeaderNotAvailable
from strandline.ids import NO_BROKER, NO_EPOCH, BrokerId, TopicPartition
from strandline.ports import Clock
from strandline.vocabulary.log import LeaderWait, MetadataAnswer, MetadataQuery
from strandline.vocabulary.metadata import Registration, TopicMetadata

Describe = Callable[[MetadataQuery], Awaitable[MetadataAnswer]]
Live = Callable[[], Mapping[BrokerId, Registration]]
Led = Callable[[TopicPartition, str], bool]

LOOK_S: Final = 0.02
"""How often a broker looks whether a new topic is led, as far as it knows without a reading."""
PAUSE_S_MAX: Final = 0.5
"""The longest time between two readings for that."""
WAITS_MAX: Final = 1_000
"""Partitions whose leaders a broker waits for in one look."""


class Made(NamedTuple):
    """A new topic, or one that has grown, and how many partitions it has."""

    topic_id: str
    partitions: int


class TopicDefaults:
    """The size of a new topic for which the client names none."""

    def __init__(self, settings: BrokerSettings, live: Live) -> None:
        self._settings = settings
        self._live = live

    @property
    def partitions(self) -> int:
        return self._settings.num_partitions

    @property
    def replication_factor(self) -> int:
        """The setting; if fewer brokers are alive, their number."""
        alive = sum(not broker.shutting_down for broker in self._live().values())
        return max(1, min(self._settings.default_replication_factor, alive))


class Leaders:
    """Waits for the leaders of new topics and partitions.

    `led` tells without a reading whether a partition of a topic, by its id, is led as far as this broker
    knows: it does if the broker has a replica of it.
    """

    def __init__(self, describe: Describe, led: Led, clock: Clock) -> None:
        self._describe = describe
        self._led = led
        self._clock = clock

    async def wait(self, made: Mapping[str, Made], deadline: Deadline) -> set[str]:
        """Waits until each partition of these topics is led as far as this broker knows. Returns the topics
        for which that is not so by the deadline.

        What this broker does not know by its replicas it reads from ZooKeeper, each time after a pause that
        is twice as long: many topics take long, and each reading has the znodes of all that are left.
        """
        left = dict(made)
        waits: list[LeaderWait] = []
        pause_s, read_at = LOOK_S, self._clock.monotonic()
        while left and deadline.left_s > 0:
            for name in [name for name, topic in left.items() if self._is_led(name, topic)]:
                del left[name]
            if left and self._clock.monotonic() >= read_at:
                waits = await self._read(left, waits)
                read_at = self._clock.monotonic() + pause_s
                pause_s = min(2 * pause_s, PAUSE_S_MAX)
            if left:
                await self._clock.sleep(max(0.0, min(LOOK_S, deadline.left_s)))
        return set(left)

    def _is_led(self, name: str, topic: Made) -> bool:
        numbers = range(topic.partitions)
        return all(self._led(TopicPartition(name, number), topic.topic_id) for number in numbers)

    async def _read(self, left: dict[str, Made], waits: Sequence[LeaderWait]) -> list[LeaderWait]:
        """Takes out the topics that are led, and returns partitions of the others that are not. `waits` are
        those that the reading before returned: they are read again."""
        asked = [wait for wait in waits if wait.name.topic in left]
        query = MetadataQuery(sorted(left), waits=asked[:WAITS_MAX], include_config=False)
        try:
            found: Sequence[TopicMetadata] = (await self._describe(query)).cluster.topics
        except LeaderNotAvailable:
            return []
        again: list[LeaderWait] = []
        for topic in found:
            unled = _unled(topic, left[topic.name].partitions)
            if topic.topic_id == left[topic.name].topic_id and not unled:
                del left[topic.name]
            again += unled
        return again


def _unled(topic: TopicMetadata, partitions: int) -> list[LeaderWait]:
    """The partitions without a leader. Of those that this broker does not know yet, the first."""
    unled = [
        LeaderWait(TopicPartition(topic.name, each.partition), each.leader_epoch)
        for each in topic.partitions
        if each.leader == NO_BROKER
    ]
    known = len(topic.partitions)
    if known < partitions:
        unled.append(LeaderWait(TopicPartition(topic.name, known), NO_EPOCH))
    return unled
