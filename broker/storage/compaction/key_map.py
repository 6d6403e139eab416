"""The last offset of each key of a stretch of log, in so much memory and no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

ENTRY_BYTES: Final = 200
"""What a key costs besides its own bytes: its object's head, its offset's object, and its slot of the table
at the moment at which the table is being made larger. Measured; see bench/log/storage.py."""


class KeyMap:
    """key → offset of its last record. Keys are kept whole: no two are ever taken for one."""

    __slots__ = ("_bytes", "_bytes_max", "last")

    def __init__(self, bytes_max: int) -> None:
        self.last: dict[bytes | None, int] = {}
        """For others to read only. Without a key a record has no place here."""
        self._bytes = 0
        self._bytes_max = bytes_max

    def add(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> bool:
        """Take the keys of one batch, later than all before; False, and nothing taken, if they do not fit.

        An empty map takes whatever comes, so that each pass gets further.
        """
        last = self.last
        batch = dict(zip(keys, offsets, strict=True))
        batch.pop(None, None)
        # Not a difference of key views: that walks through all of the larger one.
        fresh = [len(key) for key in batch if key is not None and key not in last]
        size = sum(fresh) + ENTRY_BYTES * len(fresh)
        if last and self._bytes + size > self._bytes_max:
            return False
        self._bytes += size
        last.update(batch)
        return True
