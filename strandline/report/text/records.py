"""Records as JSON, one object a line: what `consume -o json` prints and the console exports."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Protocol

from strandline.adapters.telemetry.terminal import escaped_json
from strandline.records import RecordHeaders


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
    return escaped_json(json.dumps(value, ensure_ascii=False, separators=(", ", ": "))) + "\n"
