"""Sends records and reports their outcomes: one load for measurements, fault tests and the demo."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol

from strandline.adapters.system.clock import SystemClock
from strandline.cli.load.pace import Pace
from strandline.errors import RequestTimedOut, StrandlineError
from strandline.ports import Clock

if TYPE_CHECKING:
    from strandline import Producer, RecordMetadata

WAIT_S_MAX: Final = 30.0
"""Time for one step: a new leader, a full ISR, the last record. A longer wait means that it will not
happen."""
VALUE_BYTES: Final = 100
PER_S: Final = 500.0
"""Values a second into each partition, by default."""


class Recording(Protocol):
    """Receives a feeder's reports of each record, by a number that rises from 0."""

    def sent(self, record: int, key: bytes | None, value: bytes, partition: int | None) -> None: ...

    def acked(self, record: int, partition: int, offset: int) -> None: ...

    def failed(self, record: int, error: BaseException) -> None: ...


@dataclass(slots=True)
class Gap:
    """The longest time between two acknowledgements, of one feeder or of several that share it."""

    longest_s: float = 0.0
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at the first acknowledgement; the time before it is no gap."""
    _last: float = 0.0

    def acked(self, now: float) -> None:
        """Notes an acknowledgement at `now`, by a monotonic clock."""
        if self.begun.is_set():
            self.longest_s = max(self.longest_s, now - self._last)
        self._last = now
        self.begun.set()


@dataclass(slots=True)
class _Expected:
    """A wait for the first acknowledgement of a record sent later than `sent_after`."""

    partition: int
    sent_after: float
    acked_at: asyncio.Future[float]


class Feeder:
    """Sends records of one producer to one topic. Counts them, and reports each to `recording` if given."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        recording: Recording | None = None,
        *,
        gap: Gap | None = None,
        unanswered_max: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.sent = 0
        self.failed = 0
        self.acknowledged: Counter[int] = Counter()
        """Records by partition."""
        self.first_error: BaseException | None = None
        self.gap = gap or Gap()
        self._producer = producer
        self._topic = topic
        self._recording = recording
        self._unanswered_max = unanswered_max
        self._answered = asyncio.Event()
        self._clock = clock or SystemClock()
        self._expected: list[_Expected] = []

    @property
    def unanswered(self) -> int:
        """Records that are neither acknowledged nor failed."""
        return self.sent - self.failed - self.acknowledged.total()

    async def run(
        self,
        stop: asyncio.Event,
        *,
        rate: float = PER_S,
        partitions: Sequence[int],
        prefix: str = "",
        value_bytes: int = VALUE_BYTES,
    ) -> None:
        """Sends a numbered value to each partition, `rate` times a second, until `stop` is set.

        No two values are the same if each feeder of a topic has another `prefix`.
        """
        pace = Pace(rate, self._clock)
        for number in count():
            if await pace.stopped(stop):
                return
            for partition in partitions:
                value = f"{prefix}{partition}.{number}".encode().ljust(value_bytes, b".")
                await self.send(None, value, partition=partition)

    async def send(self, key: bytes | None, value: bytes, *, partition: int | None = None) -> None:
        """Sends one record without waiting for its acknowledgement. Waits for room while `unanswered_max`
        records have no answer. A record that cannot be sent counts as failed."""
        while self._unanswered_max is not None and self.unanswered >= self._unanswered_max:
            self._answered.clear()
            await self._answered.wait()
        number, self.sent = self.sent, self.sent + 1
        if self._recording is not None:
            self._recording.sent(number, key, value, partition)
        sent_at = self._clock.monotonic()
        try:
            future = await self._producer.send(self._topic, value, key, partition=partition)
        except StrandlineError as error:
            self._fail(number, error)
        else:
            future.add_done_callback(partial(self._ended, number, sent_at))

    def expect_ack(self, partition: int, *, sent_after: float) -> asyncio.Future[float]:
        """The time at which the first record of `partition` sent after that moment was acknowledged.

        Records sent before do not count: their acknowledgement may already have been on its way.
        """
        expected = _Expected(partition, sent_after, asyncio.get_running_loop().create_future())
        self._expected.append(expected)
        return expected.acked_at

    def _ended(self, number: int, sent_at: float, future: asyncio.Future[RecordMetadata]) -> None:
        error = future.exception()
        if error is not None:
            self._fail(number, error)
            return
        metadata = future.result()
        now = self._clock.monotonic()
        self.acknowledged[metadata.partition] += 1
        self.gap.acked(now)
        self._answered.set()
        if self._recording is not None:
            self._recording.acked(number, metadata.partition, metadata.offset)
        for expected in list(self._expected):
            if expected.partition == metadata.partition and sent_at > expected.sent_after:
                expected.acked_at.set_result(now)
                self._expected.remove(expected)

    def _fail(self, number: int, error: BaseException) -> None:
        self.failed += 1
        self.first_error = self.first_error or error
        self._answered.set()
        if self._recording is not None:
            self._recording.failed(number, error)


async def within(what: str, future: asyncio.Future[float]) -> float:
    """Waits for `future`. Raises RequestTimedOut, which names what did not happen."""
    try:
        async with asyncio.timeout(WAIT_S_MAX):
            return await future
    except TimeoutError:
        raise RequestTimedOut(f"{what} did not happen within {WAIT_S_MAX:.0f} s") from None
