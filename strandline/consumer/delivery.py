"""Delivers fetched records to the application's get calls, and tracks which of them are processed.

Records that a get call returns are *in hand* until the application makes its next get call. A partition that
has to be revoked waits for that call. Records in hand are committed only if the application commits them; a
commit does not end their being in hand, since the application may commit a record and still work on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from typing import Any, Final, TypeVar

from strandline.client.core.positions import Position
from strandline.client.reading.open_batch import OpenBatch
from strandline.client.reading.partition_reader import PartitionReader
from strandline.client.reading.records import ConsumerRecord, FetchedBatch, records_of
from strandline.client.reading.wakeups import Wakeups
from strandline.client.scope import Scope
from strandline.config.consumer import ConsumerSettings
from strandline.consumer.measures import ConsumerMeasures
from strandline.errors import InvalidRequest, UndecodableBatch
from strandline.ids import TopicPartition
from strandline.ports import Clock
from strandline.records import Columns

logger = logging.getLogger(__name__)

ADVICE: Final = "seek there, or leave such batches out with on_undecodable=skip"
GIVE_WAY_SHARE: Final = 0.1
GIVE_WAY_S_MIN: Final = 0.001
GIVE_WAY_S_MAX: Final = 0.1

T = TypeVar("T")


class Reading(OpenBatch):
    """A batch that is being delivered, as long as its partition stays where it is."""

    __slots__ = ("incarnation", "state")

    def __init__(self, state: Position[FetchedBatch], batch: FetchedBatch) -> None:
        super().__init__(batch)
        self.state = state
        self.incarnation = state.incarnation

    @property
    def left(self) -> int:
        """The number of records to deliver: 0 once the position was moved, or while it may not be read."""
        if self.incarnation != self.state.incarnation or not self.state.readable:
            return 0
        return self.untaken


class RecordDelivery:
    """Implements the get calls."""

    def __init__(
        self,
        *,
        reader: PartitionReader,
        scope: Scope,
        wakeups: Wakeups,
        settings: ConsumerSettings,
        clock: Clock,
    ) -> None:
        self._reader = reader
        self._positions = reader.positions
        self._scope = scope
        self._wakeups = wakeups
        self._settings = settings
        self._clock = clock
        self.measures = ConsumerMeasures(reader.measures, clock)
        """What this consumer measures; its other parts add to it."""
        self._readings: dict[TopicPartition, Reading] = {}
        self._reading: Reading | None = None
        """The batch whose next record `getone` returns without any other check."""
        self._interrupted = False
        """True if the next `getone` has to check everything again."""
        self._handed: dict[Position[FetchedBatch], None] = {}
        """Partitions with records in hand."""
        self._processed = asyncio.Event()
        self.abandoned = False
        """The application makes no further get call."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop of the get calls, after the first one: `current_task` is faster with a loop."""
        self._caller: asyncio.Task[Any] | None = None
        self.on_call: Callable[[], None] | None = None
        self.may_read: Callable[[], bool] = lambda: True
        """False while no partition is assigned, and none is going to be."""
        self._gave_way_at = clock.monotonic()
        self._raised_at = float("-inf")
        """When the last get call raised, or will raise."""
        self.yields_often = False
        """True while the loop has other work than records: each `getone` lets it run."""
        self._polled = True
        """True if a get call was made since the last `take_polled`."""
        self.asking = 0
        """Get calls in progress: the application waits for them, so it is not overdue."""
        self._called_at = clock.monotonic()
        self._noted: tuple[Reading | None, int] = None, 0
        """`_reading`, and its records that were not taken, at `_called_at`."""

    def take_polled(self) -> bool:
        """True if a get call was made since the last time, or is in progress. From any thread."""
        if not (self._polled or self.asking):
            return False
        self._note_calls()
        self._polled = False  # only after it was seen: a call in between counts the next time
        return True

    def unpolled_s(self) -> float:
        """Seconds since the last get call, 0 while one is in progress. From any thread.

        Calls that only take the next record of a batch read no clock. They count as made when they are
        noticed: here, or at a member's next heartbeat.
        """
        self._note_calls()
        return 0.0 if self.asking else self._clock.monotonic() - self._called_at

    def _note_calls(self) -> None:
        """Notice the calls that took the next record of a batch since `_called_at`."""
        reading, (noted, untaken) = self._reading, self._noted
        if reading is None or (reading is noted and reading.untaken == untaken):
            return
        self._called_at = self._clock.monotonic()
        self._noted = reading, reading.untaken

    # --- the get calls -----------------------------------------------------------------------

    def getone(self) -> Coroutine[Any, Any, ConsumerRecord]:
        self._caller = _calling_task() if self._loop is None else asyncio.current_task(self._loop)
        return self._getone()

    def getmany(
        self, partitions: Sequence[TopicPartition], timeout_ms: float, max_records: int | None
    ) -> Coroutine[Any, Any, dict[TopicPartition, list[ConsumerRecord]]]:
        self._caller = _calling_task()
        return self._asked(self._getmany(partitions, timeout_ms, max_records))

    def getcolumns(
        self, partitions: Sequence[TopicPartition], timeout_ms: float, max_records: int | None
    ) -> Coroutine[Any, Any, dict[TopicPartition, Columns]]:
        self._caller = _calling_task()
        return self._asked(self._getcolumns(partitions, timeout_ms, max_records))

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
                self._polled = True
                state.processed = state.position
                state.position = record.offset + 1
                return record
        return await self._asked(self._next())

    async def _next(self) -> ConsumerRecord:
        self._called()
        while True:
            self._wakeups.raise_new()
            for state, reading in self._batches(()):
                await self._give_way()
                if reading.left:
                    if not (self.yields_often or self._interrupted):
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
        taken = await self._getcolumns(partitions, timeout_ms, max_records)
        return {name: records_of(name, columns) for name, columns in taken.items()}

    async def _getcolumns(
        self, partitions: Sequence[TopicPartition], timeout_ms: float, max_records: int | None
    ) -> dict[TopicPartition, Columns]:
        limit = self._settings.poll_records_max if max_records is None else max_records
        deadline = self._clock.monotonic() + timeout_ms / 1000
        self._called()
        await self._give_way()
        self._wakeups.raise_new()
        while True:
            taken: dict[TopicPartition, Columns] = {}
            left, room = limit, float(self._settings.poll_bytes_max)
            for state, reading in self._batches(partitions):
                columns = reading.columns(left)
                count = len(columns.offsets)
                self._hand(state, columns.offsets[-1] + 1)
                if state.name in taken:
                    taken[state.name].extend(columns)
                else:
                    taken[state.name] = columns
                left -= count
                room -= count * reading.record_bytes
                if left <= 0 or room <= 0:
                    break
            if taken or not await self._wait(deadline):
                return taken

    async def _getbatches(
        self, partitions: Sequence[TopicPartition], timeout_ms: float
    ) -> list[FetchedBatch]:
        deadline = self._clock.monotonic() + timeout_ms / 1000
        self._called()
        await self._give_way()
        self._wakeups.raise_new()
        while True:
            taken: list[FetchedBatch] = []
            for state in self._turns(partitions):
                reading = self._under_way(state)
                if reading is not None:
                    del self._readings[state.name]
                    assert state.position is not None
                    taken.append(reading.batch._replace(from_offset=state.position))
                    self._hand(state, reading.batch.next_offset)
                while state.buffered:
                    batch = self._take(state)
                    if batch.record_count:
                        taken.append(batch)
                        self._hand(state, batch.next_offset)
                    else:
                        self._pass(state, batch)
            if taken or not await self._wait(deadline):
                return taken

    def _called(self) -> None:
        """A get call begins: the application has processed what it was given."""
        self._loop = asyncio.get_running_loop()
        self._called_at = self._clock.monotonic()
        self._reading = None
        self._interrupted = False
        self._scope.check()
        if self.on_call is not None:
            self.on_call()
        self.done()

    async def _asked(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a get call. One that raises lets the loop run first: the application may call again at once."""
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
            self._polled = True
            self._called_at = self._clock.monotonic()
            reading = self._reading
            self._noted = reading, 0 if reading is None else reading.untaken

    @property
    def _pace_s(self) -> float:
        """The least time between two errors in a row."""
        return self._settings.retry_backoff_ms / 1000

    async def _give_way(self) -> None:
        """Let the loop run, so that the next records can arrive although the application never waits.

        One turn of the loop is enough for that. A rebalance needs many turns, with answers of brokers
        between them. So during a rebalance the application gives up a share of the time that it used.
        """
        took_s = self._clock.monotonic() - self._gave_way_at
        share_s = min(took_s * GIVE_WAY_SHARE, GIVE_WAY_S_MAX) if self.yields_often else 0
        await asyncio.sleep(share_s if share_s >= GIVE_WAY_S_MIN else 0)
        self._gave_way_at = self._clock.monotonic()

    def _hand(self, state: Position[FetchedBatch], next_offset: int) -> None:
        state.position = next_offset
        state.handed_out = True
        self._handed[state] = None

    def _turns(self, partitions: Sequence[TopicPartition]) -> list[Position[FetchedBatch]]:
        """The partitions that may be read, in their order."""
        if partitions:
            wanted = {self._reader.assigned(partition).name for partition in partitions}
            return [state for state in self._positions if state.name in wanted and state.readable]
        return [state for state in self._positions if state.readable]

    def _batches(
        self, partitions: Sequence[TopicPartition]
    ) -> Iterator[tuple[Position[FetchedBatch], Reading]]:
        """The batches to deliver from, in the order of the partitions' turns. Those that are being delivered
        come first, so that few are decoded at a time: a few bytes can decompress to very many."""
        turns = self._turns(partitions)
        for state in turns:
            if (reading := self._under_way(state)) is not None:
                yield state, reading
        for state in turns:
            while (reading := self._open(state)) is not None:
                yield state, reading

    def _open(self, state: Position[FetchedBatch]) -> Reading | None:
        """The batch of this partition that is being delivered, or the next one; None if there is none.

        A batch that cannot be decoded is left out, or its error is raised: by the next get call, if this
        one returns records.
        """
        reading = self._under_way(state)
        if reading is not None:
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
            self._pass(state, batch)
        return None

    def _under_way(self, state: Position[FetchedBatch]) -> Reading | None:
        """The batch of this partition that is being delivered; None if all of it is delivered, or void."""
        reading = self._readings.get(state.name)
        if reading is None or reading.left:
            return reading
        if reading.incarnation != state.incarnation:
            del self._readings[state.name]
        elif not reading.untaken:
            del self._readings[state.name]
            self._pass(state, reading.batch)
        return None

    def _pass(self, state: Position[FetchedBatch], batch: FetchedBatch) -> None:
        """The batch has no record, or no further one, to deliver: compaction may have removed its last. With
        nothing in hand it counts as processed."""
        if state not in self._handed:
            state.processed = batch.next_offset
        state.position = batch.next_offset

    def _take(self, state: Position[FetchedBatch]) -> FetchedBatch:
        batch = self._positions.take(state, state.buffered[0].size)
        self.measures.taken.add(batch.record_count)
        self._reader.wake(state.broker)
        return batch

    async def _wait(self, deadline: float | None) -> bool:
        """Wait for a wakeup; False at the deadline. Raises errors that are new, and, after a pause without a
        wakeup, errors that stand; InvalidRequest if there is nothing to wait for."""
        self._scope.check()
        if not self.may_read():
            raise InvalidRequest("this consumer reads nothing: `subscribe` it, or `assign` partitions to it")
        self._wakeups.raise_new()
        until = deadline
        if self._wakeups.standing:
            again_at = self._clock.monotonic() + self._pace_s
            until = again_at if deadline is None else min(again_at, deadline)
        try:
            arrived = await self._wakeups.wait(until)
        finally:
            self._gave_way_at = self._clock.monotonic()
        if not arrived:
            self._wakeups.raise_standing()
        return arrived

    def reconsider(self) -> None:
        """Have a get call that waits find out whether there is something to wait for."""
        self._wakeups.arrived()

    def interrupt(self) -> None:
        """Have the next `getone` let the loop run once. From any thread."""
        self._interrupted = True
        self._note_calls()
        self._reading = None

    def raise_next(self, error: Exception) -> None:
        """Have the very next get call raise this, even in the middle of a batch."""
        self.interrupt()
        self._wakeups.raise_once(error)

    def fail(self, error: Exception) -> None:
        """Have every get call raise this from now on."""
        self.interrupt()
        self._wakeups.fail(error)

    # --- what is processed -------------------------------------------------------------------

    def done(self) -> None:
        """Everything in hand is processed."""
        self._polled = True
        for state in self._handed:
            state.processed = state.position
        self._handed.clear()
        self._processed.set()

    def in_hand(self, names: Collection[TopicPartition]) -> list[TopicPartition]:
        """Those of these partitions with records in hand."""
        return [state.name for state in self._handed if state.name in names]

    async def drained(self, names: Collection[TopicPartition], timeout_s: float) -> bool:
        """Wait until nothing of these is in hand; False if it is abandoned, or after the timeout."""
        deadline = self._clock.monotonic() + timeout_s
        while self.in_hand(names):
            if self.abandoned:
                return False
            self._processed.clear()
            try:
                async with asyncio.timeout(deadline - self._clock.monotonic()):
                    await self._processed.wait()
            except TimeoutError:
                return False
        return True

    def abandon(self) -> None:
        """The application makes no further get call: what is in hand stays unprocessed."""
        self.abandoned = True
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
        """The error that every get call raises, if there is one."""
        return self._wakeups.fatal

    @property
    def caller(self) -> asyncio.Task[Any] | None:
        """The task that made the last get call, and works on the records in hand; None if no task did.

        It is the task that calls `getone`, also if another task runs it, as `asyncio.wait_for` may.
        """
        return self._caller


def _calling_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs: the call is for `run_until_complete`
        return None
