"""Counts connections by the address that made them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class ConnectionCount:
    """The connections of one kind that there are."""

    __slots__ = ("_by_address", "total")

    def __init__(self) -> None:
        self.total = 0
        """Those of all addresses."""
        self._by_address: Counter[str] = Counter()

    def of(self, address: str) -> int:
        """Those that this address made."""
        return self._by_address[address]

    def add(self, address: str) -> None:
        self.total += 1
        self._by_address[address] += 1

    def remove(self, address: str) -> None:
        """One that was added ended."""
        self.total -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    @contextmanager
    def one(self, address: str) -> Iterator[None]:
        """Counts one until the end of the `with` block."""
        self.add(address)
        try:
            yield
        finally:
            self.remove(address)
