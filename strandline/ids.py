"""Identifiers. A NewType for each, so that an offset is never handed over as an epoch."""

from __future__ import annotations

from typing import Final, NamedTuple, NewType

BrokerId = NewType("BrokerId", int)
BrokerEpoch = NewType("BrokerEpoch", int)
"""czxid of a broker's registration: another life of the same broker has another epoch (KIP-380)."""

LeaderEpoch = NewType("LeaderEpoch", int)
"""Taken from the version of `/epoch`; never decreases over the whole cluster."""

Offset = NewType("Offset", int)
TopicName = NewType("TopicName", str)
TopicId = NewType("TopicId", str)
"""32 hexadecimal digits; a topic that is created again under its old name has another one."""

PartitionId = NewType("PartitionId", int)
ProducerId = NewType("ProducerId", int)

INTERNAL_PREFIX: Final = "__"
"""Topics whose names begin so are the system's own: everybody may read them, and only it writes them."""

OFFSETS_TOPIC: Final = TopicName("__consumer_offsets")
"""What the coordinators of groups know (DESIGN .6)."""

GROUP_EVENTS_TOPIC: Final = TopicName("__group_events")
"""What happened in groups, for everybody to read."""

STATE_CHANGES_TOPIC: Final = TopicName("__state_changes")
"""What happened to partitions and their replicas, for everybody to read (DESIGN .4)."""

NO_BROKER: Final = BrokerId(-1)
NO_EPOCH: Final = LeaderEpoch(-1)
UNKNOWN_OFFSET: Final = Offset(-1)
NO_PRODUCER: Final = ProducerId(-1)


class TopicPartition(NamedTuple):
    """A partition by its topic's name, as users know it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class PartitionKey(NamedTuple):
    """A partition by its topic's incarnation: what brokers, queues and folders go by (KIP-516)."""

    topic_id: TopicId
    partition: PartitionId
