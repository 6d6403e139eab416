"""Checked reads of untrusted JSON fields: each value must have its type and lie within its bounds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from strandline.errors import InvalidRequest, StrandlineError
from strandline.ids import BrokerId

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


class UnreadableJson(StrandlineError, ValueError):
    """The bytes are not JSON, or do not have the expected shape."""


def integer(value: Any, *, least: int = -1, most: int = INT64_MAX) -> int:
    """A whole number. Raises ValueError, also for a quoted number, a fraction or a boolean."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{_brief(value)} is not a whole number from {least} to {most}")
    return value


def broker_number(value: Any, *, least: int = -1) -> BrokerId:
    """The id of a broker; −1, if that is allowed, is none. Raises ValueError."""
    return BrokerId(integer(value, least=least, most=INT32_MAX))


def broker_numbers(values: Any, *, least: int = -1) -> tuple[BrokerId, ...]:
    """Raises ValueError, TypeError."""
    return tuple(broker_number(each, least=least) for each in values)


def text(value: Any) -> str:
    """A string. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"{_brief(value)} is not a text")
    return value


@contextmanager
def unreadable_as(kind: type[UnreadableJson], what: str, data: Any) -> Iterator[None]:
    """Raise any error in the decoding of `data` as an error of this kind, which names `what`. A value that
    no request may have cannot be read, either."""
    try:
        yield
    except RecursionError:
        raise kind(f"{what} is nested too deeply: {_brief(data)}") from None
    except KeyError as error:
        raise kind(f"{what} lacks {error!s:.200}: {_brief(data)}") from None
    except (ValueError, TypeError, IndexError, AttributeError, OverflowError, InvalidRequest) as error:
        raise kind(f"{what} cannot be read, {error!s:.200}: {_brief(data)}") from None


def parse(data: bytes | str) -> Any:
    """Decode JSON. Raises ValueError, RecursionError: for use within `unreadable_as`."""
    try:
        return json.loads(data if isinstance(data, str) else data.decode())  # else json guesses the encoding
    except ValueError as error:
        raise ValueError(f"it is not JSON ({error})") from None


def _brief(value: Any) -> str:
    """The beginning of a value, for a message. The value may be nested too deeply to be shown."""
    if isinstance(value, list | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return repr(value[:200]) if isinstance(value, bytes | str) else f"{value!r:.200}"
