"""CreateTopics, DeleteTopics and CreatePartitions."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from strandline.broker.kafka.wire.admin.configs import GIVEN_CONFIG, GivenConfig
from strandline.broker.kafka.wire.metadata import NO_TOPIC_ID
from strandline.broker.kafka.wire.table.rows import (
    BOOL,
    ERROR,
    INT8,
    INT16,
    INT32,
    MESSAGE,
    PARTITION,
    STRING,
    UUID,
    Array,
    Inline,
    Struct,
    row,
    throttle,
)

DEFAULT: Final = -1
"""A count that the broker chooses."""


# --- CreateTopics -----------------------------------------------------------------------------


class GivenReplicas(NamedTuple):
    """The brokers that shall have one partition."""

    partition: int
    brokers: tuple[int, ...]


class WantedTopic(NamedTuple):
    """`partitions` and `replication_factor` are -1 for the broker's defaults, or where replicas are given."""

    name: str
    partitions: int
    replication_factor: int
    assignments: tuple[GivenReplicas, ...] = ()
    configs: tuple[GivenConfig, ...] = ()


class CreateTopicsRequest(NamedTuple):
    topics: tuple[WantedTopic, ...]
    timeout_ms: int
    validate_only: bool = False


class CreatedConfig(NamedTuple):
    """`source` as in DescribeConfigs."""

    name: str
    value: str | None
    read_only: bool
    source: int
    sensitive: bool = False


class CreatedTopic(NamedTuple):
    """`configs` is None where the client may not see them."""

    name: str
    error: int = 0
    message: str | None = None
    topic_id: str = NO_TOPIC_ID
    partitions: int = -1
    replication_factor: int = -1
    configs: tuple[CreatedConfig, ...] | None = ()
    config_error: int = 0
    """Why the configs are not in the answer."""


class CreateTopicsAnswer(NamedTuple):
    topics: tuple[CreatedTopic, ...]


_GIVEN: Final = Struct(GivenReplicas, PARTITION, row("broker_ids", Array(INT32), "brokers"))
_WANTED: Final = Struct(
    WantedTopic,
    STRING("name"),
    INT32("num_partitions", "partitions"),
    INT16("replication_factor"),
    row("assignments", Array(_GIVEN)),
    row("configs", Array(GIVEN_CONFIG)),
)
CREATE_REQUEST: Final = Struct(
    CreateTopicsRequest, row("topics", Array(_WANTED)), INT32("timeout_ms"), BOOL("validate_only", since=1)
)
_CONFIG: Final = Struct(
    CreatedConfig,
    STRING("name"),
    STRING("value", nullable=5),
    BOOL("read_only"),
    INT8("config_source", "source"),
    BOOL("is_sensitive", "sensitive"),
)
_CREATED: Final = Struct(
    CreatedTopic,
    STRING("name"),
    UUID("topic_id", since=7),
    ERROR,
    STRING("error_message", "message", since=1, nullable=1),
    INT16("topic_config_error_code", "config_error", since=5, tag=0),
    INT32("num_partitions", "partitions", since=5),
    INT16("replication_factor", since=5),
    row("configs", Array(_CONFIG, large=True), since=5, nullable=5),
)
CREATE_ANSWER: Final = Struct(CreateTopicsAnswer, throttle(since=2), row("topics", Array(_CREATED)))


# --- DeleteTopics -----------------------------------------------------------------------------


class UnwantedTopic(NamedTuple):
    """A topic by its name, or by its id if the name is None."""

    name: str | None
    topic_id: str = NO_TOPIC_ID


class DeleteTopicsRequest(NamedTuple):
    topics: tuple[UnwantedTopic, ...]
    timeout_ms: int


class DeletedTopic(NamedTuple):
    """`name` is None only in answers about an id that no topic has."""

    name: str | None
    topic_id: str = NO_TOPIC_ID
    error: int = 0
    message: str | None = None


class DeleteTopicsAnswer(NamedTuple):
    topics: tuple[DeletedTopic, ...]


_UNWANTED: Final = Struct(UnwantedTopic, STRING("name", nullable=6), UUID("topic_id"))
_UNWANTED_NAME: Final = Inline(Struct(UnwantedTopic, STRING("name")))
DELETE_REQUEST: Final = Struct(
    DeleteTopicsRequest,
    row("topics", Array(_UNWANTED), since=6),
    row("topic_names", Array(_UNWANTED_NAME), "topics", until=5),
    INT32("timeout_ms"),
)
_DELETED: Final = Struct(
    DeletedTopic,
    STRING("name", nullable=6),
    UUID("topic_id", since=6),
    ERROR,
    STRING("error_message", "message", since=5, nullable=5),
)
DELETE_ANSWER: Final = Struct(
    DeleteTopicsAnswer, throttle(since=1), row("responses", Array(_DELETED), "topics")
)


# --- CreatePartitions -------------------------------------------------------------------------


class TopicGrowth(NamedTuple):
    """`total`: all partitions that the topic shall have; `assignments`: the brokers of each new one, or None
    to have them placed."""

    name: str
    total: int
    assignments: tuple[tuple[int, ...], ...] | None = None


class CreatePartitionsRequest(NamedTuple):
    topics: tuple[TopicGrowth, ...]
    timeout_ms: int
    validate_only: bool


class GrownTopic(NamedTuple):
    name: str
    error: int = 0
    message: str | None = None


class CreatePartitionsAnswer(NamedTuple):
    topics: tuple[GrownTopic, ...]


_ASSIGNMENT: Final[Struct[Any]] = Struct(None, row("broker_ids", Array(INT32)))
_GROWTH: Final = Struct(
    TopicGrowth, STRING("name"), INT32("count", "total"), row("assignments", Array(_ASSIGNMENT), nullable=0)
)
GROW_REQUEST: Final = Struct(
    CreatePartitionsRequest, row("topics", Array(_GROWTH)), INT32("timeout_ms"), BOOL("validate_only")
)
_GROWN: Final = Struct(GrownTopic, STRING("name"), ERROR, MESSAGE)
GROW_ANSWER: Final = Struct(CreatePartitionsAnswer, throttle(), row("results", Array(_GROWN), "topics"))
