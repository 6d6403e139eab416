"""Counts connections by the host that made them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from strandline.room import one_host


class ConnectionCount:
    """The connections of one kind that there are."""

    __slots__ = ("_by_host", "total")

    def __init__(self) -> None:
        self.total = 0
        """Those of all addresses."""
        self._by_host: Counter[str] = Counter()

    def of(self, address: str) -> int:
        """Those that the host of this address made."""
        return self._by_host[one_host(address)]

    def add(self, address: str) -> None:
        self.total += 1
        self._by_host[one_host(address)] += 1

    def remove(self, address: str) -> None:
        """One that was added ended."""
        self.total -= 1
        self._by_host[host := one_host(address)] -= 1
        if not self._by_host[host]:
            del self._by_host[host]

    @contextmanager
    def one(self, address: str) -> Iterator[None]:
        """Counts one until the end of the `with` block."""
        self.add(address)
        try:
            yield
        finally:
            self.remove(address)
