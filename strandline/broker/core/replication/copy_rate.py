"""How fast a leader copies its log to replicas that a reassignment adds or that refill, over the last
seconds."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

from strandline.ids import BrokerId

WINDOW_S: Final = 10.0
"""The time over which a rate is taken."""
STEP_S: Final = 0.5
"""The time between two samples, so a copy keeps some twenty of them. A rate needs at least as much time."""


class _Sample(NamedTuple):
    at: float
    sent: int
    left: int


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of one copy. `closing_per_s` is less than `bytes_per_s` by what is appended meanwhile: at 0 or
    below, the copy never catches up."""

    bytes_per_s: float
    closing_per_s: float


class _Copy:
    def __init__(self, left: int, now: float) -> None:
        self._sent = 0
        self._samples = deque([_Sample(now, 0, left)])
        self.offset = 0
        """Everything below it is sent."""

    def sent(self, size: int, offset: int, left: int, now: float) -> None:
        self._sent += size
        self.offset = offset
        if now - self._samples[-1].at >= STEP_S:
            self._samples.append(_Sample(now, self._sent, left))
            self._forget(now)

    def pace(self, left: int, now: float) -> Pace | None:
        self._forget(now)
        first = self._samples[0]
        elapsed = now - first.at
        if elapsed < STEP_S:
            return None
        return Pace((self._sent - first.sent) / elapsed, (first.left - left) / elapsed)

    def _forget(self, now: float) -> None:
        """Keeps one sample from before the window: a copy that stands still becomes slower and slower."""
        while len(self._samples) > 1 and self._samples[1].at <= now - WINDOW_S:
            self._samples.popleft()


class CopyRates:
    """The copies of one partition's leader. `left` is about the bytes from an offset to the log's end."""

    def __init__(self) -> None:
        self._copies: dict[BrokerId, _Copy] = {}

    def sent(self, broker: BrokerId, size: int, offset: int, left: int, now: float) -> None:
        """These bytes were sent, and with them everything below the offset."""
        copy = self._copies.get(broker)
        if copy is None:
            copy = self._copies[broker] = _Copy(left + size, now)
        copy.sent(size, offset, left, now)

    def end(self, broker: BrokerId) -> None:
        """The flow has ended, or has reached what is committed."""
        self._copies.pop(broker, None)

    def clear(self) -> None:
        """No replica is added any longer."""
        self._copies.clear()

    def offset(self, broker: BrokerId) -> int | None:
        """Everything below it is sent; None if nothing is known of a copy."""
        copy = self._copies.get(broker)
        return None if copy is None else copy.offset

    def pace(self, broker: BrokerId, left: int, now: float) -> Pace | None:
        """The present pace, if the copy runs for long enough; `left` is counted from `offset`."""
        copy = self._copies.get(broker)
        return None if copy is None else copy.pace(left, now)
