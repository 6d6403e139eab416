"""Writes one task's rows to one partition of a topic, each of them once, even if other attempts write them
too.

One batch is in flight at a time. A broker's answer may be for a batch of another attempt that has the same
sequence numbers: unless the answer says that this very request appended it, the batch is read back. Only an
attempt that knows the log's content may append behind it; this makes each append a compare-and-set.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from strandline.errors import (
    DuplicateSequence,
    InvalidProducerEpoch,
    MessageTooLarge,
    OutOfOrderSequence,
    StrandlineError,
    UnknownProducerId,
)
from strandline.ids import NO_TOPIC_ID, TopicId, TopicPartition
from strandline.pipeline.core.repair import (
    WINDOW_OFFSETS,
    FoundBatch,
    Progress,
    found_batches,
    same_batch,
    windows_back,
)
from strandline.producer.bulk import headers_size
from strandline.producer.core.batch import RECORD_OVERHEAD_MAX
from strandline.records import HEADER_BYTES, Codec, PackedRecords, RecordFields, pack, pack_within
from strandline.vocabulary.log import ProducerIdentity

logger = logging.getLogger(__name__)

GENERATIONS_MAX: Final = 100
REFUSALS_MAX: Final = 20
"""The limit of consecutive refusals that searches of the log do not explain."""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The start and end of a partition's log, fully committed, as reported by the leader of this epoch."""

    start: int
    end: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """The facts of a topic that a writer needs. `bytes_max`: size of a message."""

    partitions: int
    bytes_max: int
    compacts: bool
    topic_id: TopicId = NO_TOPIC_ID
    """A batch is written to this incarnation of the topic, and to no other."""


class Acked(NamedTuple):
    """A committed batch with the sent sequence numbers. `appended`: by the answered request, so it is the
    sent batch; otherwise it was there before, and may be another one."""

    offset: int
    appended: bool


class PartitionLog(Protocol):
    """One partition's log, over changes of its leader. Each method raises when its time is up."""

    async def append(self, records: bytes) -> Acked:
        """Send a sealed batch until it is committed, or one with the same identity and sequence numbers is.
        Raises the broker's refusal."""
        ...

    async def batch_at(self, offset: int) -> bytes:
        """Bytes that begin with the batch at this committed offset; empty if the log starts after it."""
        ...

    async def end(self) -> LogEnd:
        """The present end of the log; returns once everything up to it is committed."""
        ...

    def read(self, start: int, end: int) -> AsyncIterator[bytes]:
        """Whole committed batches, from the one with offset `start` to the one with `end` - 1."""
        ...


class Written(NamedTuple):
    """The result of a task's rows for a partition. The offsets are -1 if there is no record."""

    name: TopicPartition
    first_offset: int
    last_offset: int
    records: int
    matched: int
    """The part of the records that another attempt had written."""
    unmatched: int
    """Further records that other attempts wrote for this piece and that match no row of this attempt."""


def row_bytes(row: RecordFields) -> int:
    """The largest size of a row in a batch, in bytes."""
    key, value, headers, _ = row
    return RECORD_OVERHEAD_MAX + len(key or b"") + len(value or b"") + headers_size(headers)


def cut(rows: Sequence[RecordFields], bytes_max: int) -> list[list[RecordFields]]:
    """The rows in order, in pieces that fit a batch of this size; a row that does not is alone."""
    pieces: list[list[RecordFields]] = []
    room = 0
    for row in rows:
        size = row_bytes(row)
        if not pieces or size > room:
            pieces.append([])
            room = bytes_max - HEADER_BYTES
        pieces[-1].append(row)
        room -= size
    return pieces


class ExactlyOnceWriter:
    """Writes the rows of one attempt to one partition. `identify`: returns the identity of a generation, from
    0 on.

    `timed`: the rows have timestamps of their own, which identify them; else this attempt dated them.
    `window_offsets`: how far back the log is searched first.
    """

    def __init__(
        self,
        name: TopicPartition,
        log: PartitionLog,
        identify: Callable[[int], ProducerIdentity],
        *,
        codec: Codec,
        bytes_max: int,
        timed: bool,
        compacts: bool,
        window_offsets: int = WINDOW_OFFSETS,
    ) -> None:
        self.name = name
        self._log = log
        self._identify = identify
        self._codec = codec
        self._bytes_max = bytes_max
        self._timed = timed
        self._window_offsets = window_offsets
        self._progress = Progress(timed=timed, compacts=compacts)
        self._generation = 0
        self._rows = 0
        self._refusals = 0
        self._nothing_found_in: int | None = None
        """The leader epoch in which the log lacked the records that its leader knew of."""

    async def write(self, rows: Sequence[RecordFields]) -> None:
        """Return once each of these rows is in the log, once. Raises permanent errors.

        InvalidProducerEpoch: a later batch of the query is in the log, so this attempt is obsolete.
        """
        self._rows += len(rows)
        await self._write(rows)

    async def write_batch(self, packed: PackedRecords, rows: Callable[[], Sequence[RecordFields]]) -> None:
        """As `write`, of rows that are packed already, as one batch that fits; `rows` returns them. It is
        called only if some of them may be in the log, or the topic takes smaller batches now."""
        self._rows += packed.record_count
        if not self._progress.may_have_found:
            try:
                if await self._append(packed):
                    return
            except MessageTooLarge:
                if packed.record_count == 1:
                    raise
        await self._write(rows())

    async def _write(self, rows: Sequence[RecordFields]) -> None:
        waiting = deque(cut(rows, self._bytes_max))
        while waiting:
            left = self._progress.missing(waiting.popleft())
            if not left:
                continue
            try:
                written = await self._append(self._pack(left))
            except MessageTooLarge as error:
                if len(left) == 1:
                    raise
                half = len(left) // 2
                logger.info("%s takes smaller batches now: %s", self.name, error.message)
                waiting.extendleft((left[half:], left[:half]))
                continue
            if not written:
                waiting.appendleft(left)

    def end(self) -> Written:
        """The result of this and other attempts; warns of irregularities."""
        progress = self._progress
        if progress.unmatched:
            logger.warning(
                "%s: %d records that an earlier attempt wrote are no rows of this one: the query is not "
                "deterministic, and what it has now is written besides",
                self.name, progress.unmatched,
            )  # fmt: skip
        if progress.gone:
            logger.warning(
                "%s: of what an earlier attempt wrote %d records are in the log no more, by compaction or "
                "retention: they may have been written again",
                self.name, progress.gone,
            )  # fmt: skip
        first = -1 if progress.first_offset is None else progress.first_offset
        return Written(
            self.name, first, progress.last_offset, self._rows, progress.matched, progress.unmatched
        )

    # --- appending -----------------------------------------------------------------------------

    @property
    def _identity(self) -> ProducerIdentity:
        return self._identify(self._generation)

    async def _append(self, packed: PackedRecords) -> bool:
        """True if the records are in the log now; False if other attempts were first, whose records are known
        now."""
        identity = self._identity
        sealed = packed.seal(
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=self._progress.next_sequence,
        )
        try:
            acked = await self._log.append(sealed)
        except InvalidProducerEpoch as error:
            raise InvalidProducerEpoch(
                f"{self.name} has records of a later batch than this one, {identity.producer_epoch}: this is "
                "an attempt that was given up, or the query's checkpoint was set back. Nothing more is "
                f"written ({error.message})"
            ) from error
        except (DuplicateSequence, OutOfOrderSequence, UnknownProducerId) as error:
            await self._search(error)
            return False
        if not acked.appended and not await self._is_mine(sealed, acked.offset):
            await self._search(None)
            return False
        self._progress.appended(acked.offset, packed.record_count)
        self._nothing_found_in = None
        self._refusals = 0
        return True

    async def _is_mine(self, sealed: bytes, offset: int) -> bool:
        """Whether the batch at an offset is the sent one, whose earlier answer may have been lost."""
        stored = await self._log.batch_at(offset)
        if not stored:
            logger.warning("%s: what was written at offset %d is deleted already", self.name, offset)
        return not stored or same_batch(sealed, stored, offset)

    def _pack(self, rows: Sequence[RecordFields]) -> PackedRecords:
        return pack_within(lambda codec: pack(rows, codec=codec), self._codec, self._bytes_max)

    # --- finding records of other attempts -----------------------------------------------------

    async def _search(self, error: StrandlineError | None) -> None:
        """Search the log for unknown records of this identity."""
        progress = self._progress
        end = await self._log.end()
        if progress.searched_to is None:
            found = await self._search_back(end)
        else:
            found = await self._found_in(progress.searched_to, end.end)
        forgotten = isinstance(error, UnknownProducerId)
        known = progress.found(found, end.end, forgotten=forgotten)
        logger.info(
            "%s: %d batches of this micro-batch are in the log already; going on with sequence %d (%s)",
            self.name, len(found), progress.next_sequence, error or "another attempt's batch",
        )  # fmt: skip
        self._refusals = 0 if found else self._refusals + 1
        if self._refusals > REFUSALS_MAX:
            raise OutOfOrderSequence(f"{self.name} takes nothing behind what it has: {error}")
        if known:
            self._nothing_found_in = None
        elif self._nothing_found_in == end.epoch:
            self._renew()
        else:
            self._nothing_found_in = end.epoch

    def _renew(self) -> None:
        """The leader knows of records that the log no longer has, so their last sequence is unknown: take a
        new identity.

        This happens only after two searches in one epoch, so it is not caused by an attempt whose records
        were lost with their leader.
        """
        if self._generation == GENERATIONS_MAX:
            raise OutOfOrderSequence(f"{self.name} loses what is written as soon as it is written")
        self._generation += 1
        self._nothing_found_in = None
        self._progress.begin_again()
        logger.warning(
            "%s: an earlier attempt wrote records that are in the log no more: all rows are written",
            self.name,
        )

    async def _search_back(self, end: LogEnd) -> list[FoundBatch]:
        """Search from the end back to the begin of the identity, and at least to this attempt's own first
        record."""
        found: list[FoundBatch] = []
        mine = self._progress.first_of_mine
        for first, last in windows_back(end.start, end.end, self._window_offsets):
            found = [*await self._found_in(first, last), *found]
            complete = any(batch.base_sequence == 0 for batch in found)
            if complete and (mine is None or first <= mine):
                break
        return found

    async def _found_in(self, start: int, end: int) -> list[FoundBatch]:
        identity = self._identity
        found: list[FoundBatch] = []
        async for records in self._log.read(start, end):
            found += found_batches(records, identity, first=start, end=end, timed=self._timed)
        return found
