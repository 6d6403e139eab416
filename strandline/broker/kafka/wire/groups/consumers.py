"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups whose coordinator assigns (KIP-848)."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.metadata import OPERATIONS_UNKNOWN
from strandline.broker.kafka.wire.table.rows import (
    BOOL,
    ERROR,
    GROUP,
    INT8,
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

# --- ConsumerGroupHeartbeat -------------------------------------------------------------------


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


# --- ConsumerGroupDescribe --------------------------------------------------------------------


class ConsumerDescribeRequest(NamedTuple):
    """`operations` asks for what the client may do with each group (KIP-430)."""

    groups: tuple[str, ...]
    operations: bool = False


class NamedNumbers(NamedTuple):
    """Partitions of one topic."""

    topic_id: str
    topic: str
    partitions: tuple[int, ...]


class NamedAssignment(NamedTuple):
    partitions: tuple[NamedNumbers, ...] = ()


class ConsumerDescription(NamedTuple):
    """`type`: 0 for a member of the classic protocol, 1 for one of this."""

    member: str
    instance: str | None
    rack: str | None
    epoch: int
    client_id: str
    host: str
    topics: tuple[str, ...]
    pattern: str | None
    assigned: NamedAssignment
    target: NamedAssignment
    type: int = 1


class ConsumerGroupDescription(NamedTuple):
    group: str
    error: int = 0
    message: str | None = None
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    members: tuple[ConsumerDescription, ...] = ()
    operations: int = OPERATIONS_UNKNOWN


class ConsumerDescribeAnswer(NamedTuple):
    groups: tuple[ConsumerGroupDescription, ...]


DESCRIBE_REQUEST: Final = Struct(
    ConsumerDescribeRequest,
    row("group_ids", Array(STRING), "groups"),
    BOOL("include_authorized_operations", "operations"),
)
_NAMED: Final = Struct(
    NamedAssignment,
    row(
        "topic_partitions",
        Array(
            Struct(
                NamedNumbers,
                UUID("topic_id"),
                STRING("topic_name", "topic"),
                row("partitions", Array(INT32)),
            )
        ),
        "partitions",
    ),
)
_MEMBER: Final = Struct(
    ConsumerDescription,
    MEMBER,
    STRING("instance_id", "instance", nullable=0),
    STRING("rack_id", "rack", nullable=0),
    INT32("member_epoch", "epoch"),
    STRING("client_id"),
    STRING("client_host", "host"),
    row("subscribed_topic_names", Array(STRING), "topics"),
    STRING("subscribed_topic_regex", "pattern", nullable=0),
    row("assignment", _NAMED, "assigned"),
    row("target_assignment", _NAMED, "target"),
    INT8("member_type", "type", since=1),
)
_DESCRIBED: Final = Struct(
    ConsumerGroupDescription,
    ERROR,
    MESSAGE,
    GROUP,
    STRING("group_state", "state"),
    INT32("group_epoch", "epoch"),
    INT32("assignment_epoch", "target_epoch"),
    STRING("assignor_name", "assignor"),
    row("members", Array(_MEMBER, large=True)),
    INT32("authorized_operations", "operations"),
)
DESCRIBE_ANSWER: Final = Struct(ConsumerDescribeAnswer, throttle(), row("groups", Array(_DESCRIBED)))
