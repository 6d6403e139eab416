"""Bounds how often logins may fail, so that no one finds a password or a token by trying."""

from __future__ import annotations

from collections import Counter, deque
from typing import Final

from strandline.room import one_host

WINDOW_S: Final = 60.0
ALL_TIMES: Final = 10
"""All addresses together may fail this many times as often as one."""


class Attempts:
    """The failed logins of the last minute, at most `per_minute_max` of one address."""

    def __init__(self, per_minute_max: int) -> None:
        self._of_one = per_minute_max
        self._of_all = per_minute_max * ALL_TIMES
        self._failed: deque[tuple[float, str]] = deque()
        self._counts: Counter[str] = Counter()

    def are_left(self, address: str, now_s: float) -> bool:
        """Whether this address may try now."""
        self._forget(now_s)
        return self._counts[one_host(address)] < self._of_one and len(self._failed) < self._of_all

    def failed(self, address: str, now_s: float) -> None:
        """Count a login that was refused. The oldest of too many is forgotten: tries may have overlapped."""
        self._forget(now_s)
        if len(self._failed) >= self._of_all:
            self._drop()
        self._failed.append((now_s, host := one_host(address)))
        self._counts[host] += 1

    def _forget(self, now_s: float) -> None:
        while self._failed and now_s - self._failed[0][0] >= WINDOW_S:
            self._drop()

    def _drop(self) -> None:
        _, host = self._failed.popleft()
        self._counts[host] -= 1
        if not self._counts[host]:
            del self._counts[host]
