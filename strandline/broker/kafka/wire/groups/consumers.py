"""ConsumerGroupHeartbeat: what members send where the coordinator assigns (KIP-848)."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.table.rows import (
    ERROR,
    GROUP,
    INT32,
    MEMBER,
    MESSAGE,
    STRING,
    UUID,
    Array,
    Struct,
    row,
    throttle,
)


class TopicNumbers(NamedTuple):
    """Partitions of one topic."""

    topic_id: str
    partitions: tuple[int, ...]


class ConsumerHeartbeatRequest(NamedTuple):
    """What is null, or -1 for the timeout, has not changed. `owned`: the partitions that the member has."""

    group: str
    member: str
    epoch: int
    instance: str | None = None
    rack: str | None = None
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: tuple[TopicNumbers, ...] | None = None


class Assignment(NamedTuple):
    partitions: tuple[TopicNumbers, ...]


class ConsumerHeartbeatAnswer(NamedTuple):
    """`assignment`: null if it has not changed."""

    error: int = 0
    message: str | None = None
    member: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    assignment: Assignment | None = None


NUMBERS: Final = Struct(TopicNumbers, UUID("topic_id"), row("partitions", Array(INT32)))
HEARTBEAT_REQUEST: Final = Struct(
    ConsumerHeartbeatRequest,
    GROUP,
    MEMBER,
    INT32("member_epoch", "epoch"),
    STRING("instance_id", "instance", nullable=0),
    STRING("rack_id", "rack", nullable=0),
    INT32("rebalance_timeout_ms"),
    row("subscribed_topic_names", Array(STRING), "topics", nullable=0),
    STRING("subscribed_topic_regex", "pattern", since=1, nullable=1),
    STRING("server_assignor", "assignor", nullable=0),
    row("topic_partitions", Array(NUMBERS), "owned", nullable=0),
)
ASSIGNMENT: Final = Struct(Assignment, row("topic_partitions", Array(NUMBERS), "partitions"))
HEARTBEAT_ANSWER: Final = Struct(
    ConsumerHeartbeatAnswer,
    throttle(),
    ERROR,
    MESSAGE,
    STRING("member_id", "member", nullable=0),
    INT32("member_epoch", "epoch"),
    INT32("heartbeat_interval_ms", "interval_ms"),
    row("assignment", ASSIGNMENT, nullable=0),
)
