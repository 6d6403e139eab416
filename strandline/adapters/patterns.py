"""Regular expressions that clients send, by RE2: matching takes time that is linear in the text, with any
pattern.

Python's own engine tries alternatives one after the other, for minutes with some patterns. They match whole
texts, as in Kafka's brokers.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import re2

from strandline.errors import InvalidRegularExpression

PATTERN_CHARS_MAX: Final = 1_000
PATTERN_MEMORY_BYTES_MAX: Final = 1 << 20
"""What RE2 may keep for one pattern: its program, and states that it has met."""
PATTERNS_KEPT_MAX: Final = 256
"""Compiled patterns that are kept."""


class Pattern:
    """Raises InvalidRegularExpression."""

    def __init__(self, text: str) -> None:
        if len(text) > PATTERN_CHARS_MAX:
            raise InvalidRegularExpression(
                f"a pattern of {len(text)} characters, more than {PATTERN_CHARS_MAX}", limit=PATTERN_CHARS_MAX
            )
        options = re2.Options()
        options.max_mem = PATTERN_MEMORY_BYTES_MAX
        options.log_errors = False
        try:
            self._compiled = re2.compile(text, options=options)
        except re2.error as error:
            (why,) = error.args
            said = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
            raise InvalidRegularExpression(f"pattern {text!r:.200} is none of RE2: {said}") from None

    def matches(self, text: str) -> bool:
        """Whether it matches the whole text."""
        return self._compiled.fullmatch(text) is not None


@lru_cache(PATTERNS_KEPT_MAX)
def pattern_of(text: str) -> Pattern:
    """Raises InvalidRegularExpression."""
    return Pattern(text)


def matching(text: str, names: Iterable[str]) -> tuple[str, ...]:
    """Those of these names that the pattern matches. Raises InvalidRegularExpression."""
    pattern = pattern_of(text)
    return tuple([name for name in names if pattern.matches(name)])
