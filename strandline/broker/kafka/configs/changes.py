"""What a client's changes of topic configs mean for strandline, given the config that the topic has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from strandline.broker.kafka.configs.described import default_of
from strandline.broker.kafka.configs.given import check_once, known_config, one_topic_config, topic_config
from strandline.broker.kafka.configs.kinds import Kind
from strandline.broker.kafka.configs.topic_names import BROKER_THROTTLES, OwnConfig, TopicConfigName
from strandline.broker.kafka.wire.admin.configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    ConfigChange,
    GivenConfig,
)
from strandline.broker.metadata.topic_outlines import TopicOutline
from strandline.errors import InvalidConfig, InvalidRequest, UnknownServerError


@dataclass(slots=True)
class Alteration:
    """What is to be set and unset. What the topic has already is not set again: of internal topics, that
    would be refused."""

    set: dict[str, str] = field(default_factory=dict)
    unset: list[str] = field(default_factory=list)


def replacement(topic: TopicOutline, given: Sequence[GivenConfig]) -> Alteration:
    """The topic shall have these configs, and no others. Raises InvalidConfig, InvalidRequest."""
    if (absent := next((each.name for each in given if each.value is None), None)) is not None:
        raise InvalidRequest(f"topic config {absent} has no value")
    wanted = topic_config(given)
    return _without_needless(topic, Alteration(wanted, [name for name in topic.config if name not in wanted]))


def increment(topic: TopicOutline, changes: Sequence[ConfigChange]) -> Alteration:
    """A config that is not set may be deleted, also one whose name is not known: MirrorMaker does so with
    all configs of its source that have their defaults. Raises InvalidConfig, InvalidRequest."""
    alteration = Alteration()
    check_once(change.name for change in changes)
    for change in changes:
        if change.operation == DELETE:
            alteration.unset.append(change.name)
        else:
            value = _new_value(topic, known_config(change.name), change)
            alteration.set |= one_topic_config(change.name, value)
    return _without_needless(topic, alteration)


def check_broker_changes(changes: Sequence[ConfigChange] | None) -> None:
    """Throttles may be deleted, which no broker has: Kafka's tools do so after each reassignment. Raises
    InvalidRequest for any other change, and for a replacement of all configs (None)."""
    if changes is None or any(
        change.operation != DELETE or change.name not in BROKER_THROTTLES for change in changes
    ):
        raise InvalidRequest("a broker's configs are its settings: change those, and restart it")


def _new_value(topic: TopicOutline, known: TopicConfigName, change: ConfigChange) -> str:
    """Raises InvalidConfig, InvalidRequest; UnknownServerError for an unknown operation, as Kafka answers."""
    if change.value is None:
        raise InvalidRequest(f"topic config {change.name} has no value")
    if change.operation == SET:
        return change.value
    if change.operation not in (APPEND, SUBTRACT):
        raise UnknownServerError(f"topic config {change.name}: operation {change.operation} is not known")
    if known.kind is not Kind.LIST:
        raise InvalidConfig(f"topic config {change.name} is no list: it can be set, and not added to")
    given = [part.strip() for part in change.value.split(",")]
    now = [part for part in _value(topic, known).split(",") if part]
    if change.operation == APPEND:
        return ",".join([*now, *(part for part in given if part not in now)])
    return ",".join(part for part in now if part not in given)


def _value(topic: TopicOutline, known: TopicConfigName) -> str:
    if not isinstance(known, OwnConfig):
        return known.value
    return topic.config.get(known.name) or default_of(known.name, topic.replication_factor)


def _without_needless(topic: TopicOutline, alteration: Alteration) -> Alteration:
    return Alteration(
        {name: value for name, value in alteration.set.items() if topic.config.get(name) != value},
        [name for name in alteration.unset if name in topic.config],
    )
