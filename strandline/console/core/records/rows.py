"""Records as rows of a page: keys, values and headers within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from strandline.console.core.records.asked import missing
from strandline.console.core.records.shown import As, ShownBytes, shown, visible
from strandline.records import RecordHeaders


@dataclass(frozen=True, slots=True)
class Bounds:
    """Characters and headers of one record that a page shows."""

    key_chars: int
    value_chars: int
    headers: int


IN_A_LIST: Final = Bounds(key_chars=300, value_chars=1_500, headers=10)
ALONE: Final = Bounds(key_chars=50_000, value_chars=250_000, headers=1_000)
NAME_CHARS: Final = 200
HEADER_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class HeaderRow:
    name: str
    value: ShownBytes
    number: int
    """Its place among the record's headers, from 0."""


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One record. `gap` says which offsets before it have no record."""

    offset: int
    timestamp_ms: int | None
    key: ShownBytes
    value: ShownBytes
    headers: tuple[HeaderRow, ...]
    headers_more: int
    size: int
    gap: str = ""


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """Offsets of which no record can be shown, and why."""

    offset: int
    message: str
    gap: str = ""


class Fields(NamedTuple):
    """A record as it was read. `timestamp` is in milliseconds since 1970, below 0 if it has none."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders

    @property
    def next_offset(self) -> int:
        return self.offset + 1

    @property
    def parts(self) -> tuple[bytes | None, ...]:
        """The key, the value, and the values of headers."""
        return (self.key, self.value, *(value for _, value in self.headers))

    @property
    def size(self) -> int:
        """The bytes of all parts."""
        return sum(len(part or b"") for part in self.parts)


def record_row(record: Fields, how: As, bounds: Bounds, gap: str = "") -> RecordRow:
    """A record within bounds."""
    headers = tuple(
        HeaderRow(visible(name[:NAME_CHARS]), shown(value, how, HEADER_CHARS), number)
        for number, (name, value) in enumerate(record.headers[: bounds.headers])
    )
    return RecordRow(
        record.offset,
        record.timestamp if record.timestamp >= 0 else None,
        shown(record.key, how, bounds.key_chars),
        shown(record.value, how, bounds.value_chars),
        headers,
        len(record.headers) - len(headers),
        record.size,
        gap,
    )


def gap_before(offset: int, rows: Sequence[tuple[int, int]], *, compacts: bool) -> str:
    """What is said before the record at `offset`, empty if nothing is; `rows` has the first offset and the
    end of each row before it."""
    if not rows or offset <= rows[-1][1]:
        return ""
    return missing(rows[-1][1], offset, compacts=compacts)
