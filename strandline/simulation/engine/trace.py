"""The trace of a run: a hash of everything that processes exchanged, and of every fault, with the times.

Two runs of the same seed have the same hash. Where they do not, `lines` shows the first difference.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

HASH_BYTES: Final = 16
UNHASHED_MAX: Final = 1_000
"""Events that are hashed at once: that takes a fraction of the time of one by one."""
_WITHOUT_REFERENCES: Final = 2
"""This version of marshal's format depends on values alone, not on which of them are one object."""


class Trace:
    """Hashes events in the order in which they happen."""

    def __init__(self, now_ns: Callable[[], int], *, keep: bool = False) -> None:
        """`keep`: remember each event as a line too."""
        self._now_ns = now_ns
        self._hash = blake2b(digest_size=HASH_BYTES)
        self._keep = keep
        self._unhashed: list[tuple[int, str, bytes]] = []
        self._hashed = 0
        self.lines: list[str] = []
        """Each event, if they are kept."""
        self.on_event: list[Callable[[], object]] = []
        """Called at each event. They may look at the world, and must not change anything."""

    @property
    def events(self) -> int:
        """How many there were."""
        return self._hashed + len(self._unhashed)

    def note(self, what: str, data: bytes = b"") -> None:
        """Add an event."""
        at_ns = self._now_ns()
        self._unhashed.append((at_ns, what, data))
        if len(self._unhashed) >= UNHASHED_MAX:
            self._hash_all()
        if self._keep:
            self.lines.append(f"{at_ns} {what} {len(data)} {data[:200].hex()}")
        for look in self.on_event:
            look()

    def _hash_all(self) -> None:
        events, self._unhashed = self._unhashed, []
        self._hashed += len(events)
        self._hash.update(b"".join([marshal.dumps(event, _WITHOUT_REFERENCES) for event in events]))

    def digest(self) -> str:
        """The hash of all events until now, in hexadecimal digits."""
        self._hash_all()
        return self._hash.hexdigest()
