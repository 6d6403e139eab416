"""Records as JSON, one object a line: what `consume -o json` prints and the console exports."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from strandline.adapters.telemetry.terminal import escaped_json
from strandline.records import RecordHeaders

TEXT_CHARS_MAX: Final = 1 << 20
"""The longest text that is written as JSON at once."""


class AnyRecord(Protocol):
    """A record of a consumer. `timestamp` is in milliseconds since the Unix epoch."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> RecordHeaders: ...


def record_json(record: AnyRecord) -> dict[str, Any]:
    """A record as JSON; keys and values that are not UTF-8 are base64 and marked (`shown`)."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **shown("key", record.key),
        **shown("value", record.value),
        "headers": [{"key": name, **shown("value", value)} for name, value in record.headers],
    }


def shown(name: str, data: bytes | None) -> dict[str, str | None]:
    """`data` as JSON fields: text if it is UTF-8, otherwise base64 and a field `<name>_encoding` that says
    so.

    >>> shown("value", b"\\xff")
    {'value': '/w==', 'value_encoding': 'base64'}
    """
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {name: base64.b64encode(data).decode("ascii"), f"{name}_encoding": "base64"}


def json_line(value: Mapping[str, Any]) -> str:
    """A line of JSON without characters that a terminal would act on."""
    return f"{_json(value)}\n"


def json_pieces(value: Mapping[str, Any]) -> Iterator[str]:
    """`json_line(value)` in pieces. A text may be six times as long in JSON, so a long one is written part by
    part."""
    if _has_long_text(value):
        yield from _pieces(value)
        yield "\n"
    else:
        yield json_line(value)


def _pieces(value: object) -> Iterator[str]:
    match value:
        case str() if len(value) > TEXT_CHARS_MAX:
            yield '"'
            for start in range(0, len(value), TEXT_CHARS_MAX):
                yield _json(value[start : start + TEXT_CHARS_MAX])[1:-1]
            yield '"'
        case dict() if value:
            for number, (name, each) in enumerate(value.items()):
                yield f"{', ' if number else '{'}{_json(name)}: "
                yield from _pieces(each)
            yield "}"
        case list() if value:
            for number, each in enumerate(value):
                yield ", " if number else "["
                yield from _pieces(each)
            yield "]"
        case _:
            yield _json(value)


def _has_long_text(value: object) -> bool:
    match value:
        case str():
            return len(value) > TEXT_CHARS_MAX
        case dict():
            return any(map(_has_long_text, value.values()))
        case list():
            return any(map(_has_long_text, value))
        case _:
            return False


def _json(value: object) -> str:
    return escaped_json(json.dumps(value, ensure_ascii=False, separators=(", ", ": ")))
