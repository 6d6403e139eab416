"""Escapes untrusted text for a terminal: names, ids, reasons, config values.

The result cannot move the cursor, change colours, begin a new line or reverse the direction of
writing. Different texts stay different after escaping, so that a misleading name is visible.
"""

from __future__ import annotations

import re
from typing import Final

_UNFIT: Final = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # controls: escape sequences begin with these, and lines end
    "\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"  # no width, line ends, directions of writing
    "\ud800-\udfff"  # halves of characters, which no output can encode
    "]"
)


def printable(text: str) -> str:
    r"""`text` with characters that a terminal would act on replaced by Python escapes.

    >>> printable("orders\x1b[2J")
    'orders\\x1b[2J'
    """
    return _UNFIT.sub(_escaped, text)


def escaped_json(line: str) -> str:
    r"""An equivalent line of JSON without characters that a terminal would act on.

    JSON itself escapes only characters below the space.
    """
    return _UNFIT.sub(lambda match: f"\\u{ord(match[0]):04x}", line)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
