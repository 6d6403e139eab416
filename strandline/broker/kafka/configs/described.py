"""The configs of a topic as Kafka clients read them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from strandline.broker.kafka.configs.topic_names import BY_NAME, OWN, REMOVED, OwnConfig, TopicConfigName
from strandline.broker.kafka.wire.admin.configs import DEFAULT_VALUE, TOPIC_OWN, DescribedConfig, Synonym
from strandline.broker.metadata.topic_outlines import TopicOutline
from strandline.vocabulary.topic_config import TopicConfig


def shown(value: Any) -> str:
    """A value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


UNSET_IN_KAFKA: Final = frozenset({"log.retention.ms", "log.roll.ms", "log.flush.interval.ms"})
"""Configs of a broker whose defaults Kafka has under other names, in other units: they are no synonyms."""
MIN_INSYNC: Final = "min.insync.replicas"


def default_of(name: str, replication_factor: int) -> str:
    """The default of one of strandline's configs, for a topic with this number of replicas."""
    if name == MIN_INSYNC:
        return shown(TopicConfig().min_insync(replication_factor))
    return _defaults()[name]


@cache
def _defaults() -> dict[str, str]:
    """Not made at import: a first `TopicConfig` costs a broker's start some 20 ms."""
    defaults = TopicConfig()
    return {each.name: shown(getattr(defaults, each.name.replace(".", "_"))) for each in OWN}


def topic_configs(topic: TopicOutline) -> Iterator[DescribedConfig]:
    """All configs that Kafka has, with synonyms and documentation."""
    return (_described(known, topic) for known in BY_NAME.values() if known.name not in REMOVED)


def _described(known: TopicConfigName, topic: TopicOutline) -> DescribedConfig:
    if not isinstance(known, OwnConfig):
        fixed = Synonym(known.name, known.value, DEFAULT_VALUE)
        return _config(known, (fixed,))
    default = Synonym(known.broker_name, default_of(known.name, topic.replication_factor), DEFAULT_VALUE)
    own = topic.config.get(known.name)
    synonyms = (default,) if own is None else (Synonym(known.name, own, TOPIC_OWN), default)
    found = _config(known, synonyms)
    if known.broker_name in UNSET_IN_KAFKA:
        return found._replace(synonyms=synonyms[:-1])
    return found


def _config(known: TopicConfigName, synonyms: tuple[Synonym, ...]) -> DescribedConfig:
    """The first synonym has the value in force. None is read-only: each can be set, some to one value."""
    first = synonyms[0]
    return DescribedConfig(
        known.name, first.value, False, first.source, synonyms, known.kind, known.documentation
    )
