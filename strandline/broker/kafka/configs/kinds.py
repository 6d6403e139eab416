"""The types of configs, with Kafka's numbers, and which text is a value of one."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from strandline.errors import InvalidConfig

_INT64_MAX: Final = 2**63 - 1
_INT_MAX: Final = {"INT": 2**31 - 1, "SHORT": 2**15 - 1, "LONG": _INT64_MAX}


class Kind(IntEnum):
    """The type of a config's value, as DescribeConfigs names it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


def canonical(name: str, kind: Kind, text: str) -> str:
    """The value as it is stored and compared. Raises InvalidConfig."""
    value = text.strip()
    match kind:
        case Kind.BOOLEAN:
            value = value.lower()
            if value not in ("true", "false"):
                raise InvalidConfig(f"{name}={text!r}: give true or false")
        case Kind.INT | Kind.SHORT | Kind.LONG:
            bound = _INT_MAX[kind.name]
            number = _whole(value)
            if number is None or not -bound - 1 <= number <= bound:
                raise InvalidConfig(
                    f"{name}={text!r} is no whole number of Kafka's type {kind.name}: {-bound - 1} to {bound}"
                )
            value = str(number)
        case Kind.LIST:
            value = ",".join(part.strip() for part in value.split(","))
    return value


def _whole(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 20 else None
