"""The trace of a run: a hash of everything that processes exchanged, and of every fault, with the times.

Two runs of the same seed have the same hash. Where they do not, `lines` shows the first difference.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Final

HASH_BYTES: Final = 16


class Trace:
    """Hashes events in the order in which they happen."""

    def __init__(self, now_ns: Callable[[], int], *, keep: bool = False) -> None:
        """`keep`: remember each event as a line too."""
        self._now_ns = now_ns
        self._hash = blake2b(digest_size=HASH_BYTES)
        self._keep = keep
        self.events = 0
        self.lines: list[str] = []
        """Each event, if they are kept."""

    def note(self, what: str, data: bytes = b"") -> None:
        """Add an event."""
        self.events += 1
        line = f"{self._now_ns()} {what} {len(data)}\n"
        self._hash.update(line.encode() + data)
        if self._keep:
            self.lines.append(f"{line.rstrip()} {data[:200].hex()}")

    def digest(self) -> str:
        """The hash of all events until now, in hexadecimal digits."""
        return self._hash.hexdigest()
