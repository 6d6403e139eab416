"""The configs of one group, under Kafka's names: what it has instead of the brokers' settings (KIP-848).

Only groups whose coordinator assigns go by them. Kafka has more names, for share groups and for groups of
Kafka Streams: there are none here, so those names are refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from strandline.config.limits import GROUP_ID_LENGTH_MAX
from strandline.errors import InvalidConfig, InvalidRequest, StrandlineError
from strandline.vocabulary.parsing.typed_json import INT32_MAX

if TYPE_CHECKING:
    from strandline.config.services.groups import ConsumerGroupSettings

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"
ASSIGNOR_OFFLOAD: Final = "consumer.assignor.offload.enable"
NAMES: Final = (ASSIGNMENT_INTERVAL, ASSIGNOR_OFFLOAD, HEARTBEAT_INTERVAL, SESSION_TIMEOUT)
OTHERS: Final = {
    "share.": "there are no share groups",
    "errors.deadletterqueue.": "there are no share groups",
    "streams.": "Kafka Streams has groups of the classic protocol",
}
"""How names begin that Kafka has for other groups, and why there are none of them."""

DIGITS_MAX: Final = 10
_WHOLE: Final = re.compile(f"[+-]?[0-9]{{1,{DIGITS_MAX}}}")
_SHOWN_MAX: Final = 64

GroupConfig = Mapping[str, str]
"""What one group has of its own, as text. An empty one is none."""


@dataclass(frozen=True, slots=True)
class GroupConfigAlteration:
    """A change of what one group has of its own. `replace`: it has nothing else afterwards."""

    group: str
    set: Mapping[str, str] = field(default_factory=dict)
    unset: Collection[str] = ()
    replace: bool = False


@dataclass(frozen=True, slots=True)
class AlterGroupConfigs:
    alterations: tuple[GroupConfigAlteration, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class GroupConfigResult:
    """The outcome for one group of a request."""

    group: str
    error: StrandlineError | None = None


@dataclass(frozen=True, slots=True)
class GroupConfigs:
    """What one group has of its own."""

    group: str
    config: GroupConfig = field(default_factory=dict)
    error: StrandlineError | None = None


NONE: Final[GroupConfig] = {}


class Bounds(NamedTuple):
    """In ms."""

    default: int
    least: int
    most: int

    def within(self, value: int) -> int:
        """The value, or the bound that is next to it: bounds may be others than when it was set."""
        return min(max(value, self.least), self.most)


class Times(NamedTuple):
    """How long a member of one group may be silent, and how often it is to send a heartbeat, in ms."""

    session_timeout_ms: int
    heartbeat_interval_ms: int


class GroupBounds(NamedTuple):
    """The settings that the configs of groups stand for."""

    session_timeout: Bounds
    heartbeat_interval: Bounds

    @classmethod
    def of(cls, settings: ConsumerGroupSettings) -> Self:
        return cls(
            Bounds(
                settings.group_consumer_session_timeout_ms,
                settings.group_consumer_session_timeout_ms_min,
                settings.group_consumer_session_timeout_ms_max,
            ),
            Bounds(
                settings.group_consumer_heartbeat_interval_ms,
                settings.group_consumer_heartbeat_interval_ms_min,
                settings.group_consumer_heartbeat_interval_ms_max,
            ),
        )

    def times(self, config: GroupConfig) -> Times:
        """Those in force in a group with this config, which was checked when it was set."""
        session, interval = config.get(SESSION_TIMEOUT), config.get(HEARTBEAT_INTERVAL)
        return Times(
            self.session_timeout.default if session is None else self.session_timeout.within(int(session)),
            self.heartbeat_interval.default
            if interval is None
            else self.heartbeat_interval.within(int(interval)),
        )


class KnownGroupConfigs:
    """The configs of all groups, as a broker has read them last."""

    def __init__(self) -> None:
        self.found: Mapping[str, GroupConfig] = {}

    def take(self, found: Mapping[str, GroupConfig]) -> None:
        self.found = found

    def of(self, group: str) -> GroupConfig:
        return self.found.get(group, NONE)


def check_name(group: str) -> None:
    """Raises InvalidRequest."""
    if not group:
        raise InvalidRequest("a group has a name: there are no configs of all groups")
    if len(group) > GROUP_ID_LENGTH_MAX:
        raise InvalidRequest(f"a group's name has at most {GROUP_ID_LENGTH_MAX} characters")


def check_stored(config: GroupConfig) -> GroupConfig:
    """What ZooKeeper has: names of other versions are kept, and change nothing. Raises ValueError."""
    for name in (SESSION_TIMEOUT, HEARTBEAT_INTERVAL):
        value = config.get(name, "0")
        if not (value.isascii() and value.isdigit() and len(value) <= DIGITS_MAX):
            raise ValueError(f"{name} is no whole number")
    return config


def altered(
    before: GroupConfig, given: GroupConfig, unset: Collection[str], bounds: GroupBounds, *, replace: bool
) -> dict[str, str]:
    """What a group has after a change. A name that is unset may be any, as in Kafka. `replace`: it has
    nothing else. Raises InvalidConfig for what Kafka refuses, and for what would change nothing here."""
    if both := [name for name in given if name in unset]:
        raise InvalidConfig(f"group config {both[0]!r} is to be set and unset at once")
    checked = {name: text for name, value in given.items() if (text := _checked(name, value, bounds))}
    kept = {} if replace else {name: value for name, value in before.items() if name not in unset}
    after = {**kept, **checked}
    session, interval = (
        int(after.get(name, default))
        for name, default in (
            (SESSION_TIMEOUT, bounds.session_timeout.default),
            (HEARTBEAT_INTERVAL, bounds.heartbeat_interval.default),
        )
    )
    if after and session <= interval:
        raise InvalidConfig(
            f"{SESSION_TIMEOUT} = {session} has to be more than {HEARTBEAT_INTERVAL} = {interval}"
        )
    return after


def _checked(name: str, text: str, bounds: GroupBounds) -> str:
    """The value as it is kept; empty for one that is true here anyway. Raises InvalidConfig."""
    match name:
        case "consumer.session.timeout.ms":
            return _within(name, text, bounds.session_timeout)
        case "consumer.heartbeat.interval.ms":
            return _within(name, text, bounds.heartbeat_interval)
        case "consumer.assignment.interval.ms":
            if _whole(name, text) != 0:
                raise InvalidConfig(f"{name}={_shown(text)}: give 0, targets are computed with each epoch")
            return ""
        case "consumer.assignor.offload.enable":
            if text.strip().lower() not in ("true", "false"):
                raise InvalidConfig(f"{name}={_shown(text)}: give true or false, it changes nothing here")
            return ""
    why = next((f": {why}" for start, why in OTHERS.items() if name.startswith(start)), "")
    raise InvalidConfig(f"unknown group config {_shown(name)}{why}; known are {', '.join(NAMES)}")


def _within(name: str, text: str, bounds: Bounds) -> str:
    value = _whole(name, text)
    if not bounds.least <= value <= bounds.most:
        raise InvalidConfig(
            f"{name}={value} is not between {bounds.least} and {bounds.most}",
            limit=bounds.most if value > bounds.most else bounds.least,
        )
    return str(value)


def _whole(name: str, text: str) -> int:
    digits = text.strip()
    if not _WHOLE.fullmatch(digits) or not -INT32_MAX - 1 <= int(digits) <= INT32_MAX:
        raise InvalidConfig(f"{name}={_shown(text)} is no whole number of 32 bits")
    return int(digits)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…")
