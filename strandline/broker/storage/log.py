"""One replica's log: segments, epochs, producer state and the rules between them.

Synchronous: the page cache answers in microseconds. Only `flush` may run in a thread, during appends and
reads. A failed write, sync or read fences the log at once: later calls raise StorageFailed, and readers never
see what the write left (CORRECTNESS E14). Without a free descriptor all methods but cuts raise StorageBusy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from sys import maxsize

from strandline.broker.core.replication.epochs import EpochCache
from strandline.broker.core.replication.producer_state import By, Duplicate, ProducerState
from strandline.broker.storage import admission
from strandline.broker.storage.admission import NO_TIMESTAMP, Appended
from strandline.broker.storage.compaction.install import Compactor
from strandline.broker.storage.compaction.rewrite import Compaction
from strandline.broker.storage.fence import Fence
from strandline.broker.storage.provenance import Provenance
from strandline.broker.storage.recovery import Recovered, open_folder
from strandline.broker.storage.retention import has_expired, start_after_retention
from strandline.broker.storage.segment import Segment
from strandline.broker.storage.segments import Segments
from strandline.broker.storage.snapshots import load_producers, save_snapshot
from strandline.broker.storage.state_files.epoch_file import EpochFile
from strandline.broker.storage.state_files.log_state import StateFile
from strandline.broker.storage.state_files.sync_failure import save_failure
from strandline.broker.storage.sync_state import SyncState
from strandline.broker.storage.time_search import SearchStep
from strandline.config.limits import PRODUCER_EXPIRY_MS, PRODUCERS_PER_PARTITION_MAX
from strandline.errors import CorruptMessage, OffsetOutOfRange, StorageFailed, UnexpectedOffset
from strandline.ports import Clock, Files
from strandline.records import STAMP_BYTES, BatchHeader, stamp
from strandline.vocabulary.log_position import EpochEnd
from strandline.vocabulary.topic_config import TopicConfig


class PartitionLog:
    """The log of one replica: a batch for every offset from `log_start_offset` to `log_end_offset`."""

    def __init__(
        self,
        directory: Path,
        config: TopicConfig,
        *,
        clock: Clock,
        files: Files,
        recovered: Recovered,
        producers: ProducerState,
    ) -> None:
        """Use `open` instead."""
        self.directory = directory
        self.epochs: EpochCache = recovered.epochs
        """Leader epochs by start offset; for others to read only."""
        self.producers: ProducerState = producers
        """Producers by their last batches; for others to read only."""
        self.scanned_bytes = recovered.scanned_bytes
        """Bytes that were read and checked while opening; 0 after a clean close."""
        self.cut_bytes = recovered.cut_bytes
        """Bytes that were cut off the torn end while opening."""
        self._config, self._clock, self._files = config, clock, files
        self._fence = Fence(directory.name)
        self._fence.failed, self._fence.on_closed = recovered.failed, self._note_failure
        self.fail = self._fence.close
        """Ends the log: a file outside its folder, on which it depends, could not be written."""
        self.on_failed: Callable[[], None] | None = None
        """Called once when the log fails, on the thread that met the failure."""
        self._epoch_file = EpochFile(directory, recovered.epochs, files, is_new=recovered.is_new)
        self._cutting_to = maxsize  # the end of the cut in progress: records above it are not missed
        self._state = StateFile(directory, recovered.state, files)
        self._segments = Segments(directory, files, recovered.segments, clock.wall_ms())
        self._leftovers = recovered.leftovers
        self._segments.names_unsynced = recovered.names_changed  # of files that the last life did not sync
        self._sync_state = SyncState(self._state, self._segments.synced_offset, self.log_end_offset, clock)
        self._lock = threading.Lock()
        """Held by a flush, and by code that removes files or writes `log.json`."""
        self.compactor = Compactor(directory, self._segments, self._state, self._fence, self._lock, files)
        self.provenance = Provenance(
            directory, self._segments, self._state, self._sync_state, self._fence, self._lock, files,
            anchored=recovered.had_state,
        )  # fmt: skip

    @classmethod
    def open(
        cls, directory: Path, config: TopicConfig, *,
        clock: Clock, clean: bool, new: bool = False, power_lost: bool = False, files: Files,
        producers_max: int = PRODUCERS_PER_PARTITION_MAX, producer_expiry_ms: int = PRODUCER_EXPIRY_MS,
    ) -> PartitionLog:  # fmt: skip
        """Open or begin a log. `new`: its folder was just made, with nothing of a log in it. `clean`: the
        last life closed it cleanly, so nothing is scanned.

        Without it, or where the folder shows otherwise, the log is recovered, after a loss of power
        (`power_lost`) by other rules: see `recovery`. A folder that cannot be read gives a log that has
        `failed`, so that one bad disk does not stop the other replicas. Raises StorageBusy.
        """
        producers = ProducerState(producers_max=producers_max, expiry_ms=producer_expiry_ms)
        recovered = open_folder(
            directory, files=files, producers=producers, interval=config.index_interval_bytes,
            clean=clean, new=new, power_lost=power_lost, now_ms=clock.wall_ms(),
        )  # fmt: skip
        return cls(directory, config, clock=clock, files=files, recovered=recovered, producers=producers)

    def __repr__(self) -> str:
        return f"PartitionLog({self.directory.name}, {self.log_start_offset}..{self.log_end_offset})"

    # --- facts -------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        """The first offset that is not deleted. It may lie within a batch, which is kept whole."""
        return self._state.facts.log_start_offset

    @property
    def copy_start_offset(self) -> int:
        """The base offset of the batch that holds the log's start: a copy of the log begins there, since it
        has whole batches. Raises StorageFailed."""
        start = self.log_start_offset
        if start == self._segments.first.base_offset:
            return start
        with self._fence.repeatable:
            return self._segments.holding(start).boundary_of(start).offset

    @property
    def log_end_offset(self) -> int:
        """LEO: the offset that the next record gets."""
        return self._segments.active.next_offset

    @property
    def failed(self) -> str | None:
        """Why the log fenced itself. Never cleared: the next life of the process opens it again."""
        return self._fence.failed

    @property
    def corrupt(self) -> str | None:
        """Why this replica must not lead (E15). Stays, across restarts too, until `mark_whole`."""
        return self._state.facts.corrupt

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, also if that is deleted; -1 if there was none, or it is not known."""
        return self.epochs.epoch_at(self.log_end_offset - 1)

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    @property
    def unflushed_records(self) -> int:
        """Records that a loss of power could take."""
        return max(self.log_end_offset - self._sync_state.offset, 0)

    @property
    def has_unflushed_segments(self) -> bool:
        """True if a sealed segment is not synced: a flush in an idle moment saves a scan after a crash."""
        return self._sync_state.offset < self._segments.active.base_offset

    def needs_flush(self, now: float) -> bool:
        """True if new records may count only after a flush, or `flush.ms` asks for one now."""
        return self._sync_state.needs_flush(self.log_end_offset, self._config, now)

    def is_at_rest(self, now: float) -> bool:
        """True if there was no append for a while, and a flush now makes the log known to be whole (E3)."""
        return self._sync_state.is_at_rest(now)

    def end_offset_for(self, epoch: int) -> EpochEnd:
        """The largest epoch not above the given one, and where it ends here; (-1, -1) if undefined (T9)."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def reconfigure(self, config: TopicConfig) -> None:
        """Take another config; it holds from the next append, roll and retention on."""
        self._config = config

    # --- appending ---------------------------------------------------------------------------

    def begin_epoch(self, epoch: int) -> None:
        """Begin to lead: (epoch, LEO) is in the epoch file before this returns (T4).

        Raises StorageFailed, also for a corrupt log; ValueError if the log knows a newer epoch.
        """
        self._check_may_lead()
        with self._fence.repeatable:
            self._save_epochs(changed=self.epochs.assign(epoch, self.log_end_offset))

    def append_as_leader(
        self, records: bytes, epoch: int, *, now_ms: int,
        expected_offset: int | None = None, by: By = None, any_first_sequence: bool = False,
        from_client: bool = False,
    ) -> Appended:  # fmt: skip
        """Append one batch under the next offsets and this epoch. For `by` and more see `ProducerState`;
        `from_client`: `admission.check_client` has to pass, too.

        A batch that an idempotent producer sent before is not written again: its old offsets are returned,
        wherever the log ends by now. Raises before anything is written: CorruptMessage, MessageTooLarge,
        InvalidRecord, UnsupportedCompression, the errors of `ProducerState.check`, UnexpectedOffset unless
        the log ends at `expected_offset`. Raises StorageFailed if the log is, or becomes, fenced; ValueError.
        """
        self._check_may_lead()
        if epoch != self.epochs.latest:
            raise ValueError(f"{self!r} is in epoch {self.epochs.latest}, the append in {epoch}")
        config = self._config
        header = admission.from_producer(records, bytes_max=config.batch_bytes_max, keyed=config.compacts)
        known = admission.known_again(header, config)
        verdict = self.producers.check(known, now_ms, by, any_first_sequence=any_first_sequence)
        if isinstance(verdict, Duplicate):
            return Appended(verdict.base_offset, verdict.last_offset + 1, duplicate=True)
        base_offset = self.log_end_offset
        if expected_offset is not None and expected_offset != base_offset:
            raise UnexpectedOffset(
                f"{self.directory.name} ends at offset {base_offset}, not {expected_offset}",
                limit=base_offset,
            )
        if from_client:
            admission.check_client(records, header, config, now_ms)
        records, header = admission.stored(records, header, config, now_ms)
        with self._fence.repeatable:
            segment = self._segment_for(len(records), header.record_count, now_ms)
            head = stamp(header, base_offset=base_offset, leader_epoch=epoch)
            position = segment.write((head, memoryview(records)[STAMP_BYTES:]), len(records))
            self.producers.record(admission.known_again(header, config), base_offset, now_ms, by)
            segment.note(header, base_offset, position, config.index_interval_bytes, now_ms)
        append_time_ms = header.max_timestamp if header.is_log_append_time else NO_TIMESTAMP
        return Appended(base_offset, segment.next_offset, append_time_ms=append_time_ms)

    def append_as_follower(self, records: bytes) -> None:
        """Append the leader's batches, under the leader's offsets and epochs.

        Raises CorruptMessage, with nothing written, if a batch is damaged (E15), does not follow the LEO, or
        goes back to an older epoch; StorageFailed. Damaged files at the log's end are removed first."""
        start = self.log_end_offset
        records, headers = admission.from_leader(records, log_end_offset=start, last_epoch=self.last_epoch)
        now_ms = self._clock.wall_ms()
        with self._fence.repeatable:
            if self._leftovers:
                with self._lock:
                    self._discard_from(start)
            self._take_epochs(headers)
            segment = self._segment_for(len(records), headers[-1].next_offset - start, now_ms)
            position = segment.write((records,), len(records))
            for header in headers:
                known = admission.known_again(header, self._config)
                self.producers.record(known, header.base_offset, now_ms)
                at = position + header.position
                segment.note(header, header.base_offset, at, self._config.index_interval_bytes, now_ms)

    def _take_epochs(self, headers: list[BatchHeader]) -> None:
        """Store the epochs that begin in these batches before the batches are written (T1)."""
        # An epoch in which this broker led and wrote nothing is not an epoch of these records (T8).
        changed = self.epochs.truncate_from_end(self.log_end_offset)
        for header in headers:
            if header.leader_epoch != self.epochs.latest:
                changed |= self.epochs.assign(header.leader_epoch, header.base_offset)
        self._save_epochs(changed=changed)

    def _segment_for(self, size: int, records: int, now_ms: int) -> Segment:
        segments = self._segments
        if segments.is_full(size, records, self._config, now_ms):
            self._roll()
        if not segments.active.size:
            segments.names_unsynced = True
        self._sync_state.begin_append(self.log_end_offset)
        return segments.active

    def _check_may_lead(self) -> None:
        self._fence.check()
        if self._state.facts.corrupt is not None:
            raise StorageFailed(f"{self.directory.name} must not lead: {self._state.facts.corrupt}")

    # --- reading -----------------------------------------------------------------------------

    def read(self, offset: int, bytes_max: int, *, below: int) -> bytes:
        """The batches of `read_range`."""
        return self.read_range(offset, bytes_max, below=below)[0]

    def read_range(
        self, offset: int, bytes_max: int, *, below: int, batch_bytes_max: int = maxsize, copy: bool = False
    ) -> tuple[bytes, int]:
        """Whole batches, and the offset after them.

        The first contains `offset`, none reaches `below`, and there are at most `bytes_max` bytes, or one
        batch of at most `batch_bytes_max`, from one segment: `b""` if there is nothing such yet. `copy`: for
        a replica, which also needs what precedes the log's start in its batch. Raises OffsetOutOfRange
        outside log start and LEO, StorageFailed.
        """
        with self._fence.repeatable:
            start, end = self.log_start_offset, self.log_end_offset
            if not start <= offset <= end and not (copy and self.copy_start_offset <= offset < start):
                raise OffsetOutOfRange(f"offset {offset} is outside {self!r}", limit=self.log_start_offset)
            limit = min(below, end)
            if offset >= limit:
                return b"", offset
            return self._segments.read(offset, bytes_max, limit, batch_bytes_max)

    def bytes_from(self, offset: int) -> int:
        """The bytes from the batch that contains `offset` to the end. Raises StorageFailed."""
        with self._fence.repeatable:
            return self._segments.bytes_from(offset)

    def bytes_near(self, offset: int) -> int:
        """About as many bytes as `bytes_from`, for people: it reads no file, and never fails."""
        return self._segments.bytes_near(offset)

    def search_time(self, timestamp_ms: int | None, *, start: int, below: int) -> SearchStep:
        """One step of a search, see `time_search`; None: for the latest time. Raises StorageFailed."""
        with self._fence.repeatable:
            start, below = max(start, self.log_start_offset), min(below, self.log_end_offset)
            return self._segments.search_time(timestamp_ms, start=start, below=below)

    # --- cutting -----------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Cut everything at or above an offset, and the epochs and producers with it (T8, T12).

        An offset within a batch cuts the whole batch. At or above the LEO no record goes, yet epochs
        that wrote nothing do. Raises StorageFailed; ValueError below the log's start.
        """
        if offset < self.log_start_offset:
            raise ValueError(f"cannot truncate {self!r} to offset {offset}, below its start")
        self.compactor.cancel()
        self._cutting_to = offset
        with self._fence, self._lock:
            if offset < self.log_end_offset:
                offset = self._cutting_to = self._segments.holding(offset).boundary_of(offset).offset
                # Write the length of the log first: a crash in between leaves a log that is longer than it
                # claims, never one that is shorter. The start may lie within the batch that goes.
                facts = self._state.facts
                if offset < max(facts.recovery_point, facts.log_start_offset):
                    self._state.change(
                        log_start_offset=min(offset, facts.log_start_offset),
                        recovery_point=min(offset, facts.recovery_point),
                        clean_offset=min(offset, facts.clean_offset),
                    )
                load_producers(
                    self.directory, self._segments, self.producers,
                    end=offset, files=self._files, now_ms=self._clock.wall_ms(),
                )  # fmt: skip
            offset = min(offset, self.log_end_offset)
            self._save_epochs(changed=self.epochs.truncate_from_end(offset))
            if offset < self.log_end_offset or self._leftovers:
                self._discard_from(offset)
        self._cutting_to = maxsize

    def reset_to(self, offset: int) -> None:
        """Drop everything and begin, empty, at an offset. Raises StorageFailed; ValueError below 0."""
        if offset < 0:
            raise ValueError(f"cannot reset {self!r} to offset {offset}")
        self.compactor.cancel()
        self._cutting_to = 0
        with self._fence, self._lock:
            self._state.change(recovery_point=0, clean_offset=0, tombstones_due_ms=None)
            self.producers.clear()
            self._save_epochs(changed=self.epochs.clear())
            self._segments.discard_all(offset)
            self._state.change(log_start_offset=offset, recovery_point=offset)
            self._leftovers, self._sync_state.offset = False, offset
        self._cutting_to = maxsize

    def mark_whole(self) -> None:
        """A leader has taken this replica back into the ISR: the damaged part is replaced (E15).

        Raises StorageFailed.
        """
        if self._state.facts.corrupt is not None:
            with self._fence.repeatable, self._lock:
                self._state.change(corrupt=None)

    def _discard_from(self, offset: int) -> None:
        """Drop all files from a batch boundary on, with the lock held."""
        self._segments.discard_from(offset)
        self._leftovers = False
        self._sync_state.cut(offset)

    # --- retention ---------------------------------------------------------------------------

    def advance_log_start(self, offset: int, *, as_leader: bool = False) -> None:
        """Delete the records below an offset. A lower offset changes nothing.

        The log starts at exactly that offset; a file goes once all of its records are deleted. Raises
        StorageFailed; as a leader, StorageBusy if the disk is full; ValueError above the LEO.
        """
        if offset > self.log_end_offset:
            raise ValueError(f"cannot advance the start of {self!r} to offset {offset}, above its end")
        if offset <= self.log_start_offset:
            return
        self.compactor.cancel()
        with self._fence.freeing if as_leader else self._fence.repeatable, self._lock:
            # Stored before anything is removed: files that a crash leaves are deleted by the next open.
            self._state.change(log_start_offset=offset)
            while len(self._segments) > 1 and self._segments.first.next_offset <= offset:
                self._segments.remove_first()
            # The last record's epoch stays known: a replica that deleted all follows by it.
            last = self.log_end_offset - 1
            self._save_epochs(changed=self.epochs.truncate_from_start(min(offset, last)))

    def apply_retention(self, *, now_ms: int, high_watermark: int) -> int:
        """Delete whole segments by `retention.ms` and `retention.bytes`, none at or above the HW (H9).

        The active segment is sealed first if all of it has expired. Returns the log's start, which stays
        where it is if the topic is only compacted. Raises StorageFailed, StorageBusy if the disk is full.
        """
        self.producers.expire(now_ms)
        segments, config = self._segments, self._config
        if not config.deletes:
            return self.log_start_offset
        with self._fence.freeing:
            if has_expired(segments.active, config, now_ms=now_ms, high_watermark=high_watermark):
                self._roll()
            start = start_after_retention(
                segments, config, start=self.log_start_offset, now_ms=now_ms, high_watermark=high_watermark
            )
        self.advance_log_start(start, as_leader=True)
        return self.log_start_offset

    # --- compaction --------------------------------------------------------------------------

    def begin_compaction(
        self, *, now_ms: int, high_watermark: int, map_bytes: int, continued: bool = False
    ) -> Compaction | None:
        """A pass for the `compactor` to install; None if the topic is not compacted or it is not worth it.

        `continued`: the pass before had more keys than fit its map. Raises StorageFailed.
        """
        if not self._config.compacts or self._leftovers or self.corrupt is not None:
            return None
        return self.compactor.begin(
            self._config, self.producers.empty(),
            now_ms=now_ms, high_watermark=high_watermark, map_bytes=map_bytes, continued=continued,
        )  # fmt: skip

    # --- durability --------------------------------------------------------------------------

    def flush(self) -> None:
        """Sync everything appended before the call; may run in a thread. Raises StorageFailed."""
        with self._fence.repeatable, self._lock:
            self._flush()

    def _flush(self) -> None:
        active, config = self._segments.active, self._config
        target, began = self.log_end_offset, self._clock.monotonic()
        self._segments.sync()
        # The active segment is scanned after a crash, wherever in it the recovery point is.
        if active.base_offset > self._state.facts.recovery_point:
            self._state.change(recovery_point=active.base_offset)
        self._sync_state.flushed(target, began, config)

    def close(self, *, clean: bool) -> None:
        """Close the files. `clean`: sync, and leave the index and snapshot that make a scan needless.

        Does not raise: a close that fails sets `failed`, and the next open recovers.
        """
        self.compactor.cancel()
        with self._lock:
            try:
                with self._fence:
                    if clean and not self._leftovers:
                        self._leave_clean()
            except StorageFailed:
                pass  # `failed` has the reason
            finally:
                self._segments.close()

    def _leave_clean(self) -> None:
        end, last = self.log_end_offset, self._segments.last_written
        synced = end == self._state.facts.recovery_point == self._sync_state.offset
        if synced and (last is None or last.is_indexed):
            return
        if last is not None:
            last.save_index()
            self._save_producers()
        self._segments.sync_bytes()
        self._state.change(recovery_point=end, synced_only=True)  # which syncs the folder's names, too
        self._segments.names_unsynced = False
        self._sync_state.mark_all_synced(end)

    def _note_failure(self, error: OSError | CorruptMessage) -> None:
        end = min(self.log_end_offset, self._cutting_to)
        save_failure(error, self.directory, end, files=self._files)
        if self.on_failed is not None:
            self.on_failed()

    # --- the small files ---------------------------------------------------------------------

    def _roll(self) -> None:
        self._save_producers()  # first: a deletion of what they are rebuilt from would forget them
        self._segments.roll()

    def _save_epochs(self, *, changed: bool) -> None:
        if self._epoch_file.save(changed=changed):
            self._segments.names_unsynced = True

    def _save_producers(self) -> None:
        keep = {segment.base_offset for segment in self._segments}
        save_snapshot(self.directory, self.producers, self.log_end_offset, keep=keep, files=self._files)
        self._segments.names_unsynced = True
