"""Identifiers. Each has its own NewType, so that an offset cannot be passed as an epoch."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Final, NamedTuple, NewType, TypeVar

Name = TypeVar("Name", int, str)

BrokerId = NewType("BrokerId", int)
BrokerEpoch = NewType("BrokerEpoch", int)
"""The czxid of a broker's registration: each registration of a broker has another epoch (KIP-380)."""

LeaderEpoch = NewType("LeaderEpoch", int)
"""The version of the znode `/epoch`; it never decreases, over the whole cluster."""

Offset = NewType("Offset", int)
TopicName = NewType("TopicName", str)
TopicId = NewType("TopicId", str)
"""32 hexadecimal digits; a topic that is created again under its old name has another id."""

PartitionId = NewType("PartitionId", int)
ProducerId = NewType("ProducerId", int)

INTERNAL_PREFIX: Final = "__"
"""The prefix of internal topics: every client may read them, and only the system writes them."""

OFFSETS_TOPIC: Final = TopicName("__consumer_offsets")
"""The state of group coordinators."""

TRANSACTIONS_TOPIC: Final = TopicName("__transaction_state")
"""The state of coordinators of transactions."""

GROUP_EVENTS_TOPIC: Final = TopicName("__group_events")
"""Events of groups; every client may read them."""

STATE_CHANGES_TOPIC: Final = TopicName("__state_changes")
"""Events of partitions and their replicas; every client may read them."""

NO_BROKER: Final = BrokerId(-1)
NO_EPOCH: Final = LeaderEpoch(-1)
UNKNOWN_OFFSET: Final = Offset(-1)
NO_PRODUCER: Final = ProducerId(-1)
NO_TOPIC_ID: Final = TopicId("")
"""In place of a topic's id: it is not known, and is not compared."""
_TOPIC_ID: Final = re.compile(r"[0-9a-f]{32}")

ACKS_ALL: Final = -1
"""As `acks` of a produce request: the in-sync replicas have the records before it is acknowledged."""


class TopicPartition(NamedTuple):
    """A partition by its topic's name, as clients use it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class PartitionKey(NamedTuple):
    """A partition by its topic's id, as brokers, queues and folders use it (KIP-516)."""

    topic_id: TopicId
    partition: PartitionId


def is_topic_id(text: str) -> bool:
    """True if a topic can have this id; NO_TOPIC_ID is none."""
    return _TOPIC_ID.fullmatch(text) is not None


def named_twice(names: Iterable[Name]) -> Name | None:
    """The first id or name, in order, that stands there more than once; None without one."""
    return next((one for one, other in pairwise(sorted(names)) if one == other), None)
