"""Numbers, sizes and times as the pages write them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from strandline.report.text.durations import age
from strandline.report.text.sizes import size

UNKNOWN: Final = "unknown"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def bytes_(count: int | None) -> str:
    """A number of bytes, in units of a thousand.

    >>> bytes_(4_096), bytes_(None)
    ('4.1 kB', 'unknown')
    """
    return UNKNOWN if count is None else size(count)


def number(value: float | None) -> str:
    """A number with commas between thousands.

    >>> number(1234567), number(0.25), number(None)
    ('1,234,567', '0.2', 'unknown')
    """
    if value is None:
        return UNKNOWN
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def counted(count: int, noun: str, nouns: str = "") -> str:
    """A number with its noun.

    >>> counted(1, "partition"), counted(3_000, "partition"), counted(0, "copy", "copies")
    ('1 partition', '3,000 partitions', '0 copies')
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def listed(each: Iterable[object]) -> str:
    """Things with commas between them.

    >>> listed([1, 2]), listed([])
    ('1, 2', 'none')
    """
    return ", ".join(map(str, each)) or "none"


def per_s(rate: float | None) -> str:
    """A number for each second, with a decimal only where it counts.

    >>> per_s(52_000.4), per_s(0.25), per_s(0.0)
    ('52,000', '0.2', '0')
    """
    return number(rate if rate is not None and 0 < rate < 10 else None if rate is None else round(rate))


def duration(ms: int | None) -> str:
    """A time in its two largest units.

    >>> duration(61_000), duration(250)
    ('1 min 1 s', '0.2 s')
    """
    return age(ms) or UNKNOWN


def ago(at_ms: int | None, now_ms: int) -> str:
    """How long ago a moment was.

    >>> ago(1_000, 62_000), ago(5_000, 5_000)
    ('1 min 1 s ago', 'now')
    """
    if at_ms is None:
        return UNKNOWN
    return "now" if now_ms - at_ms < 1_000 else f"{duration(now_ms - at_ms)} ago"


def shown(text: str) -> str:
    """A name that any client may have chosen: characters that are not seen, or turn others, are marked.

    >>> shown("web\u202e1"), shown("a b")
    ('web�1', 'a b')
    """
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def utc(at_ms: int) -> str:
    """A moment in milliseconds since 1970 as ISO 8601 in UTC; the milliseconds alone after the year 9999.

    >>> utc(0), utc(1_709_210_096_123), utc(10**15)
    ('1970-01-01T00:00:00.000Z', '2024-02-29T12:34:56.123Z', '1000000000000000 ms')
    """
    try:
        at = _EPOCH + timedelta(milliseconds=at_ms)
    except OverflowError:
        return f"{at_ms} ms"
    return at.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def ms_of(text: str) -> int | None:
    """A moment in ISO 8601, in UTC if it names no zone, as milliseconds since 1970. None: it is no such time.

    >>> ms_of("1970-01-02"), ms_of("2024-02-29T12:34:56.123Z"), ms_of("1970-01-01T01:00+01:00"), ms_of("noon")
    (86400000, 1709210096123, 0, None)
    """
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    since = (at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH
    return since // timedelta(milliseconds=1) if since >= timedelta() else None
