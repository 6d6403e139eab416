"""A running task: processes records, and commits the results atomically."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice

from strandline.client.core.positions import ReadLog
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.records import Columns, RecordHeaders
from strandline.streams.core.origins import ORIGIN_HEADER
from strandline.streams.core.positions import Positions
from strandline.streams.core.task import TaskId
from strandline.streams.runtime.tasks.changelog_writer import ChangelogWriter
from strandline.streams.runtime.tasks.outputs import Outputs
from strandline.streams.runtime.tasks.stateless import STATELESS
from strandline.streams.runtime.tasks.transactions import Part, Transactions
from strandline.streams.storage.errors import StoreCorrupt
from strandline.streams.storage.state import TaskState
from strandline.streams.storage.stores import Change
from strandline.streams.topology.subtopology import Subtopology
from strandline.vocabulary.log_position import LogPosition, same_topic

OnCommitted = Callable[[Mapping[TopicPartition, LogPosition]], None]
"""Gets the positions that are committed now."""


class ProcessingFailed(StrandlineError):
    """A record could not be decoded, or a processor raised. The message names the record."""


class ActiveTask:
    """Processing never blocks, and goes on during a commit, for the next one.

    A commit is of what was processed before it began. With `transactions` it is part of one of the member's,
    and its outputs are collected until then. Else it has this order: the outputs have been acknowledged, then
    the changelog gets all changed state with the resulting positions, in one batch, then the store gets them
    (CORRECTNESS S3). A crash between two steps repeats outputs, but neither loses nor doubles state.
    """

    def __init__(
        self,
        task: TaskId,
        subtopology: Subtopology,
        *,
        state: TaskState | None,
        writer: ChangelogWriter | None,
        positions: Positions,
        outputs: Outputs,
        commit_bytes: int,
        transactions: Transactions | None = None,
        on_committed: OnCommitted = lambda positions: None,
        has_new_starts: bool = False,
    ) -> None:
        """`on_committed` is called at the end of each transaction, also if the task was abandoned meanwhile.
        `has_new_starts`: `positions` has starts of inputs that are not in the changelog. The first commit
        writes them, even before a record is processed: the next owner would begin elsewhere."""
        self.task = task
        self._state = state
        self._writer = writer
        self._positions = positions
        self._outputs = outputs
        self._commit_bytes = commit_bytes
        self._transactions = transactions
        self._on_committed = on_committed
        self._run = subtopology.pipeline(state or STATELESS, outputs.emit_to)
        self._reads_origins = subtopology.reads_repartition
        self._committing = asyncio.Lock()
        self._processed = 0
        """The number of calls of `process` that moved a position."""
        self._settled = -1 if has_new_starts else 0
        """Its value when the last commit began; before the first one of new starts another value."""
        self.committed = self.positions()
        """The positions of the next records to process, as of the last commit."""
        self._abandoned = False

    @property
    def full(self) -> bool:
        """True if a commit is due before more records are processed."""
        if self._transactions is not None and self._outputs.room < 0:
            return True
        return self._state is not None and self._state.dirty_bytes >= self._commit_bytes

    @property
    def commits_offsets(self) -> bool:
        """True if its commits have the group's offsets."""
        return self._transactions is not None

    @property
    def uncommitted(self) -> bool:
        return self._processed != self._settled and not self._abandoned

    def positions(self) -> dict[TopicPartition, LogPosition]:
        """The positions of the next records to process."""
        return dict(self._positions.inputs)

    def check(self, source: TopicPartition, log: ReadLog) -> None:
        """Raises ProcessingFailed, and ends the task, if this is not the log that it has read, or goes on
        below what it has read."""
        read = self._positions.inputs.get(source)
        if read is not None and not (
            same_topic(read.topic_id, log.topic_id) and (log.position is None or log.position >= read.offset)
        ):
            self.abandon()
            raise ProcessingFailed(self._another(source, read, log))

    def passed(self, source: TopicPartition, log: ReadLog) -> None:
        """All that the log has before its position is processed: there are no records behind the last one."""
        read = self._positions.inputs.get(source)
        if read is not None and log.position is not None and log.position > read.offset:
            self._positions.inputs[source] = log.at(log.position)
            self._processed += 1

    def process(self, source: TopicPartition, records: Columns, start: int, log: ReadLog) -> int:
        """Process records of this log from index `start` on until a commit is due or outputs must be sent.

        Returns the index of the first unprocessed record. Raises ProcessingFailed, StoreCorrupt.
        """
        self.check(source, log._replace(position=records.offsets[start]))
        run, begin, outputs, limit = self._run, self._outputs.begin, self._outputs, self._commit_bytes
        state = self._state or STATELESS
        outputs.come_from(source)
        end, offset = start, -1
        rows = islice(zip(*records, strict=True), start, None)
        try:
            for offset, timestamp_ms, key, value, headers in rows:
                end += 1
                if self._reads_origins and headers:
                    headers, repeated = self._without_origin(headers)
                    if repeated:
                        continue
                begin(offset)
                run(key, value, timestamp_ms, headers)
                if state.dirty_bytes >= limit or outputs.room < 0:
                    break
        except StoreCorrupt:
            raise
        except Exception as error:
            self.abandon()  # the state may have part of this record's changes
            what = "; ".join((repr(error), *getattr(error, "__notes__", ())))
            raise ProcessingFailed(f"task {self.task}, {source} offset {offset}: {what}") from error
        if offset >= 0:
            self._positions.inputs[source] = log.at(offset + 1)
            self._processed += 1
        return end

    def _another(self, source: TopicPartition, read: LogPosition, log: ReadLog) -> str:
        """Why the log that is read now is not the one that was read, and what to do."""
        if not same_topic(read.topic_id, log.topic_id):
            why = (
                f"the topic was made anew: the one with id {read.topic_id} was deleted, and another topic "
                f"has its name now, with id {log.topic_id}"
            )
        elif read.topic_id and log.topic_id:
            why = f"the log has lost the records from {log.position} on, in an election with a loss"
        else:
            why = (
                f"it begins again at {log.position}: the log has lost records in an election with a loss, or "
                "the topic was made anew: another topic has its name now"
            )
        if self._state is None:
            what = "To go on with what is there, start the application again"
        else:
            what = (
                "What is counted is of the old records: run it with another application_id, or delete its "
                "changelogs, to count what is there"
            )
        return f"task {self.task} has read {source} up to offset {read.offset}: {why}. {what}"

    def _without_origin(self, headers: RecordHeaders) -> tuple[RecordHeaders, bool]:
        """The record's own headers, and True if it was counted before (CORRECTNESS S9); a stateless task does
        not check and passes it on."""
        for name, content in headers:
            if name == ORIGIN_HEADER and content is not None:
                rest = () if len(headers) == 1 else tuple(h for h in headers if h[0] != ORIGIN_HEADER)
                return rest, self._state is not None and self._positions.origins.seen(content)
        return headers, False

    async def send(self) -> None:
        """Send the collected outputs, unless they wait for a transaction. If it fails or is cancelled,
        nothing more is committed."""
        if self._transactions is not None:
            return
        with self._whole():
            await self._outputs.send()

    async def commit(self) -> None:
        """Commit the records processed so far. Raises UnexpectedOffset if another client has extended the
        changelog, and TransactionAbortable if the transaction was aborted: then nothing since the last commit
        counts, and the task must be restored."""
        async with self._committing:
            if not self.uncommitted:
                return
            processed, positions = self._processed, self.positions()
            changes = [] if self._state is None else self._state.changes(self._positions)
            if self._transactions is None:
                await self._write_in_order(changes)
            else:
                await self._write_as_one(self._transactions, changes, positions)
            if self.abandoned():
                return
            if self._state is not None and self._writer is not None:
                self._state.settle(*self._writer.checkpoint)
            self._settled, self.committed = processed, positions

    async def _write_in_order(self, changes: Sequence[Change]) -> None:
        with self._whole():
            await self._outputs.flush()
        if self._writer is not None and not self.abandoned():
            await self._writer.append(changes)

    async def _write_as_one(
        self,
        transactions: Transactions,
        changes: Sequence[Change],
        positions: Mapping[TopicPartition, LogPosition],
    ) -> None:
        outputs = self._outputs.take()

        async def write() -> None:
            await self._outputs.pass_on(outputs)
            if self._writer is not None:
                await self._writer.append(changes)

        with self._whole():
            await transactions.commit(Part(self.task, positions, write, self.abandoned))
        self._on_committed(positions)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Abandons the task if the block raises or is cancelled: outputs that were not sent are lost, and the
        records that they are of may not be committed."""
        try:
            yield
        except BaseException:
            self.abandon()
            raise

    async def undecided(self) -> None:
        """Return once no transaction has a part of it: only then it is known where the task goes on."""
        if self._transactions is not None:
            await self.settled()

    async def settled(self) -> None:
        """Return once no commit is under way."""
        async with self._committing:
            return

    def abandon(self) -> None:
        """Stop: apart from operations in progress, the store and the changelog are not touched again."""
        self._abandoned = True

    def abandoned(self) -> bool:
        """True once uncommitted results are void."""
        return self._abandoned
