"""What a search looks for in records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is: it reads from `start` to `end`, and is at `at`."""

    start: int
    at: int
    end: int
    hits: int

    @property
    def is_full(self) -> bool:
        """Whether it has found as many as a page shows."""
        return self.hits >= HITS_MAX

    @property
    def done(self) -> bool:
        return self.at >= self.end or self.is_full
