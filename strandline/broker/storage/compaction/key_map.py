"""The last offset of each key in a part of the log, within a bound of memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

ENTRY_BYTES: Final = 200
"""The memory of a key besides its own bytes: its object's head, its offset's object, and its slot of the
table at the moment at which the table grows. Measured; see bench/log/storage.py."""


class KeyMap:
    """Maps a key to the offset of its last record. Keys are kept whole: no two can be confused."""

    __slots__ = ("_bytes", "_bytes_max", "last")

    def __init__(self, bytes_max: int) -> None:
        self.last: dict[bytes | None, int] = {}
        """For others to read only. Records without a key are not in it."""
        self._bytes = 0
        self._bytes_max = bytes_max

    def add(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> bool:
        """Add the keys of one batch, later than all before; False, and none added, if they do not fit.

        An empty map takes any batch, so that each pass gets further.
        """
        last = self.last
        batch = dict(zip(keys, offsets, strict=True))
        batch.pop(None, None)
        # Not a difference of key views: that iterates over all of the larger one.
        fresh = [len(key) for key in batch if key is not None and key not in last]
        size = sum(fresh) + ENTRY_BYTES * len(fresh)
        if last and self._bytes + size > self._bytes_max:
            return False
        self._bytes += size
        last.update(batch)
        return True
