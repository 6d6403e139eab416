"""Wakes calls that wait for records, and holds the errors that they have to raise."""

from __future__ import annotations

import asyncio
from collections import deque

from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Clock


class Wakeups:
    """An error of a partition stands until it is forgotten; a fatal error stands forever. Other errors are
    raised once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._arrived = asyncio.Event()
        self._errors: dict[TopicPartition, StrandlineError] = {}
        self._unraised: dict[TopicPartition, None] = {}
        self._once: deque[Exception] = deque()
        self.fatal: Exception | None = None

    def arrived(self) -> None:
        """Wake the waiting calls: there may be a record, or an error."""
        self._arrived.set()

    def note(self, name: TopicPartition, error: StrandlineError) -> None:
        """Have the next get call raise this, and later ones in turn, until it is forgotten."""
        if name not in self._errors:
            self._unraised[name] = None
        self._errors[name] = error
        self._arrived.set()

    def raise_once(self, error: Exception) -> None:
        """Have one get call raise this."""
        self._once.append(error)
        self._arrived.set()

    def fail(self, error: Exception) -> None:
        """Have every get call raise this from now on."""
        self.fatal = error
        self._arrived.set()

    def forget(self, name: TopicPartition) -> None:
        self._errors.pop(name, None)
        self._unraised.pop(name, None)

    def error(self, name: TopicPartition) -> StrandlineError | None:
        return self._errors.get(name)

    def raise_new(self) -> None:
        """Raise an error that was not raised yet. This comes before further records, so that a busy partition
        does not hide the error of another one."""
        if self.fatal is not None:
            raise self.fatal
        if self._once:
            raise self._once.popleft()
        if self._unraised:
            oldest = next(iter(self._unraised))
            del self._unraised[oldest]
            raise self._errors[oldest]

    @property
    def standing(self) -> bool:
        """True while an error stands."""
        return bool(self._errors)

    def raise_standing(self) -> None:
        """Raise the errors that stand, in turn."""
        self.raise_new()
        for name, error in self._errors.items():
            self._errors[name] = self._errors.pop(name)
            raise error

    async def wait(self, deadline: float | None) -> bool:
        """Wait until something arrived; False at the deadline (monotonic seconds)."""
        self._arrived.clear()
        if deadline is None:
            await self._arrived.wait()
            return True
        left = deadline - self._clock.monotonic()
        if left <= 0:
            return False
        try:
            async with asyncio.timeout(left):
                await self._arrived.wait()
        except TimeoutError:
            return False
        return True
