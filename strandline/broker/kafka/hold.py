"""Holds the requests of a connection while its client waits for its quota (KIP-219)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import ceil

from strandline.security.quotas.bill import PAY_AGAIN_S_MIN, Bill


class Hold:
    """The hold of one connection."""

    __slots__ = ("_released", "_timer")

    def __init__(self, released: Callable[[], None]) -> None:
        """`released` is called when a hold has ended by itself."""
        self._released = released
        self._timer: asyncio.TimerHandle | None = None

    @property
    def active(self) -> bool:
        """True while the client waits."""
        return self._timer is not None

    def begin(self, bill: Bill | None) -> int:
        """Hold until the client has waited for what it used. Returns how long that is, in milliseconds: the
        answer says so, and a client that heeds it sends nothing meanwhile."""
        if bill is None or not (wait_s := bill.wait_s):
            return 0
        loop = asyncio.get_running_loop()
        ends = loop.time() + max(wait_s, PAY_AGAIN_S_MIN)
        if self._timer is None or self._timer.when() < ends:
            self.end()
            self._timer = loop.call_at(ends, self._release)
        return ceil(wait_s * 1000)

    def end(self) -> None:
        """End it before its time, as the connection ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _release(self) -> None:
        self._timer = None
        self._released()
