"""Kafka's names for what a broker's settings say. Clients read them, and change none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from strandline.broker.kafka.configs.described import default_of, shown
from strandline.broker.kafka.configs.kinds import Kind
from strandline.broker.kafka.configs.topic_names import OWN, FixedConfig
from strandline.broker.kafka.wire.admin.configs import (
    BROKER_FILE,
    DEFAULT_VALUE,
    LOGGER,
    DescribedConfig,
    Synonym,
)
from strandline.config.services.broker import BrokerSettings
from strandline.vocabulary.metadata import Endpoint

PROTOCOL_VERSION: Final = "3.9"
"""Tools take it for the version of the brokers, and offer what such a version can do."""


@dataclass(frozen=True, slots=True)
class SettingName:
    """Kafka's name of one of the broker's settings."""

    name: str
    kind: Kind
    setting: str
    documentation: str


SETTINGS: Final = (
    SettingName("broker.id", Kind.INT, "broker_id", "The id of this broker."),
    SettingName("node.id", Kind.INT, "broker_id", "The id of this broker."),
    SettingName("broker.rack", Kind.STRING, "rack", "The rack of this broker."),
    SettingName("log.dirs", Kind.STRING, "data_dir", "Where this broker keeps its logs."),
    SettingName(
        "auto.create.topics.enable", Kind.BOOLEAN, "kafka_auto_create_topics",
        "Whether a client that asks for the metadata of an unknown topic has it created.",
    ),
    SettingName(
        "num.partitions", Kind.INT, "num_partitions",
        "Partitions of a new topic for which the client names no number.",
    ),
    SettingName(
        "default.replication.factor", Kind.INT, "default_replication_factor",
        "Replicas of a new topic for which the client names no number; fewer if fewer brokers are alive.",
    ),
    SettingName(
        "replica.lag.time.max.ms", Kind.LONG, "keep_in_sync_ms",
        "How long a replica in sync may stay behind before it leaves the replicas in sync.",
    ),
    SettingName(
        "socket.request.max.bytes", Kind.INT, "kafka_request_bytes_max", "The largest request of a client."
    ),
    SettingName(
        "fetch.max.bytes", Kind.INT, "kafka_fetch_bytes_max", "Records in one answer to a client."
    ),
    SettingName(
        "max.connections", Kind.INT, "kafka_connections_max", "Connections of clients to this broker."
    ),
    SettingName(
        "connections.max.idle.ms", Kind.LONG, "kafka_idle_ms_max", "Idle connections are closed after this."
    ),
    SettingName(
        "connections.max.reauth.ms", Kind.LONG, "connections_max_reauth_ms",
        "How long a login counts; clients renew it before. 0: as long as its connection.",
    ),
    SettingName(
        "sasl.enabled.mechanisms", Kind.LIST, "sasl_enabled_mechanisms",
        "How clients log in, on ports with SASL.",
    ),
    SettingName(
        "offsets.topic.num.partitions", Kind.INT, "offsets_topic_partitions",
        "Partitions of the topic of committed offsets, when it is created.",
    ),
    SettingName(
        "offsets.topic.replication.factor", Kind.SHORT, "offsets_topic_replication_factor",
        "Replicas of the topic of committed offsets; fewer if fewer brokers are alive when it is created.",
    ),
    SettingName(
        "offset.metadata.max.bytes", Kind.INT, "offset_metadata_bytes_max",
        "The largest metadata of a committed offset.",
    ),
    SettingName(
        "group.initial.rebalance.delay.ms", Kind.INT, "group_initial_rebalance_delay_ms",
        "How long an empty group waits for more members before its first generation.",
    ),
    SettingName(
        "group.min.session.timeout.ms", Kind.INT, "group_session_timeout_ms_min",
        "The shortest session timeout of a member.",
    ),
    SettingName(
        "group.max.session.timeout.ms", Kind.INT, "group_session_timeout_ms_max",
        "The longest session timeout of a member.",
    ),
    SettingName(
        "group.consumer.session.timeout.ms", Kind.INT, "group_consumer_session_timeout_ms",
        "How long a member whose coordinator assigns may be silent.",
    ),
    SettingName(
        "group.consumer.heartbeat.interval.ms", Kind.INT, "group_consumer_heartbeat_interval_ms",
        "How often such a member sends a heartbeat.",
    ),
    SettingName(
        "group.consumer.min.session.timeout.ms", Kind.INT, "group_consumer_session_timeout_ms_min",
        "The least consumer.session.timeout.ms of one group.",
    ),
    SettingName(
        "group.consumer.max.session.timeout.ms", Kind.INT, "group_consumer_session_timeout_ms_max",
        "The most consumer.session.timeout.ms of one group.",
    ),
    SettingName(
        "group.consumer.min.heartbeat.interval.ms", Kind.INT, "group_consumer_heartbeat_interval_ms_min",
        "The least consumer.heartbeat.interval.ms of one group.",
    ),
    SettingName(
        "group.consumer.max.heartbeat.interval.ms", Kind.INT, "group_consumer_heartbeat_interval_ms_max",
        "The most consumer.heartbeat.interval.ms of one group.",
    ),
    SettingName(
        "group.consumer.migration.policy", Kind.STRING, "group_consumer_migration_policy",
        "Whether groups change their protocol while they have members.",
    ),
    SettingName("group.max.size", Kind.INT, "group_members_max", "Members of one group."),
    SettingName(
        "producer.id.expiration.ms", Kind.INT, "producer_expiry_ms",
        "An idempotent producer that writes nothing for this long is forgotten.",
    ),
    SettingName(
        "log.retention.check.interval.ms", Kind.LONG, "retention_check_ms",
        "How often old segments are looked for.",
    ),
)  # fmt: skip

FIXED: Final = (
    FixedConfig(
        "inter.broker.protocol.version", Kind.STRING, PROTOCOL_VERSION,
        "Tools read a version here. This broker is strandline, and serves what ApiVersions says.",
    ),
    FixedConfig("delete.topic.enable", Kind.BOOLEAN, "true", "Topics can be deleted."),
    FixedConfig(
        "auto.leader.rebalance.enable", Kind.BOOLEAN, "true", "Leaderships move back to the first replica."
    ),
)  # fmt: skip


RETENTION: Final = "retention.ms"
HOUR_MS: Final = 3_600_000
"""Kafka has its default in hours, too: tools look for that name."""
ROOT_LOGGER: Final = "root"
KAFKA_LEVELS: Final = {"warning": "WARN"}
"""Levels that have another name in Kafka."""


def broker_configs(settings: BrokerSettings, own: Endpoint) -> Iterator[DescribedConfig]:
    """All configs of a broker; `own` has its addresses."""
    for each in SETTINGS:
        value = getattr(settings, each.setting)
        source = BROKER_FILE if each.setting in settings.model_fields_set else DEFAULT_VALUE
        yield _read_only(each.name, each.kind, shown(value), source, each.documentation)
    for fixed in FIXED:
        yield _read_only(fixed.name, fixed.kind, fixed.value, DEFAULT_VALUE, fixed.documentation)
    for topic in OWN:
        value = default_of(topic.name, settings.default_replication_factor)
        yield _read_only(topic.broker_name, topic.kind, value, DEFAULT_VALUE, topic.documentation)
        if topic.name == RETENTION:
            hours = shown(int(value) // HOUR_MS)
            yield _read_only("log.retention.hours", Kind.INT, hours, DEFAULT_VALUE, topic.documentation)
    protocol = settings.protocol_of("kafka_port")
    address = None if own.kafka is None else f"{protocol}://{own.kafka[0]}:{own.kafka[1]}"
    yield _read_only(
        "advertised.listeners", Kind.LIST, address, BROKER_FILE, "Where clients reach this broker."
    )


def logger_config(level: str) -> DescribedConfig:
    """The one logger of a broker, which has the level of its setting `log_level`, in Kafka's words."""
    documentation = "The least level of the lines in this broker's log."
    return _read_only(ROOT_LOGGER, Kind.STRING, KAFKA_LEVELS.get(level, level.upper()), LOGGER, documentation)


def _read_only(name: str, kind: Kind, value: str | None, source: int, documentation: str) -> DescribedConfig:
    return DescribedConfig(name, value, True, source, (Synonym(name, value, source),), kind, documentation)
