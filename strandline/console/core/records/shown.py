"""Bytes of a record for a page: as text, as JSON, or as a hex dump, within bounds.

The result is text that a browser may show once HTML is escaped: it has no control character, no change of the
direction of writing, and no half of a character.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

JSON_BYTES_MAX: Final = 256 * 1024
"""Larger values are not parsed, and shown as text."""
HEX_COLUMNS: Final = 16
INDENT_LEVELS_MAX: Final = 32
"""Deeper levels of JSON are not indented further: a few bytes could ask for gigabytes of spaces."""

_UNFIT: Final = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but tabs and line ends
    "\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"  # no width, line ends, directions of writing
    "\ud800-\udfff"
    "]"
)
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


class As(StrEnum):
    """How bytes are shown. AUTO: the first of JSON (an object or a list), text and hex that fits."""

    AUTO = "auto"
    TEXT = "text"
    JSON = "json"
    HEX = "hex"


@dataclass(frozen=True, slots=True)
class ShownBytes:
    """`size`: of all bytes; `cut`: only a first part of them is in `text`."""

    kind: str
    """text, json, hex, empty (no bytes), or null (a key that was not given, a tombstone)."""
    text: str
    size: int
    cut: bool = False
    note: str = ""
    """Why it is not shown as it was asked for."""


def shown(data: bytes | None, how: As, chars_max: int) -> ShownBytes:
    """`data` in at most about `chars_max` characters."""
    if data is None:
        return ShownBytes("null", "", 0)
    if not data:
        return ShownBytes("empty", "", 0)
    if how is As.HEX:
        return _hex(data, chars_max)
    if how is As.AUTO and b"\0" in data[: 4 * chars_max]:
        return _hex(data, chars_max)
    note = ""
    if how in (As.AUTO, As.JSON):
        pretty = _json(data, chars_max)
        if pretty is not None and (how is As.JSON or data.lstrip()[:1] in (b"{", b"[")):
            return pretty
        note = "" if how is As.AUTO else "not JSON" if len(data) <= JSON_BYTES_MAX else "too large for JSON"
    try:
        return _text(_decoded(data, chars_max), data, chars_max, note)
    except UnicodeDecodeError:
        if how is As.AUTO:
            return _hex(data, chars_max)
    replaced = data[: 4 * chars_max].decode(errors="replace")
    return _text(
        replaced, data, chars_max, "not UTF-8: each \N{REPLACEMENT CHARACTER} stands for other bytes"
    )


def visible(text: str) -> str:
    r"""`text` with characters that a page would act on, or not show, replaced by Python escapes.

    >>> visible("a\u202eb\x1b")
    'a\\u202eb\\x1b'
    """
    return _UNFIT.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def _decoded(data: bytes, chars_max: int) -> str:
    """The first characters. Raises UnicodeDecodeError if any byte of them is not UTF-8."""
    if len(data) <= 4 * chars_max:
        return data.decode()
    try:
        return data[: 4 * chars_max].decode()
    except UnicodeDecodeError as error:
        if error.start < 4 * chars_max - 3:
            raise
        return data[: error.start].decode()  # the cut is within a character


def _text(text: str, data: bytes, chars_max: int, note: str) -> ShownBytes:
    cut = len(text) > chars_max or len(data) > 4 * chars_max
    return ShownBytes("text", visible(text[:chars_max]), len(data), cut, note)


def _json(data: bytes, chars_max: int) -> ShownBytes | None:
    """The same JSON with indentation; numbers and strings stay as they were written. None: it is not JSON."""
    if len(data) > JSON_BYTES_MAX:
        return None
    try:
        text = data.decode()
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    parts: list[str] = []
    length = level = 0
    after = ""
    for token in _TOKEN.findall(text):
        closes = token in "}]"
        level -= closes
        opened, after = after in ("{", "["), token
        part = token
        if (closes and not opened) or (not closes and opened):
            part = _line(level) + token
        if token == ",":
            part = token + _line(level)
        elif token == ":":
            part = ": "
        level += token in "{["
        parts.append(part)
        length += len(part)
        if length > chars_max:
            break
    pretty = "".join(parts)
    return ShownBytes("json", visible(pretty[:chars_max]), len(data), len(pretty) > chars_max)


def _line(level: int) -> str:
    return "\n" + "  " * min(level, INDENT_LEVELS_MAX)


def _hex(data: bytes, chars_max: int) -> ShownBytes:
    rows = max(1, chars_max // (5 * HEX_COLUMNS))
    lines = []
    for start in range(0, min(len(data), rows * HEX_COLUMNS), HEX_COLUMNS):
        part = data[start : start + HEX_COLUMNS]
        letters = "".join(chr(each) if 0x20 <= each < 0x7F else "." for each in part)
        lines.append(f"{start:08x}  {part.hex(' '):<{3 * HEX_COLUMNS - 1}}  {letters}")
    return ShownBytes("hex", "\n".join(lines), len(data), len(data) > rows * HEX_COLUMNS)
