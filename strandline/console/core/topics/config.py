"""A topic's config: every setting with its value, its default, and where the value comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pydantic.fields import FieldInfo

from strandline.console.core.words import bytes_, duration
from strandline.errors import InvalidConfig
from strandline.vocabulary.topic_config import TopicConfig

NEVER: Final = 2**63 - 1
MIN_INSYNC: Final = "min.insync.replicas"
_FIELDS: Final[Mapping[str, FieldInfo]] = {
    field.alias or name: field for name, field in TopicConfig.model_fields.items()
}


class Source(Enum):
    """Where a value comes from. There are no defaults of brokers: each topic has a value of its own, or that
    of strandline."""

    TOPIC = "this topic"
    DEFAULT = "default"
    REPLICAS = "default for its number of replicas"


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """One setting. `words` says a value in milliseconds or bytes for people; empty if it needs none."""

    name: str
    value: str
    words: str
    default: str
    source: Source
    allowed: str = ""

    @property
    def is_set(self) -> bool:
        return self.source is Source.TOPIC


def config_rows(config: Mapping[str, str], replication_factor: int) -> list[ConfigRow]:
    """Every setting of a topic with these overrides, by name. An override that only a later version knows
    has no default here."""
    rows = [_row(name, field, config, replication_factor) for name, field in _FIELDS.items()]
    rows += [
        ConfigRow(name, value, "", "not known here", Source.TOPIC)
        for name, value in config.items()
        if name not in _FIELDS
    ]
    return sorted(rows, key=lambda row: row.name)


def names() -> list[str]:
    """The settings that a topic may have, by name."""
    return sorted(_FIELDS)


def value_of(name: str, config: Mapping[str, str], replication_factor: int) -> str:
    """The value in force. Raises InvalidConfig for an unknown name."""
    if name not in _FIELDS and name not in config:
        raise InvalidConfig(f"unknown topic config {name!r}; known are {', '.join(names())}")
    return config.get(name) or default_of(name, replication_factor)


def default_of(name: str, replication_factor: int) -> str:
    """The value of a setting that the topic does not set; a name that is not known has none."""
    field = _FIELDS.get(name)
    if field is None:
        return ""
    if name == MIN_INSYNC:
        return str(TopicConfig().min_insync(replication_factor))
    return str(field.default).lower() if isinstance(field.default, bool) else str(field.default)


def words_of(name: str, value: str) -> str:
    """A value for people: "7 d", "1.0 MB", "never"; empty if it is clear as it is.

    >>> words_of("retention.ms", "604800000"), words_of("retention.bytes", "-1"), words_of("flush.ms", "7")
    ('7 d', 'no limit', '')
    """
    try:
        number = int(value)
    except ValueError:
        return ""
    if number == NEVER:
        return "never"
    if number == -1 and name.startswith("retention."):
        return "no limit"
    if name.endswith(".ms"):
        return duration(number) if number >= 1_000 else ""
    return bytes_(number) if name.endswith(".bytes") and number >= 1_000 else ""


def _row(name: str, field: FieldInfo, config: Mapping[str, str], replication_factor: int) -> ConfigRow:
    default = default_of(name, replication_factor)
    value = config.get(name, default)
    source = Source.TOPIC if name in config else Source.REPLICAS if name == MIN_INSYNC else Source.DEFAULT
    return ConfigRow(name, value, words_of(name, value), default, source, _allowed(field))


def _allowed(field: FieldInfo) -> str:
    bounds = {
        name: bound
        for each in field.metadata
        for name in ("ge", "le", "pattern")
        if (bound := getattr(each, name, None)) is not None
    }
    if "pattern" in bounds:
        return str(bounds["pattern"]).strip("^$()").replace("|", " or ")
    if field.annotation is bool:
        return "true or false"
    if "le" in bounds:
        return f"{bounds['ge']} to {bounds['le']}"
    return f"at least {bounds['ge']}" if "ge" in bounds else ""
