"""What a get call waits for and what it raises: news of partitions, and errors that somebody has to hear."""

from __future__ import annotations

import asyncio
from collections import deque

from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Clock


class News:
    """Errors of partitions stand until they are forgotten; others are told once; a fatal one for ever."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._arrived = asyncio.Event()
        self._errors: dict[TopicPartition, StrandlineError] = {}
        self._untold: set[TopicPartition] = set()
        self._once: deque[Exception] = deque()
        self.fatal: Exception | None = None

    def arrived(self) -> None:
        """Wake whoever waits: there may be something to hand out, or to raise."""
        self._arrived.set()

    def note(self, name: TopicPartition, error: StrandlineError) -> None:
        """Have the next get call raise this, and later ones in turn, until it is forgotten."""
        if name not in self._errors:
            self._untold.add(name)
        self._errors[name] = error
        self._arrived.set()

    def tell_once(self, error: Exception) -> None:
        """Have one get call raise this."""
        self._once.append(error)
        self._arrived.set()

    def fail(self, error: Exception) -> None:
        """Have every get call raise this from now on."""
        self.fatal = error
        self._arrived.set()

    def forget(self, name: TopicPartition) -> None:
        self._errors.pop(name, None)
        self._untold.discard(name)

    def error(self, name: TopicPartition) -> StrandlineError | None:
        return self._errors.get(name)

    def raise_untold(self) -> None:
        """A new error is told before any more records, lest a busy partition hides another's end."""
        if self.fatal is not None:
            raise self.fatal
        if self._once:
            raise self._once.popleft()
        if self._untold:
            raise self._errors[self._untold.pop()]

    @property
    def standing(self) -> bool:
        """True while there are errors that stand."""
        return bool(self._errors)

    def raise_standing(self) -> None:
        """The errors that stand, in turn."""
        self.raise_untold()
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
