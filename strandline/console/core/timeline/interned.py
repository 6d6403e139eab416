"""Equal values as one object: brokers' lists and names repeat in hundreds of thousands of events."""

from __future__ import annotations

from typing import Final, TypeVar

VALUES_MAX: Final = 20_000

T = TypeVar("T")


class Interned:
    """The values that were met; all are forgotten when there are too many."""

    def __init__(self, most: int = VALUES_MAX) -> None:
        self._most = most
        self._met: dict[object, object] = {}

    def one(self, value: T) -> T:
        """The first value that was equal to this one."""
        if len(self._met) >= self._most:
            self._met.clear()
        found = self._met.setdefault((type(value), value), value)
        return found  # type: ignore[return-value]  # its key has its type
