"""One replica's log: segments, epochs, producer state and the rules between them.

Synchronous: the page cache answers in microseconds. Only `flush` may run in a thread, during appends and
reads. A failed write, sync or read fences the log at once: later calls raise StorageFailed, and readers never
see what the write left (CORRECTNESS E14). Without a free descriptor all methods but cuts raise StorageBusy.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from sys import maxsize

from strandline.broker.core.replication.epochs import EpochCache
from strandline.broker.core.replication.producer_state import ProducerState
from strandline.broker.storage.appending import Appending
from strandline.broker.storage.compaction.install import Compactor
from strandline.broker.storage.compaction.rewrite import Compaction
from strandline.broker.storage.cutting import Cutting
from strandline.broker.storage.fence import Fence
from strandline.broker.storage.parts import LogParts
from strandline.broker.storage.provenance import Provenance
from strandline.broker.storage.recovery import Recovered, open_folder
from strandline.broker.storage.retention import has_expired, start_after_retention
from strandline.broker.storage.segments.segments import Segments
from strandline.broker.storage.segments.time_search import SearchStep
from strandline.broker.storage.state_files.epoch_file import EpochFile
from strandline.broker.storage.state_files.log_state import StateFile
from strandline.broker.storage.state_files.sync_failure import save_failure
from strandline.broker.storage.sync_state import SyncState
from strandline.config.limits import PRODUCER_EXPIRY_MS, PRODUCERS_PER_PARTITION_MAX
from strandline.errors import CorruptMessage, OffsetOutOfRange, StorageFailed
from strandline.ports import Clock, Files
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
        self.on_failed: Callable[[], None] | None = None
        """Called once when the log fails, on the thread that met the failure."""
        state = StateFile(directory, recovered.state, files)
        segments = Segments(directory, files, recovered.segments, clock.wall_ms())
        segments.names_unsynced = recovered.names_changed  # of files that the last life did not sync
        parts = self._parts = LogParts(
            directory, config, clock, files, segments, state,
            SyncState(state, segments.synced_offset, segments.active.next_offset, clock),
            recovered.epochs, EpochFile(directory, recovered.epochs, files, is_new=recovered.is_new),
            producers, Fence(directory.name), recovered.leftovers,
        )  # fmt: skip
        parts.fence.failed, parts.fence.on_closed = recovered.failed, self._note_failure
        self.fail = parts.fence.close
        """Ends the log: a file outside its folder, on which it depends, could not be written."""
        self.compactor = Compactor(directory, segments, state, producers, parts.fence, parts.lock, files)
        self.cutting = Cutting(parts, self.compactor)
        self.appending = Appending(parts, self.cutting)
        self.provenance = Provenance(
            directory, segments, state, parts.sync_state, parts.fence, parts.lock, files,
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
        return str(self._parts)

    # --- facts -------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        """The first offset that is not deleted. It may lie within a batch, which is kept whole."""
        return self._parts.state.facts.log_start_offset

    @property
    def copy_start_offset(self) -> int:
        """The base offset of the batch that holds the log's start: a copy of the log begins there, since it
        has whole batches. Raises StorageFailed."""
        start = self.log_start_offset
        if start == self._parts.segments.first.base_offset:
            return start
        with self._parts.fence.repeatable:
            return self._parts.segments.holding(start).boundary_of(start).offset

    @property
    def log_end_offset(self) -> int:
        """LEO: the offset that the next record gets."""
        return self._parts.end

    @property
    def failed(self) -> str | None:
        """Why the log fenced itself. Never cleared: the next life of the process opens it again."""
        return self._parts.fence.failed

    @property
    def corrupt(self) -> str | None:
        """Why this replica must not lead (E15). Stays, across restarts too, until `mark_whole`."""
        return self._parts.state.facts.corrupt

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, also if that is deleted; -1 if there was none, or it is not known."""
        return self._parts.last_epoch

    @property
    def size_bytes(self) -> int:
        return self._parts.segments.size_bytes

    @property
    def segment_count(self) -> int:
        return len(self._parts.segments)

    @property
    def unflushed_records(self) -> int:
        """Records that a loss of power could take."""
        return max(self.log_end_offset - self._parts.sync_state.offset, 0)

    @property
    def has_unflushed_segments(self) -> bool:
        """True if a sealed segment is not synced: a flush in an idle moment saves a scan after a crash."""
        return self._parts.sync_state.offset < self._parts.segments.active.base_offset

    def needs_flush(self, now: float) -> bool:
        """True if new records may count only after a flush, or `flush.ms` asks for one now."""
        return self._parts.sync_state.needs_flush(self.log_end_offset, self._parts.config, now)

    def is_at_rest(self, now: float) -> bool:
        """True if there was no append for a while, and a flush now makes the log known to be whole (E3)."""
        return self._parts.sync_state.is_at_rest(now)

    def end_offset_for(self, epoch: int) -> EpochEnd:
        """The largest epoch not above the given one, and where it ends here; (-1, -1) if undefined (T9)."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def reconfigure(self, config: TopicConfig) -> None:
        """Take another config; it holds from the next append, roll and retention on."""
        self._parts.config = config

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
        with self._parts.fence.repeatable:
            start, end = self.log_start_offset, self.log_end_offset
            if not start <= offset <= end and not (copy and self.copy_start_offset <= offset < start):
                raise OffsetOutOfRange(f"offset {offset} is outside {self!r}", limit=self.log_start_offset)
            limit = min(below, end)
            if offset >= limit:
                return b"", offset
            return self._parts.segments.read(offset, bytes_max, limit, batch_bytes_max)

    def bytes_from(self, offset: int) -> int:
        """The bytes from the batch that contains `offset` to the end. Raises StorageFailed."""
        with self._parts.fence.repeatable:
            return self._parts.segments.bytes_from(offset)

    def bytes_near(self, offset: int) -> int:
        """About as many bytes as `bytes_from`, for people: it reads no file, and never fails."""
        return self._parts.segments.bytes_near(offset)

    def search_time(self, timestamp_ms: int | None, *, start: int, below: int) -> SearchStep:
        """One step of a search, see `time_search`; None: for the latest time. Raises StorageFailed."""
        with self._parts.fence.repeatable:
            start, below = max(start, self.log_start_offset), min(below, self.log_end_offset)
            return self._parts.segments.search_time(timestamp_ms, start=start, below=below)

    # --- retention ---------------------------------------------------------------------------

    def apply_retention(self, *, now_ms: int, high_watermark: int) -> int:
        """Delete whole segments by `retention.ms` and `retention.bytes`, none at or above the HW (H9).

        The active segment is sealed first if all of it has expired. Returns the log's start, which stays
        where it is if the topic is only compacted. Raises StorageFailed, StorageBusy if the disk is full.
        """
        self.producers.expire(now_ms)
        segments, config = self._parts.segments, self._parts.config
        if not config.deletes:
            return self.log_start_offset
        with self._parts.fence.freeing:
            if has_expired(segments.active, config, now_ms=now_ms, high_watermark=high_watermark):
                self._parts.roll()
            start = start_after_retention(
                segments, config, start=self.log_start_offset, now_ms=now_ms, high_watermark=high_watermark
            )
        self.cutting.advance_start(start, as_leader=True)
        return self.log_start_offset

    # --- compaction --------------------------------------------------------------------------

    def begin_compaction(
        self,
        *,
        now_ms: int,
        high_watermark: int,
        map_bytes: int,
        kept_from: int = maxsize,
        kept_ms_max: int = 0,
        continued: bool = False,
    ) -> Compaction | None:
        """A pass for the `compactor` to install; None if the topic is not compacted or it is not worth it.

        `kept_from`: tombstones and markers from there on stay for `kept_ms_max` after they are due.
        `continued`: the pass before had more keys than fit its map. Raises StorageFailed.
        """
        if not self._parts.config.compacts or self._parts.leftovers or self.corrupt is not None:
            return None
        return self.compactor.begin(
            self._parts.config,
            now_ms=now_ms, high_watermark=high_watermark, map_bytes=map_bytes, kept_from=kept_from,
            kept_ms_max=kept_ms_max, continued=continued,
        )  # fmt: skip

    # --- durability --------------------------------------------------------------------------

    def flush(self) -> None:
        """Sync everything appended before the call; may run in a thread. Raises StorageFailed."""
        with self._parts.fence.repeatable, self._parts.lock:
            self._flush()

    def _flush(self) -> None:
        active, config = self._parts.segments.active, self._parts.config
        target, began = self.log_end_offset, self._parts.clock.monotonic()
        self._parts.segments.sync()
        # The active segment is scanned after a crash, wherever in it the recovery point is.
        if active.base_offset > self._parts.state.facts.recovery_point:
            self._parts.state.change(recovery_point=active.base_offset)
        self._parts.sync_state.flushed(target, began, config)

    def close(self, *, clean: bool) -> None:
        """Close the files. `clean`: sync, and leave the index and snapshot that make a scan needless.

        Does not raise: a close that fails sets `failed`, and the next open recovers.
        """
        self.compactor.cancel()
        with self._parts.lock:
            try:
                with self._parts.fence:
                    if clean and not self._parts.leftovers:
                        self._leave_clean()
            except StorageFailed:
                pass  # `failed` has the reason
            finally:
                self._parts.segments.close()

    def _leave_clean(self) -> None:
        end, last = self.log_end_offset, self._parts.segments.last_written
        synced = end == self._parts.state.facts.recovery_point == self._parts.sync_state.offset
        if synced and (last is None or last.is_indexed):
            return
        if last is not None:
            last.save_index()
            self._parts.save_producers()
        self._parts.segments.sync_bytes()
        self._parts.state.change(recovery_point=end, synced_only=True)  # which syncs the folder's names, too
        self._parts.segments.names_unsynced = False
        self._parts.sync_state.mark_all_synced(end)

    def _note_failure(self, error: OSError | CorruptMessage) -> None:
        end = min(self.log_end_offset, self._parts.cutting_to)
        save_failure(error, self.directory, end, files=self._parts.files)
        if self.on_failed is not None:
            self.on_failed()
