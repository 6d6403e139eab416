"""A fetch that waits for records: one listener at all of its partitions, one timer, and no task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from strandline.broker.replicas.local_replica import OnChange


class Heard(Protocol):
    """What a poll waits at."""

    def listen(self, listener: OnChange) -> None:
        """Calls the listener at each change."""
        ...

    def unlisten(self, listener: OnChange) -> None: ...


class LongPoll:
    """Calls `ended` once, on a later turn of the loop: when `arrived` is true, or the time is over. The
    argument says whether `arrived` is true."""

    __slots__ = ("_arrived", "_ended", "_heard", "_look", "_timer")

    def __init__(
        self,
        heard: Heard,
        arrived: Callable[[], bool],
        wait_s: float,
        ended: Callable[[bool], None],
    ) -> None:
        self._heard = heard
        self._arrived = arrived
        self._ended = ended
        self._look: asyncio.Handle | None = None
        """Will look whether something arrived: a change of a replica does not wait for that."""
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._time_over)
        heard.listen(self._changed)

    def cancel(self) -> None:
        """Waits no longer; `ended` is not called."""
        self._timer.cancel()
        if self._look is not None:
            self._look.cancel()
        self._heard.unlisten(self._changed)

    def _changed(self) -> None:
        if self._look is None:
            self._look = asyncio.get_running_loop().call_soon(self._look_now)

    def _look_now(self) -> None:
        self._look = None
        if self._arrived():
            self.cancel()
            self._ended(True)

    def _time_over(self) -> None:
        changed = self._look is not None
        self.cancel()
        self._ended(changed and self._arrived())
