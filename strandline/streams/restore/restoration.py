"""Restores one changelog into one store, slice by slice, and notifies waiters of its progress."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, Protocol, cast

from strandline.client.reading.open_batch import OpenBatch
from strandline.client.reading.records import FetchedBatch
from strandline.config.limits import KIB
from strandline.errors import InvalidRequest
from strandline.ids import NO_EPOCH, TopicPartition
from strandline.ports import Clock
from strandline.streams.core.checkpoint import Checkpoint, is_cut, objection
from strandline.streams.core.progress import Rate, remaining_s
from strandline.streams.core.task import TaskId
from strandline.vocabulary.log import ListedOffset
from strandline.vocabulary.log_position import EpochEnd

logger = logging.getLogger(__name__)

SLICE_RECORDS: Final = 2_000
SLICE_BYTES: Final = 512 * KIB
"""The most that one slice writes, except for its last record; a slice blocks the event loop."""
END_AGAIN_S: Final = 1.0
"""How often the end is requested again: a new leader may have truncated uncommitted records."""


class Restorable(Protocol):
    """The target of a restoration: a task's store."""

    @property
    def checkpoint(self) -> int:
        """Offset of the next record to apply."""
        ...

    @property
    def kept(self) -> Checkpoint:
        """The same, with the log that it belongs to."""
        ...

    def apply(
        self,
        changes: Iterable[tuple[bytes, bytes | None]],
        checkpoint: int,
        leader_epoch: int = NO_EPOCH,
        as_of_ms: int | None = None,
    ) -> None: ...

    def clear(self) -> None:
        """Remove everything; the checkpoint is then 0."""
        ...


class Changelogs(Protocol):
    """The services that a restoration needs; the restorer provides them."""

    async def bounds(self, changelog: TopicPartition) -> ListedOffset:
        """The current offsets of the leader's log."""
        ...

    async def epoch_end(self, changelog: TopicPartition, epoch: int) -> EpochEnd | None:
        """Where the largest leader epoch not above this one ends in the leader's log; None for NO_EPOCH, and
        if the leader cannot tell."""
        ...

    async def check_identity(self, changelog: TopicPartition) -> None:
        """Raises UnknownTopicOrPartition if another topic has this name now."""
        ...

    def take(self, changelog: TopicPartition) -> FetchedBatch | None:
        """The next batch, if one has arrived."""
        ...

    def high_watermark(self, changelog: TopicPartition) -> int | None:
        """The highest one that came with fetched records."""
        ...

    def reopen(self, restoration: Restoration) -> None:
        """Look up again where to read."""
        ...

    def forget(self, restoration: Restoration) -> None:
        """Stop reading it."""
        ...


class Restoration:
    """Made by `Restorer.begin`. It runs until `complete` or `end`, or until it fails.

    First its changelog is *placed*: the leader reports where its log begins and ends, and a store that cannot
    be a part of that log is emptied. From then on fetched records are applied in order, slice by slice, each
    with its checkpoint: what is committed, up to the first open transaction. There is no await between the
    decision to apply a slice and its end, so an ended restoration never touches the store again.
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
        """True after its end or its failure."""
        self.placed = False
        self.placings = 0
        """Consecutive placements without an applied record."""
        self._changelogs = changelogs
        self._clock = clock
        self._end_known = 0
        """The high watermark at the last placement."""
        self._at = 0
        """The checkpoint, once it is placed."""
        self._as_of_ms: int | None = None
        """For the next slice: when the store was empty, or at the log's end."""
        self._unapplied: OpenBatch | None = None
        now = clock.monotonic()
        self._records = Rate(now)
        self._offsets = Rate(now)
        self._progress = asyncio.Event()

    def __repr__(self) -> str:
        return f"Restoration({self.task}, {self.changelog}, at {self.store.checkpoint}, lag {self.lag})"

    # --- progress ---------------------------------------------------------------------------------

    @property
    def lag(self) -> int | None:
        """Offsets below the high watermark that are not yet applied; None while unknown.

        There are at most that many records: compaction removes records but not their offsets.
        """
        if not self.placed or self.failure is not None:
            return None
        return self._lag_at(self.store.checkpoint)

    def _lag_at(self, offset: int) -> int:
        end = max(self._end_known, self._changelogs.high_watermark(self.changelog) or 0)
        return max(0, end - offset)

    @property
    def records_per_s(self) -> float:
        return self._records.per_s(self._clock.monotonic())

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the lag is 0 at the present rate; None if unknown."""
        lag = self.lag
        return None if lag is None else remaining_s(lag, self._offsets.per_s(self._clock.monotonic()))

    # --- waiting ----------------------------------------------------------------------------------

    async def within(self, lag: int) -> None:
        """Return once the lag is at most this. The restoration continues (CORRECTNESS S1, S7).

        Raises its failure, or InvalidRequest if it is ended meanwhile.
        """
        while True:
            self._check()
            left = self.lag
            if left is not None and left <= lag:
                return
            await self._changed()

    async def complete(self) -> int:
        """Restore up to the current end of the changelog, and end. Returns that offset, the store's
        checkpoint.

        It is the leader's log end, including uncommitted records: records that a former owner has still
        appended belong to the state, or are truncated, and the next writer must know which. Waits for a
        leader. Raises its failure, InvalidRequest if it is ended meanwhile, UnknownTopicOrPartition if
        another topic has the changelog's name now.
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
                self._changelogs.reopen(self)  # the log has lost records that the store has
            end = listed.log_end_offset if end is None else min(end, listed.log_end_offset)
            if await self._reached(end):
                is_cut = await self._is_cut(self.store.kept)
                self._check()
                if is_cut:
                    self._changelogs.reopen(self)
                    continue
                checkpoint = self.store.checkpoint
                self.finish()
                return checkpoint

    async def end(self) -> None:
        """Stop: the store is not touched again. Restored state stays, with its checkpoint."""
        self.finish()

    async def _is_cut(self, kept: Checkpoint) -> bool:
        """True if the log has lost what is in the store, and has grown again while it was read."""
        end = await self._changelogs.epoch_end(self.changelog, kept.leader_epoch)
        return end is not None and is_cut(kept, end)

    async def _reached(self, offset: int) -> bool:
        """Wait for the offset, but at most END_AGAIN_S; False after that. Raises as `within`."""
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
        self._progress.clear()
        await self._progress.wait()

    # --- called by the restorer -------------------------------------------------------------------

    def place(
        self, listed: ListedOffset, end: EpochEnd | None = None, tombstones_ms: int | None = None
    ) -> None:
        """Set the range of the log: empty a store that cannot continue with it, and be ready to read. The
        arguments are those of `objection`."""
        now_ms, start = self._clock.wall_ms(), listed.log_start_offset
        if why := objection(self.store.kept, listed, end, tombstones_ms, now_ms):
            logger.warning(
                "%s: the store of %s is at %d, and %s: it is restored from the start",
                self.changelog, self.task, self.store.checkpoint, why,
            )  # fmt: skip
            self.store.clear()
        self._as_of_ms = now_ms if self.store.checkpoint in (0, listed.log_end_offset) else None
        if self.store.checkpoint < start:
            self.store.apply((), start, as_of_ms=now_ms)
        self._at = self.store.checkpoint
        self._end_known = listed.high_watermark
        self._unapplied = None
        self.placed = True
        self._progress.set()

    def step(self) -> bool:
        """Apply a slice of the arrived records; False if there are none.

        Raises UndecodableBatch, and errors of the store.
        """
        if self.over or not self.placed:
            return False
        changes: dict[bytes | None, bytes | None] = {}
        applied, room, (checkpoint, epoch, _) = 0, SLICE_BYTES, self.store.kept
        before = checkpoint
        assert before == self._at, (self, before, self._at)  # there is no other writer
        while room > 0 and applied < SLICE_RECORDS:
            unapplied = self._unapplied or self._next(checkpoint)
            if unapplied is None:
                break
            size = max(1, round(unapplied.record_bytes))
            count = min(unapplied.untaken, SLICE_RECORDS - applied, -(-room // size))
            taken, batch = unapplied.columns(count), unapplied.batch
            changes.update(zip(taken.keys, taken.values, strict=True))
            self._unapplied = unapplied if unapplied.untaken else None
            checkpoint = taken.offsets[-1] + 1 if unapplied.untaken else batch.next_offset
            epoch = batch.header.leader_epoch
            applied += count
            room -= max(1, count * size)
        if checkpoint == before:
            return False
        if None in changes:
            del changes[None]
            logger.error("%s: records below %d without a key are passed over", self.changelog, checkpoint)
        as_of_ms = self._as_of_ms if self._lag_at(checkpoint) else self._clock.wall_ms()
        self.store.apply(
            cast(Iterable[tuple[bytes, bytes | None]], changes.items()), checkpoint, epoch, as_of_ms
        )
        self._at, self._as_of_ms = checkpoint, None
        self._count(applied, checkpoint - before)
        return True

    def _next(self, checkpoint: int) -> OpenBatch | None:
        """The next batch, without the records that the store already has."""
        while (batch := self._changelogs.take(self.changelog)) is not None:
            if batch.next_offset > checkpoint:
                return OpenBatch(batch._replace(from_offset=max(checkpoint, batch.from_offset)))
        return None

    def _count(self, records: int, offsets: int) -> None:
        now = self._clock.monotonic()
        self.restored += records
        self.placings = 0
        self._records.count(records, now)
        self._offsets.count(offsets, now)
        self._progress.set()

    def fail(self, failure: BaseException) -> None:
        """Fail: every present and later waiter raises this."""
        if not self.over:
            logger.error("%s cannot be restored from %s", self.task, self.changelog, exc_info=failure)
            self.failure = failure
            self.finish()

    def finish(self) -> None:
        """End, for any reason."""
        if not self.over:
            self.over = True
            self._unapplied = None
            self._changelogs.forget(self)
            self._progress.set()
