"""Hands out what was read, and knows what of it the application is done with.

What a get call hands out is *in hand* until the application makes its next get call: a partition that has to
be given up waits for it, and it is not committed unless the application commits it. A commit does not end
this: the application may commit a record and go on working on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from strandline.client.scope import Scope
from strandline.config import ConsumerSettings
from strandline.consumer.core.positions import Position
from strandline.consumer.open_batch import Reading
from strandline.consumer.reader import Reader
from strandline.consumer.records import ConsumerRecord, FetchedBatch
from strandline.consumer.wakeups import News
from strandline.errors import UndecodableBatch
from strandline.ids import TopicPartition
from strandline.ports import Clock

logger = logging.getLogger(__name__)

ADVICE: Final = "seek there, or leave such batches out with on_undecodable=skip"
GIVE_WAY_SHARE: Final = 0.1
GIVE_WAY_S_MIN: Final = 0.001
GIVE_WAY_S_MAX: Final = 0.1

T = TypeVar("T")


class HandOut:
    """The get calls. `polled` is set by each and cleared by who watches that they come."""

    def __init__(
        self, *, reader: Reader, scope: Scope, news: News, settings: ConsumerSettings, clock: Clock
    ) -> None:
        self._reader = reader
        self._positions = reader.positions
        self._scope = scope
        self._news = news
        self._settings = settings
        self._clock = clock
        self._readings: dict[TopicPartition, Reading] = {}
        self._reading: Reading | None = None
        """What `getone` goes on with at once, without a look at anything else."""
        self._interrupted = False
        """True if the next `getone` is to look, whatever this one finds."""
        self._handed: dict[Position[FetchedBatch], None] = {}
        """Partitions with records in hand."""
        self._processed = asyncio.Event()
        self._abandoned = False
        self._loop: asyncio.AbstractEventLoop | None = None
        """That of the get calls, once there was one: it is quicker to ask for its task than for any."""
        self._caller: asyncio.Task[Any] | None = None
        self.on_call: Callable[[], None] | None = None
        self._gave_way_at = clock.monotonic()
        self._raised_at = float("-inf")
        """When a get call raised last, or is going to."""
        self.attentive = False
        """True while the loop has more to do than the application's records: each `getone` lets it."""
        self.polled = True
        self.asking = 0
        """Get calls that are under way: the application is not late, it waits for them."""

    # --- the get calls -----------------------------------------------------------------------

    def getone(self) -> Coroutine[Any, Any, ConsumerRecord]:
        self._caller = _calling_task() if self._loop is None else asyncio.current_task(self._loop)
        return self._getone()

    def getmany(
        self, partitions: Sequence[TopicPartition], timeout_ms: float, max_records: int | None
    ) -> Coroutine[Any, Any, dict[TopicPartition, list[ConsumerRecord]]]:
        self._caller = _calling_task()
        return self._asked(self._getmany(partitions, timeout_ms, max_records))

    def getbatches(
        self, partitions: Sequence[TopicPartition], timeout_ms: float
    ) -> Coroutine[Any, Any, list[FetchedBatch]]:
        self._caller = _calling_task()
        return self._asked(self._getbatches(partitions, timeout_ms))

    async def _getone(self) -> ConsumerRecord:
        reading = self._reading
        if reading is not None and reading.incarnation == reading.state.incarnation:
            state = reading.state
            for record in reading.records:
                self.polled = True
                state.processed = state.position
                state.position = record.offset + 1
                return record
        return await self._asked(self._next())

    async def _next(self) -> ConsumerRecord:
        self._called()
        while True:
            self._news.raise_untold()
            for state in self._turns(()):
                reading = self._open(state)
                if reading is None:
                    continue
                await self._give_way()
                if reading.left:
                    if not (self.attentive or self._interrupted):
                        self._reading = reading
                    record = next(reading.records)
                    self._hand(state, record.offset + 1)
                    return record
                break
            else:
                await self._wait(None)

    async def _getmany(
        self, partitions: Sequence[TopicPartition], timeout_ms: float, max_records: int | None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        limit = self._settings.poll_records_max if max_records is None else max_records
        deadline = self._clock.monotonic() + timeout_ms / 1000
        self._called()
        await self._give_way()
        self._news.raise_untold()
        while True:
            taken: dict[TopicPartition, list[ConsumerRecord]] = {}
            left = limit
            for state in self._turns(partitions):
                while left > 0 and (reading := self._open(state)) is not None:
                    records = list(islice(reading.records, left))
                    left -= len(records)
                    self._hand(state, records[-1].offset + 1)
                    taken.setdefault(state.name, []).extend(records)
            if taken or not await self._wait(deadline):
                return taken

    async def _getbatches(
        self, partitions: Sequence[TopicPartition], timeout_ms: float
    ) -> list[FetchedBatch]:
        deadline = self._clock.monotonic() + timeout_ms / 1000
        self._called()
        await self._give_way()
        self._news.raise_untold()
        while True:
            taken: list[FetchedBatch] = []
            for state in self._turns(partitions):
                reading = self._readings.pop(state.name, None)
                if reading is not None and reading.left:
                    assert state.position is not None
                    taken.append(reading.batch._replace(from_offset=state.position))
                while state.buffered:
                    taken.append(self._take(state))
                if taken and taken[-1].name == state.name:
                    self._hand(state, taken[-1].next_offset)
            if taken or not await self._wait(deadline):
                return taken

    def _called(self) -> None:
        """The application asks for more: it is done with what it was given."""
        self._loop = asyncio.get_running_loop()
        self._reading = None
        self._interrupted = False
        self._scope.check()
        if self.on_call is not None:
            self.on_call()
        self.done()

    async def _asked(self, call: Coroutine[Any, Any, T]) -> T:
        """A get call. One that raises has let the loop run before: the application may ask again at once."""
        self.asking += 1
        try:
            return await call
        except Exception:
            pause_s = max(0.0, self._raised_at + self._pace_s - self._clock.monotonic())
            self._raised_at = self._clock.monotonic() + pause_s
            await self._clock.sleep(pause_s)
            raise
        finally:
            self.asking -= 1
            self.polled = True

    @property
    def _pace_s(self) -> float:
        """The least time between two errors in a row."""
        return self._settings.retry_backoff_ms / 1000

    async def _give_way(self) -> None:
        """Who never waits for a record lets the next ones come in here.

        One turn of the loop is enough for that. A rebalance takes many, with answers from afar between
        them; so while one goes on, an application that hogs the loop gives way for a part of the time it
        took, and the group does not wait for as many records as that.
        """
        took_s = self._clock.monotonic() - self._gave_way_at
        share_s = min(took_s * GIVE_WAY_SHARE, GIVE_WAY_S_MAX) if self.attentive else 0
        await asyncio.sleep(share_s if share_s >= GIVE_WAY_S_MIN else 0)
        self._gave_way_at = self._clock.monotonic()

    def _hand(self, state: Position[FetchedBatch], next_offset: int) -> None:
        state.position = next_offset
        state.handed_out = True
        self._handed[state] = None

    def _turns(self, partitions: Sequence[TopicPartition]) -> list[Position[FetchedBatch]]:
        """The partitions that may be read, in the order of their turns."""
        if partitions:
            wanted = {self._reader.assigned(partition).name for partition in partitions}
            return [state for state in self._positions if state.name in wanted and state.readable]
        return [state for state in self._positions if state.readable]

    def _open(self, state: Position[FetchedBatch]) -> Reading | None:
        """The batch of this partition that is being handed out, or the next one; None if there is none.

        One that cannot be decoded is left out, or is news that the next get call raises if this one hands
        something out.
        """
        reading = self._readings.get(state.name)
        if reading is not None and reading.left:
            return reading
        while state.buffered:
            batch = self._take(state)
            try:
                reading = Reading(state, batch)
            except UndecodableBatch as error:
                if self._settings.on_undecodable == "raise":
                    self._reader.block(state.name, error.advised(ADVICE))
                    return None
                logger.error("a batch is left out: %s", error.message)
            else:
                if reading.left:
                    self._readings[state.name] = reading
                    return reading
            # It has no record to hand out. With nothing in hand the application is done with it.
            if state not in self._handed:
                state.processed = batch.next_offset
            state.position = batch.next_offset
        return None

    def _take(self, state: Position[FetchedBatch]) -> FetchedBatch:
        batch = self._positions.take(state, state.buffered[0].size)
        self._reader.wake(state.broker)
        return batch

    async def _wait(self, deadline: float | None) -> bool:
        """Wait for news; False at the deadline. Raises what went wrong meanwhile, and again, after a pause
        without any news, what is still wrong."""
        self._scope.check()
        self._news.raise_untold()
        until = deadline
        if self._news.standing:
            again_at = self._clock.monotonic() + self._pace_s
            until = again_at if deadline is None else min(again_at, deadline)
        try:
            arrived = await self._news.wait(until)
        finally:
            self._gave_way_at = self._clock.monotonic()
        if not arrived:
            self._news.raise_standing()
        return arrived

    def interrupt(self) -> None:
        """Let the next `getone` give way to the loop once. From any thread."""
        self._interrupted = True
        self._reading = None

    def tell(self, error: Exception) -> None:
        """Have the very next get call raise this, even in the middle of a batch."""
        self.interrupt()
        self._news.tell_once(error)

    def fail(self, error: Exception) -> None:
        """Have every get call raise this from now on."""
        self.interrupt()
        self._news.fail(error)

    # --- what is processed -------------------------------------------------------------------

    def done(self) -> None:
        """All that was handed out is processed."""
        self.polled = True
        for state in self._handed:
            state.processed = state.position
        self._handed.clear()
        self._processed.set()

    def in_hand(self, names: Collection[TopicPartition]) -> set[TopicPartition]:
        """Those of these partitions of which the application works on records."""
        return {state.name for state in self._handed if state.name in names}

    async def drained(self, names: Collection[TopicPartition], timeout_s: float) -> bool:
        """Wait until nothing of these is in hand; False if it is abandoned, or the time is up."""
        deadline = self._clock.monotonic() + timeout_s
        while self.in_hand(names):
            if self._abandoned:
                return False
            self._processed.clear()
            try:
                async with asyncio.timeout(deadline - self._clock.monotonic()):
                    await self._processed.wait()
            except TimeoutError:
                return False
        return True

    def abandon(self) -> None:
        """Nobody will say any more that what is in hand is done."""
        self._abandoned = True
        self._processed.set()

    def forget(self, names: Collection[TopicPartition]) -> None:
        """These partitions are no longer assigned."""
        for name in names:
            self._readings.pop(name, None)
        for state in [state for state in self._handed if state.name in names]:
            del self._handed[state]
        self._processed.set()

    @property
    def failure(self) -> Exception | None:
        """What every get call raises, if one does."""
        return self._news.fatal

    @property
    def caller(self) -> asyncio.Task[Any] | None:
        """The task that made the last get call, and so works on what it handed out; None if no task did.

        That is where the call stands, also if another task runs it: `asyncio.wait_for(getone(), …)` may.
        """
        return self._caller


def _calling_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs: the call is for `run_until_complete`
        return None
