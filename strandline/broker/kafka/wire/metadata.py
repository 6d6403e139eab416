"""Metadata: brokers, topics, partitions and their leaders."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.table.rows import (
    BOOL,
    ERROR,
    INT16,
    INT32,
    PARTITION,
    STRING,
    UUID,
    Array,
    Struct,
    constant,
    row,
    throttle,
)

NO_TOPIC_ID: Final = "0" * 32
IDS_SINCE: Final = 12
"""The first version in which a client may ask for topics by their ids: 10 and 11 only have the fields."""
OPERATIONS_UNKNOWN: Final = -(2**31)
"""Authorized operations of a cluster or topic: not asked for, or not known."""


class TopicWanted(NamedTuple):
    """A topic by its id if it has one, else by its name."""

    name: str | None
    topic_id: str = NO_TOPIC_ID

    @property
    def by_id(self) -> bool:
        """Java's client gives an id together with an empty name."""
        return self.name is None or self.topic_id != NO_TOPIC_ID


class MetadataRequest(NamedTuple):
    """`topics` None: all; empty: none. The last two ask for what the client may do (KIP-430)."""

    topics: tuple[TopicWanted, ...] | None
    auto_create: bool = True
    cluster_operations: bool = False
    topic_operations: bool = False


class BrokerAddress(NamedTuple):
    """`fenced`: it is down, and its address is not known. Only DescribeCluster names such a broker."""

    broker: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool = False


class PartitionFacts(NamedTuple):
    partition: int
    error: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()


class TopicFacts(NamedTuple):
    """`name` is None only in answers about an id that no topic has."""

    name: str | None
    error: int = 0
    topic_id: str = NO_TOPIC_ID
    is_internal: bool = False
    partitions: tuple[PartitionFacts, ...] = ()
    operations: int = OPERATIONS_UNKNOWN


class MetadataAnswer(NamedTuple):
    brokers: tuple[BrokerAddress, ...]
    cluster_id: str | None
    controller: int
    topics: tuple[TopicFacts, ...]
    operations: int = OPERATIONS_UNKNOWN


_NAMED: Final = Array(Struct(TopicWanted, STRING("name")))
_NAMED_OR_NUMBERED: Final = Array(
    Struct(TopicWanted, UUID("topic_id", since=10), STRING("name", nullable=10))
)
_CLUSTER_OPERATIONS_UNTIL: Final = 10

REQUEST: Final = Struct(
    MetadataRequest,
    row("topics", _NAMED, until=0, read=lambda wanted: wanted or None),  # empty meant all
    row("topics", _NAMED_OR_NUMBERED, since=1, nullable=1),
    BOOL("allow_auto_topic_creation", "auto_create", since=4),
    BOOL(
        "include_cluster_authorized_operations",
        "cluster_operations",
        since=8,
        until=_CLUSTER_OPERATIONS_UNTIL,
    ),
    BOOL("include_topic_authorized_operations", "topic_operations", since=8),
)
ADDRESS: Final = (
    INT32("node_id", "broker"),
    STRING("host"),
    INT32("port"),
    STRING("rack", since=1, nullable=1),
)
_PARTITION: Final = Struct(
    PartitionFacts,
    ERROR,
    PARTITION,
    INT32("leader_id", "leader"),
    INT32("leader_epoch", since=7, absent=-1),
    row("replica_nodes", Array(INT32), "replicas"),
    row("isr_nodes", Array(INT32), "isr"),
    row("offline_replicas", Array(INT32), "offline", since=5),
)
_TOPIC: Final = Struct(
    TopicFacts,
    ERROR,
    STRING("name", nullable=12),
    UUID("topic_id", since=10),
    BOOL("is_internal", since=1),
    row("partitions", Array(_PARTITION, large=True)),
    INT32("topic_authorized_operations", "operations", since=8),
)
ANSWER: Final = Struct(
    MetadataAnswer,
    throttle(since=3),
    row("brokers", Array(Struct(BrokerAddress, *ADDRESS))),
    STRING("cluster_id", since=2, nullable=2, absent=None),
    INT32("controller_id", "controller", since=1, absent=-1),
    row("topics", Array(_TOPIC)),
    INT32("cluster_authorized_operations", "operations", since=8, until=_CLUSTER_OPERATIONS_UNTIL),
    constant("error_code", INT16, 0, since=13),
)
