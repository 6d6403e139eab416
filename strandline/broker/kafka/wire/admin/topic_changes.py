"""CreateTopics, DeleteTopics and CreatePartitions."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.admin.configs import CONFIG_BYTES_MIN, GivenConfig, read_given_config
from strandline.broker.kafka.wire.fields import Reader, Steps, Tagged, Writer
from strandline.broker.kafka.wire.metadata import NO_TOPIC_ID

DEFAULT: Final = -1
"""A count that the broker chooses."""

_ASSIGNMENT_BYTES_MIN: Final = 5
_NEW_TOPIC_BYTES_MIN: Final = 9
_GROWTH_BYTES_MIN: Final = 6

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
    """`configs` is None for a topic that was refused."""

    name: str
    error: int = 0
    message: str | None = None
    topic_id: str = NO_TOPIC_ID
    partitions: int = -1
    replication_factor: int = -1
    configs: tuple[CreatedConfig, ...] | None = None
    config_error: int = 0
    """Why the configs are not in the answer."""


class CreateTopicsAnswer(NamedTuple):
    topics: tuple[CreatedTopic, ...]


def read_create_topics(reader: Reader, version: int) -> CreateTopicsRequest:
    topics = reader.array(_read_wanted_topic, bytes_min=_NEW_TOPIC_BYTES_MIN)
    return CreateTopicsRequest(topics, reader.int32(), reader.boolean() if version >= 1 else False)


def _read_wanted_topic(reader: Reader) -> WantedTopic:
    topic = WantedTopic(
        reader.string(),
        reader.int32(),
        reader.int16(),
        reader.array(_read_given_replicas, bytes_min=_ASSIGNMENT_BYTES_MIN),
        reader.array(read_given_config, bytes_min=CONFIG_BYTES_MIN),
    )
    reader.tags()
    return topic


def _read_given_replicas(reader: Reader) -> GivenReplicas:
    given = GivenReplicas(reader.int32(), reader.array(Reader.int32, bytes_min=4))
    reader.tags()
    return given


def _config_error_tags(error: int) -> list[Tagged]:
    if not error:
        return []
    field = Writer(flexible=True)
    field.int16(error)
    return [(0, field)]


def write_create_topics(writer: Writer, answer: CreateTopicsAnswer, version: int) -> Steps:
    def write_config(config: CreatedConfig) -> None:
        writer.string(config.name)
        writer.string(config.value)
        writer.boolean(config.read_only)
        writer.int8(config.source)
        writer.boolean(config.sensitive)
        writer.tags()

    if version >= 2:
        writer.throttle_time()
    writer.length(len(answer.topics))
    for topic in answer.topics:
        writer.string(topic.name)
        if version >= 7:
            writer.uuid(topic.topic_id)
        writer.int16(topic.error)
        if version >= 1:
            writer.string(topic.message)
        if version >= 5:
            writer.int32(topic.partitions)
            writer.int16(topic.replication_factor)
            writer.array(topic.configs, write_config)
        writer.tags(_config_error_tags(topic.config_error))
        yield
    writer.tags()


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


def read_delete_topics(reader: Reader, version: int) -> DeleteTopicsRequest:
    def read_topic(reader: Reader) -> UnwantedTopic:
        topic = UnwantedTopic(reader.nullable_string(), reader.uuid())
        reader.tags()
        return topic

    def read_name(reader: Reader) -> UnwantedTopic:
        return UnwantedTopic(reader.string())

    if version >= 6:
        topics = reader.array(read_topic, bytes_min=17)
    else:
        topics = reader.array(read_name, bytes_min=1)
    return DeleteTopicsRequest(topics, reader.int32())


def write_delete_topics(writer: Writer, answer: DeleteTopicsAnswer, version: int) -> None:
    def write_topic(topic: DeletedTopic) -> None:
        writer.string(topic.name if version >= 6 else topic.name or "")
        if version >= 6:
            writer.uuid(topic.topic_id)
        writer.int16(topic.error)
        if version >= 5:
            writer.string(topic.message)
        writer.tags()

    if version >= 1:
        writer.throttle_time()
    writer.array(answer.topics, write_topic)
    writer.tags()


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


def read_create_partitions(reader: Reader, version: int) -> CreatePartitionsRequest:
    def read_assignment(reader: Reader) -> tuple[int, ...]:
        brokers = reader.array(Reader.int32, bytes_min=4)
        reader.tags()
        return brokers

    def read_topic(reader: Reader) -> TopicGrowth:
        topic = TopicGrowth(
            reader.string(), reader.int32(), reader.nullable_array(read_assignment, bytes_min=1)
        )
        reader.tags()
        return topic

    topics = reader.array(read_topic, bytes_min=_GROWTH_BYTES_MIN)
    return CreatePartitionsRequest(topics, reader.int32(), reader.boolean())


def write_create_partitions(writer: Writer, answer: CreatePartitionsAnswer, version: int) -> None:
    def write_topic(topic: GrownTopic) -> None:
        writer.string(topic.name)
        writer.int16(topic.error)
        writer.string(topic.message)
        writer.tags()

    writer.throttle_time()
    writer.array(answer.topics, write_topic)
    writer.tags()
