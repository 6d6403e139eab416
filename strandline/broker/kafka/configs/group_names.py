"""The configs of a group as Kafka clients read and change them (KIP-848, KIP-1240)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from strandline.broker.kafka.configs.kinds import Kind
from strandline.broker.kafka.wire.admin.configs import (
    APPEND,
    BROKER_FILE,
    DEFAULT_VALUE,
    DELETE,
    GROUP_OWN,
    SET,
    SUBTRACT,
    ConfigChange,
    DescribedConfig,
    GivenConfig,
    Synonym,
)
from strandline.config.services.broker import BrokerSettings
from strandline.errors import InvalidConfig, InvalidRequest, UnknownServerError
from strandline.ids import named_twice
from strandline.vocabulary.configs.groups import (
    ASSIGNMENT_INTERVAL,
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    GroupConfig,
    GroupConfigAlteration,
)


class _Name(NamedTuple):
    name: str
    kind: Kind
    broker_name: str
    setting: str
    """The broker's setting that holds without it; empty: `value` is the one that there is."""
    value: str
    documentation: str


_NAMES: Final = (
    _Name(
        ASSIGNMENT_INTERVAL, Kind.INT, "group.consumer.assignment.interval.ms", "", "0",
        "0: the coordinator computes a target with each epoch of the group.",
    ),
    _Name(
        HEARTBEAT_INTERVAL, Kind.INT, "group.consumer.heartbeat.interval.ms",
        "group_consumer_heartbeat_interval_ms", "",
        "How often a member sends a heartbeat, in a group whose coordinator assigns.",
    ),
    _Name(
        SESSION_TIMEOUT, Kind.INT, "group.consumer.session.timeout.ms",
        "group_consumer_session_timeout_ms", "",
        "How long a member may be silent, in a group whose coordinator assigns.",
    ),
)  # fmt: skip


def group_configs(own: GroupConfig, settings: BrokerSettings) -> Iterator[DescribedConfig]:
    """All configs of a group that has these of its own. The one about threads may be set, and is not
    shown, as in Kafka."""
    for each in _NAMES:
        value = getattr(settings, each.setting) if each.setting else each.value
        source = BROKER_FILE if each.setting in settings.model_fields_set else DEFAULT_VALUE
        synonyms: tuple[Synonym, ...] = (Synonym(each.broker_name, str(value), source),)
        if each.name in own:
            synonyms = (Synonym(each.name, own[each.name], GROUP_OWN), *synonyms)
        first = synonyms[0]
        yield DescribedConfig(
            each.name, first.value, False, first.source, synonyms, each.kind, each.documentation
        )


def group_replacement(group: str, given: Sequence[GivenConfig]) -> GroupConfigAlteration:
    """The group shall have these configs, and no others. Raises InvalidRequest."""
    wanted: dict[str, str] = {}
    _check_once(group, [each.name for each in given])
    for name, value in given:
        if value is None:
            raise InvalidRequest(f"group config {name} has no value")
        wanted[name] = value
    return GroupConfigAlteration(group, wanted, replace=True)


def group_increment(group: str, changes: Sequence[ConfigChange]) -> GroupConfigAlteration:
    """Raises InvalidConfig, InvalidRequest; UnknownServerError for an unknown operation, as Kafka answers."""
    _check_once(group, [each.name for each in changes])
    wanted: dict[str, str] = {}
    for name, operation, value in changes:
        if operation == DELETE:
            continue
        if value is None:
            raise InvalidRequest(f"group config {name} has no value")
        if operation in (APPEND, SUBTRACT):
            raise InvalidConfig(f"group config {name} is no list: it can be set, and not added to")
        if operation != SET:
            raise UnknownServerError(f"group config {name}: operation {operation} is not known")
        wanted[name] = value
    unset = [each.name for each in changes if each.operation == DELETE]
    return GroupConfigAlteration(group, wanted, unset)


def _check_once(group: str, names: Sequence[str]) -> None:
    if (twice := named_twice(names)) is not None:
        raise InvalidRequest(f"group config {twice} stands more than once for group {group}")
