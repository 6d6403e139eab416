"""Numbers, sizes and times as the pages write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from strandline.report.text.durations import age
from strandline.report.text.sizes import size

UNKNOWN: Final = "unknown"
_ISO: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?(Z|[+-]\d\d:?\d\d)?", re.ASCII
)


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
    """A moment in milliseconds since 1970 as ISO 8601 in UTC.

    The days are counted as in https://howardhinnant.github.io/date_algorithms.html (civil_from_days).

    >>> utc(0), utc(1_709_210_096_123)
    ('1970-01-01T00:00:00.000Z', '2024-02-29T12:34:56.123Z')
    """
    days, ms = divmod(at_ms, 86_400_000)
    era, of_era = divmod(days + 719_468, 146_097)
    year_of_era = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (month <= 2)
    hour, ms = divmod(ms, 3_600_000)
    minute, ms = divmod(ms, 60_000)
    second, ms = divmod(ms, 1_000)
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"


def ms_of(text: str) -> int | None:
    """A moment in ISO 8601, in UTC if it names no zone, as milliseconds since 1970. None: it is no such time.

    >>> ms_of("1970-01-02"), ms_of("2024-02-29T12:34:56.123Z"), ms_of("1970-01-01T01:00+01:00"), ms_of("noon")
    (86400000, 1709210096123, 0, None)
    """
    found = _ISO.fullmatch(text.strip())
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found[each] or 0) for each in range(1, 7))
    shifted = (month + 9) % 12
    of_year = year - (month <= 2)
    era, year_of_era = divmod(of_year, 400)
    day_of_year = (153 * shifted + 2) // 5 + day - 1
    days = era * 146_097 + 365 * year_of_era + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468
    ms = int((found[7] or "").ljust(3, "0")[:3])
    at_ms = 1_000 * (((days * 24 + hour) * 60 + minute) * 60 + second) + ms
    exact = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}."
    if not utc(at_ms).startswith(exact):  # a 30th of February, an hour 25
        return None
    if found[8] and found[8] != "Z":
        ahead = int(found[8][1:3]) * 60 + int(found[8][-2:])
        at_ms -= 60_000 * (ahead if found[8][0] == "+" else -ahead)
    return at_ms if at_ms >= 0 else None
