"""Decides whether an attempt to reconnect may name the session. Pure (CORRECTNESS E20).

A server that hears of a session gives it its whole timeout again, whether its answer arrives or not. A client
whose requests arrive and whose answers are lost would keep its session, and what depends on it, for as long
as it tries to reconnect: no other process takes over what it cannot do.
"""

from __future__ import annotations

from typing import Final

NAMED_AGAIN_TIMEOUTS: Final = 3
"""After this many session timeouts the session is named without a knock: a ZooKeeper that heard the last
attempt has ended it, and one that did not may still have it."""


class Naming:
    """The attempts of one client. After one that got no answer, a server has to answer a knock first."""

    def __init__(self, timeout_s: float) -> None:
        """`timeout_s` is the session's timeout."""
        self._again_after_s = NAMED_AGAIN_TIMEOUTS * timeout_s
        self._named_at: float | None = None
        """When a request was sent that named the session and that nothing was heard after."""

    def named(self, now: float) -> None:
        self._named_at = now

    def heard(self) -> None:
        """A server has said something, or has ended the connection itself."""
        self._named_at = None

    def must_knock(self, now: float) -> bool:
        return self._named_at is not None and now < self._named_at + self._again_after_s
