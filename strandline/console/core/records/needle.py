"""What a search looks for in records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from strandline.errors import InvalidRequest

NEEDLE_BYTES_MAX: Final = 1_000
RECORDS_MAX: Final = 1_000_000
"""The last records of a partition that one search may read."""
HITS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Needle:
    """Bytes that a key, a value, or the value of a header contains."""

    data: bytes

    @classmethod
    def read(cls, text: str, hexadecimal: str) -> Needle:
        """From text, as UTF-8, or from hexadecimal digits. Raises InvalidRequest."""
        if bool(text) == bool(hexadecimal):
            raise InvalidRequest("give either text or bytes to search for")
        try:
            data = text.encode() if text else bytes.fromhex(hexadecimal)
        except ValueError:
            raise InvalidRequest(f"bytes = {hexadecimal[:50]!r}: give pairs of hexadecimal digits") from None
        if not data or len(data) > NEEDLE_BYTES_MAX:
            raise InvalidRequest(f"the search is for {len(data)} bytes: give 1 to {NEEDLE_BYTES_MAX}")
        return cls(data)

    def is_in(self, parts: Iterable[bytes | None]) -> bool:
        """Whether one of these contains the bytes."""
        return any(part is not None and self.data in part for part in parts)


WINDOW_FIRST: Final = 50
WINDOW_MAX: Final = 50_000
"""Offsets that a search reads at once."""
WINDOW_FACTOR: Final = 4


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is: it reads from `end` back to `start`, and has searched the offsets from `at` on.

    A log can only be read forwards, so it reads a window of offsets at once, at most `window` of them: more
    after one that cost little, less after one that cost too much."""

    start: int
    at: int
    end: int
    hits: int
    window: int = WINDOW_FIRST

    @property
    def is_full(self) -> bool:
        """Whether it has found as many as a page shows."""
        return self.hits >= HITS_MAX

    @property
    def done(self) -> bool:
        return self.at <= self.start or self.is_full

    @property
    def next(self) -> tuple[int, int]:
        """The offsets to read next: from the first to before the second."""
        return max(self.start, self.at - self.window), self.at

    def after(self, hits: int, *, cheap: bool) -> Progress:
        """Once the next window was read, with this number of hits."""
        window = min(WINDOW_MAX, self.window * WINDOW_FACTOR) if cheap else self.window
        return replace(self, at=self.next[0], hits=min(HITS_MAX, self.hits + hits), window=window)

    def narrowed(self) -> Progress:
        """With a smaller window, after one of which not all could be read in time."""
        first, end = self.next
        return replace(self, window=max(1, (end - first) // WINDOW_FACTOR))
