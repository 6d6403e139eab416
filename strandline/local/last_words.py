"""The line of a process's log that says most about its state, in words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

WORDS_CHARS_MAX: Final = 300
_NOT_SHOWN: Final = frozenset({"event", "level", "timestamp", "logger", "exception"})
_FAREWELL: Final = "Exiting JVM"
"""Java's last line says less than the exception before it."""


def last_words(log: Iterable[str]) -> str:
    """The last line that tells something, at most WORDS_CHARS_MAX characters; empty without such a line.

    Lines of a traceback tell nothing by themselves, its end does. A line of JSON becomes its event, with its
    other fields in parentheses:

    >>> last_words(['{"seconds": 20.1, "event": "waiting for ZooKeeper", "level": "warning"}', ""])
    'waiting for ZooKeeper (seconds 20.1)'
    """
    telling = ""
    for line in log:
        if line.strip() and not line[0].isspace() and _FAREWELL not in line:
            telling = line
    words = _in_words(telling)
    return words if len(words) <= WORDS_CHARS_MAX else f"{words[: WORDS_CHARS_MAX - 1]}…"


def _in_words(line: str) -> str:
    try:
        fields = json.loads(line)
    except ValueError:
        return line.strip()
    if not isinstance(fields, Mapping) or "event" not in fields:
        return line.strip()
    shown = ", ".join(f"{name} {_plain(value)}" for name, value in fields.items() if name not in _NOT_SHOWN)
    return f"{fields['event']} ({shown})" if shown else str(fields["event"])


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
