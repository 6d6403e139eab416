"""DescribeTopicPartitions: partitions of topics, some at a time (KIP-966)."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.metadata import PartitionFacts, TopicFacts
from strandline.broker.kafka.wire.table.rows import (
    BOOL,
    ERROR,
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


class Cursor(NamedTuple):
    """Where an answer begins: at a partition of a topic. Topics are in the order of their names."""

    topic: str
    partition: int


class DescribeTopicPartitionsRequest(NamedTuple):
    """`topics` empty: all. `limit`: of partitions in the answer."""

    topics: tuple[str, ...]
    limit: int
    cursor: Cursor | None = None


class DescribeTopicPartitionsAnswer(NamedTuple):
    """`next`: where the next answer begins; None: this is the last one."""

    topics: tuple[TopicFacts, ...]
    next: Cursor | None = None


_CURSOR: Final = Struct(Cursor, STRING("topic_name", "topic"), INT32("partition_index", "partition"))
REQUEST: Final = Struct(
    DescribeTopicPartitionsRequest,
    row("topics", Array(Struct(None, STRING("name")))),
    INT32("response_partition_limit", "limit"),
    row("cursor", _CURSOR, nullable=0),
)
_PARTITION: Final = Struct(
    PartitionFacts,
    ERROR,
    PARTITION,
    INT32("leader_id", "leader"),
    INT32("leader_epoch"),
    row("replica_nodes", Array(INT32), "replicas"),
    row("isr_nodes", Array(INT32), "isr"),
    # Only replicas of the ISR are elected. Java's client takes no null here.
    constant("eligible_leader_replicas", Array(INT32), (), nullable=0),
    constant("last_known_elr", Array(INT32), (), nullable=0),
    row("offline_replicas", Array(INT32), "offline"),
)
_TOPIC: Final = Struct(
    TopicFacts,
    ERROR,
    STRING("name", nullable=0),
    UUID("topic_id"),
    BOOL("is_internal"),
    row("partitions", Array(_PARTITION, large=True)),
    INT32("topic_authorized_operations", "operations"),
)
ANSWER: Final = Struct(
    DescribeTopicPartitionsAnswer,
    throttle(),
    row("topics", Array(_TOPIC)),
    row("next_cursor", _CURSOR, "next", nullable=0),
)
