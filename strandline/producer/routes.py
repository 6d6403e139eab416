"""Chooses the partitions for the records of one topic: by key, in turn, or by number."""

from __future__ import annotations

from collections import defaultdict
from typing import Generic

from strandline.errors import UnknownTopicOrPartition
from strandline.ids import NO_BROKER, TopicId
from strandline.producer.core.batch import PartitionQueue, Ticket
from strandline.producer.core.partitioner import partition_for
from strandline.records import RecordFields


class Route(Generic[Ticket]):
    """The queues of a topic's partitions, by number."""

    __slots__ = ("_turn", "bytes_max", "queues", "sticky", "topic", "topic_id")

    def __init__(
        self,
        topic: str,
        topic_id: TopicId,
        queues: list[PartitionQueue[Ticket]],
        bytes_max: int,
        *,
        turn: int,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.queues = queues
        """Grows with the topic: keys then go to other partitions, as with Kafka's clients."""
        self.bytes_max = bytes_max
        """The topic's limit for one batch."""
        self._turn = turn
        self.sticky = queues[turn % len(queues)]
        """The partition for records without a key, until their batch is full or sent (KIP-480)."""

    @property
    def size_max(self) -> int:
        """The size limit, in bytes, of a batch of several records."""
        return self.queues[0].size_max

    def chosen(self, partition: int) -> PartitionQueue[Ticket]:
        """Raises UnknownTopicOrPartition."""
        if not 0 <= partition < len(self.queues):
            raise UnknownTopicOrPartition(
                f"{self.topic} (topic id {self.topic_id}) has partitions 0 to {len(self.queues) - 1}, "
                f"there is no {partition}"
            )
        return self.queues[partition]

    def begin_anew(self, topic_id: TopicId, count: int) -> list[PartitionQueue[Ticket]]:
        """The topic was made anew, with this many partitions: those that it did not have before get their
        queues as those of a topic that grows. Returns the queues of those that are gone."""
        gone = self.queues[count:]
        self.topic_id = topic_id
        del self.queues[count:]
        self.sticky = self.queues[self._turn % len(self.queues)]
        return gone

    def keyed(self, key: bytes) -> PartitionQueue[Ticket]:
        return self.queues[partition_for(key, len(self.queues))]

    def next(self) -> PartitionQueue[Ticket]:
        """Switch to the next partition; to one with a leader, if there is any."""
        for _ in self.queues:
            self._turn += 1
            self.sticky = self.queues[self._turn % len(self.queues)]
            if self.sticky.broker != NO_BROKER:
                break
        return self.sticky

    def grouped(
        self, records: list[RecordFields], chosen: PartitionQueue[Ticket] | None
    ) -> list[tuple[PartitionQueue[Ticket], list[RecordFields]]]:
        """The records by partition, in their order. Those without a key stay together; all of them go to
        `chosen` if it is given."""
        if chosen is not None:
            return [(chosen, records)]
        keyless = self.queues.index(self.next())
        count = len(self.queues)
        groups: defaultdict[int, list[RecordFields]] = defaultdict(list)
        for record in records:
            key = record[0]
            groups[keyless if key is None else partition_for(key, count)].append(record)
        return [(self.queues[number], of_one) for number, of_one in groups.items()]
