"""Reads the topic configs that a Kafka client gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from strandline.broker.kafka.configs.kinds import canonical
from strandline.broker.kafka.configs.topic_names import (
    BY_NAME,
    FixedConfig,
    OwnConfig,
    TopicConfigName,
)
from strandline.errors import InvalidConfig, InvalidRequest
from strandline.ids import named_twice

CONFIGS_SHOWN: Final = ", ".join(sorted(BY_NAME))


def topic_config(given: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    """What strandline has to set of it. Raises InvalidConfig, InvalidRequest."""
    check_once(name for name, _ in given)
    own: dict[str, str] = {}
    for name, value in given:
        if value is None:
            raise InvalidConfig(f"topic config {name} has no value")
        own |= one_topic_config(name, value)
    return own


def check_once(names: Iterable[str]) -> None:
    """Raises InvalidRequest."""
    if (twice := named_twice(names)) is not None:
        raise InvalidRequest(f"topic config {twice} stands more than once in the request")


def known_config(name: str) -> TopicConfigName:
    """Raises InvalidConfig."""
    known = BY_NAME.get(name)
    if known is None:
        raise InvalidConfig(f"unknown topic config {name!r}; known are {CONFIGS_SHOWN}")
    return known


def one_topic_config(name: str, value: str) -> dict[str, str]:
    """Empty for a config whose value is true here anyway. Raises InvalidConfig."""
    known = known_config(name)
    text = canonical(name, known.kind, value)
    match known:
        case OwnConfig():
            return {name: text}
        case FixedConfig() if text != known.value:
            raise InvalidConfig(
                f"{name}={value!r}: strandline has {known.value!r} only. {known.documentation}"
            )
    return {}
