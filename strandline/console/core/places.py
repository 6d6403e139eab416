"""Places that all browsers share, such as streams: one address has some of them at most, so that it cannot
lock the others out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from strandline.room import one_host


class Places:
    """Counts what is taken: `all_max` places, `one_max` of them by one address."""

    def __init__(self, all_max: int, one_max: int) -> None:
        self._all_max = all_max
        self._one_max = one_max
        self._taken: Counter[str] = Counter()

    def missing(self, address: str) -> str | None:
        """Whose places are all taken, as a sentence begins; None: there is one for this address."""
        if (of_one := self._taken[one_host(address)]) >= self._one_max:
            return f"{of_one} of your address ({address}) are open"
        if self._taken.total() >= self._all_max:
            return f"{self._taken.total()} of all browsers are open"
        return None

    @contextmanager
    def taken(self, address: str) -> Iterator[None]:
        """Takes a place until the end of the block. Ask `missing` first, without an `await` between."""
        host = one_host(address)
        self._taken[host] += 1
        try:
            yield
        finally:
            self._taken[host] -= 1
            if not self._taken[host]:
                del self._taken[host]
