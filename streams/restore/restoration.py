"""One changelog on its way into one store: how far it is, who waits for it, and the slices it goes in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, Protocol, cast

from strandline.client.messages import ListedOffset
from strandline.config import KIB
from strandline.consumer.records import FetchedBatch
from strandline.errors import InvalidRequest
from strandline.ids import TopicPartition
from strandline.ports import Clock
from strandline.streams.core.progress import Rate, remaining_s
from strandline.streams.core.task import TaskId

logger = logging.getLogger(__name__)

SLICE_RECORDS: Final = 2_000
SLICE_BYTES: Final = 512 * KIB
"""What one slice writes at most, but for the last record of it: others wait for the loop so long."""
END_AGAIN_S: Final = 1.0
"""The end is asked for again after so long: a new leader may have cut off what was not committed."""


class Restorable(Protocol):
    """What a changelog is restored into: a TaskStore."""

    @property
    def checkpoint(self) -> int:
        """Offset of the next record to apply."""
        ...

    def apply(self, changes: Iterable[tuple[bytes, bytes | None]], checkpoint: int) -> None: ...

    def clear(self) -> None:
        """Forget everything; the checkpoint is 0 then."""
        ...


class Changelogs(Protocol):
    """What a restoration asks for; the restorer answers."""

    async def bounds(self, changelog: TopicPartition) -> ListedOffset:
        """What the leader says of its log now."""
        ...

    async def check_identity(self, changelog: TopicPartition) -> None:
        """Raises UnknownTopicOrPartition if it is another topic than it was."""
        ...

    def take(self, changelog: TopicPartition) -> FetchedBatch | None:
        """The next batch, if one is there."""
        ...

    def high_watermark(self, changelog: TopicPartition) -> int | None:
        """The highest that came with what was fetched."""
        ...

    def reopen(self, restoration: Restoration) -> None:
        """Find out anew where to read."""
        ...

    def forget(self, restoration: Restoration) -> None:
        """Read it no more."""
        ...


class _Unapplied:
    """The rest of a batch, decoded, from which slices are cut."""

    __slots__ = ("_at", "_keys", "_offsets", "_values", "next_offset", "record_bytes")

    def __init__(self, batch: FetchedBatch) -> None:
        columns = batch.columns()
        self._offsets, self._keys, self._values = columns.offsets, columns.keys, columns.values
        self._at = 0
        self.next_offset = batch.next_offset
        total = sum(map(len, filter(None, columns.keys))) + sum(map(len, filter(None, columns.values)))
        self.record_bytes = total // max(1, len(columns.keys))
        """The mean."""

    @property
    def left(self) -> int:
        return len(self._keys) - self._at

    def cut(self, count: int, into: dict[bytes | None, bytes | None]) -> int:
        """Put the next `count` records into a mapping; offset of the one behind them."""
        start, self._at = self._at, min(self._at + count, len(self._keys))
        into.update(zip(self._keys[start : self._at], self._values[start : self._at], strict=True))
        return self.next_offset if not self.left else self._offsets[self._at - 1] + 1


class Restoration:
    """Made by `Restorer.begin`. It goes on until `complete` or `end`, or until it fails.

    Its changelog is first *placed*: the leader is asked where its log begins and ends, and a store that
    cannot be a part of that is emptied. From then on what is fetched is applied in order, slice by slice,
    each with its checkpoint. Nothing is awaited between the decision to apply a slice and its end, so
    once this is over nothing of it touches the store any more.
    """

    def __init__(
        self,
        task: TaskId,
        changelog: TopicPartition,
        store: Restorable,
        *,
        changelogs: Changelogs,
        clock: Clock,
    ) -> None:
        self.task = task
        self.changelog = changelog
        self.store = store
        self.restored = 0
        """Records applied."""
        self.failure: BaseException | None = None
        self.over = False
        """True from its end, or its failure, on."""
        self.placed = False
        self.placings = 0
        """In a row, without anything that was applied in between."""
        self._changelogs = changelogs
        self._clock = clock
        self._end_known = 0
        """The high watermark when it was placed last."""
        self._at = 0
        """What the checkpoint is, once it is placed."""
        self._unapplied: _Unapplied | None = None
        now = clock.monotonic()
        self._records = Rate(now)
        self._offsets = Rate(now)
        self._news = asyncio.Event()

    def __repr__(self) -> str:
        return f"Restoration({self.task}, {self.changelog}, at {self.store.checkpoint}, lag {self.lag})"

    # --- how far it is --------------------------------------------------------------------------

    @property
    def lag(self) -> int | None:
        """Offsets below the high watermark that are not applied yet; None while that is not known.

        As many records at most: compaction leaves the offsets of what it takes out.
        """
        if not self.placed or self.failure is not None:
            return None
        end = max(self._end_known, self._changelogs.high_watermark(self.changelog) or 0)
        return max(0, end - self.store.checkpoint)

    @property
    def records_per_s(self) -> float:
        return self._records.per_s(self._clock.monotonic())

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the lag is 0 at the present rate; None if nobody can tell."""
        lag = self.lag
        return None if lag is None else remaining_s(lag, self._offsets.per_s(self._clock.monotonic()))

    # --- waiting for it -------------------------------------------------------------------------

    async def within(self, lag: int) -> None:
        """Return once no more than this is left. It goes on all the same (CORRECTNESS S1, S7).

        Raises what it failed with, InvalidRequest if it is ended meanwhile.
        """
        while True:
            self._check()
            left = self.lag
            if left is not None and left <= lag:
                return
            await self._changed()

    async def complete(self) -> int:
        """Restore to where the changelog ends now, and end. Returns that offset, the store's checkpoint.

        It is the leader's own end, whether all of it is committed or not: what a former owner has still
        appended belongs to the state, or is cut off, and who extends the log has to know which. Waits for
        a leader. Raises what it failed with, InvalidRequest if it is ended meanwhile,
        UnknownTopicOrPartition if the changelog is not the one any more that it was.
        """
        self._check()
        await self._changelogs.check_identity(self.changelog)
        end: int | None = None
        while True:
            self._check()
            before = self.store.checkpoint if self.placed else 0
            listed = await self._changelogs.bounds(self.changelog)
            self._check()
            if listed.log_end_offset < before:
                self._changelogs.reopen(self)  # the log has lost what the store has
            end = listed.log_end_offset if end is None else min(end, listed.log_end_offset)
            if await self._reached(end):
                checkpoint = self.store.checkpoint
                self.finish()
                return checkpoint

    async def end(self) -> None:
        """Stop. Nothing of it touches the store any more. What is restored stays, with its checkpoint."""
        self.finish()

    async def _reached(self, offset: int) -> bool:
        """Wait for that, but not for ever. Raises as `within`."""
        try:
            async with asyncio.timeout(END_AGAIN_S):
                while not self.placed or self.store.checkpoint < offset:
                    await self._changed()
                    self._check()
        except TimeoutError:
            return False
        return True

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self.over:
            raise InvalidRequest(f"the restoration of {self.task} has ended")

    async def _changed(self) -> None:
        self._news.clear()
        await self._news.wait()

    # --- what the restorer does with it -----------------------------------------------------------

    def place(self, listed: ListedOffset) -> None:
        """The log begins and ends so: empty a store that does not lie within, and be ready to read."""
        start, end, checkpoint = listed.log_start_offset, listed.log_end_offset, self.store.checkpoint
        if checkpoint and not start <= checkpoint <= end:
            logger.warning(
                "%s: the store of %s is at %d, its log has offsets %d to %d: it is restored from the start",
                self.changelog, self.task, checkpoint, start, end,
            )  # fmt: skip
            self.store.clear()
        if self.store.checkpoint < start:
            self.store.apply((), start)
        self._at = self.store.checkpoint
        self._end_known = listed.high_watermark
        self._unapplied = None
        self.placed = True
        self._news.set()

    def step(self) -> bool:
        """Apply a slice of what has come; False if nothing has.

        Raises UndecodableBatch, and as the store does.
        """
        if self.over or not self.placed:
            return False
        changes: dict[bytes | None, bytes | None] = {}
        applied, room, checkpoint = 0, SLICE_BYTES, self.store.checkpoint
        before = checkpoint
        assert before == self._at, (self, before, self._at)  # nobody else writes to it
        while room > 0 and applied < SLICE_RECORDS:
            batch = self._unapplied or self._next(checkpoint)
            if batch is None:
                break
            size = max(1, batch.record_bytes)
            count = min(batch.left, SLICE_RECORDS - applied, -(-room // size))
            checkpoint = batch.cut(count, changes)
            self._unapplied = batch if batch.left else None
            applied += count
            room -= max(1, count * size)
        if checkpoint == before:
            return False
        if None in changes:
            del changes[None]
            logger.error("%s: records below %d without a key are passed over", self.changelog, checkpoint)
        self.store.apply(cast(Iterable[tuple[bytes, bytes | None]], changes.items()), checkpoint)
        self._at = checkpoint
        self._count(applied, checkpoint - before)
        return True

    def _next(self, checkpoint: int) -> _Unapplied | None:
        """The next batch, without what the store has already."""
        while (batch := self._changelogs.take(self.changelog)) is not None:
            if batch.next_offset > checkpoint:
                return _Unapplied(batch._replace(from_offset=checkpoint))
        return None

    def _count(self, records: int, offsets: int) -> None:
        now = self._clock.monotonic()
        self.restored += records
        self.placings = 0
        self._records.count(records, now)
        self._offsets.count(offsets, now)
        self._news.set()

    def fail(self, failure: BaseException) -> None:
        """Whoever waits raises this, now and later."""
        if not self.over:
            logger.error("%s cannot be restored from %s", self.task, self.changelog, exc_info=failure)
            self.failure = failure
            self.finish()

    def finish(self) -> None:
        """The end, for whatever reason."""
        if not self.over:
            self.over = True
            self._unapplied = None
            self._changelogs.forget(self)
            self._news.set()
