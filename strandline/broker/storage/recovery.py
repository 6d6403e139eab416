"""Opens a log: finds which files are on the disk, how far they are whole, and their content.

After a clean close nothing is scanned. Otherwise every segment from the recovery point on is read and each
batch's CRC checked. What follows the first bad batch decides. If nothing good follows, the crash tore the end
of the log, and it is cut. If good batches or another segment follow, the middle of the log is damaged: the
log then ends before the damage, the replica is marked and must never lead (CORRECTNESS E15), and the files
stay until a leader's records replace them. So it is if the oldest segment is missing, or if it
cannot be known where the log began because `log.json` is damaged: the log is then empty.

A disk writes sectors in any order. So a loss of power, unlike a kill, may leave a hole in front of good
batches: bytes that are missing, or zeros, above everything that is known to be synced. Such a hole is a torn
end too, and what follows it is removed (CORRECTNESS E3). Bytes that are wrong, and not missing, are damage.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from sys import maxsize

from strandline.broker.core.replication.epochs import EpochCache
from strandline.broker.core.replication.producer_state import ProducerState
from strandline.broker.storage.compaction.swap import finish_swaps
from strandline.broker.storage.segments.index import IndexFile
from strandline.broker.storage.segments.scanning import Bad, find_batch, is_unwritten, scan
from strandline.broker.storage.segments.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    Boundary,
    Segment,
    file_name,
    offset_in,
)
from strandline.broker.storage.snapshots import drop_snapshots_above, load_producers
from strandline.broker.storage.state_files.checkpoint import PARTIAL_SUFFIX, read_whole
from strandline.broker.storage.state_files.epoch_file import read_epochs, write_epochs
from strandline.broker.storage.state_files.log_state import LogState
from strandline.broker.storage.state_files.sync_failure import SYNC_FAILURE_FILE, SyncFailure, write_anew
from strandline.errors import CorruptMessage, StorageBusy
from strandline.ports import NO_DESCRIPTORS, Files
from strandline.records import BatchHeader


@dataclass(slots=True)
class Recovered:
    """A log as it was found and repaired."""

    segments: list[Segment]
    state: LogState
    epochs: EpochCache
    state_changed: bool
    epochs_changed: bool
    had_state: bool = False
    """`log.json` was there, or was damaged."""
    names_changed: bool = False
    """True if the directory may be unsynced."""
    scanned_bytes: int = 0
    cut_bytes: int = 0
    leftovers: bool = False
    """Damaged files lie behind the log's end; they are removed when a leader's records replace them."""
    sync_failed: bool = False
    """A sync failed in the last life; the affected files were rewritten, and are synced."""
    failed: str | None = None
    """Why the folder could not be read."""
    is_new: bool = False
    """The folder was made for this log, and has none of its files yet."""

    @classmethod
    def new(cls, directory: Path, files: Files) -> Recovered:
        """An empty log in a folder that was just made. Nothing is read, and nothing written."""
        segments = [Segment(directory, 0, files)]
        return cls(segments, LogState(), EpochCache(), state_changed=False, epochs_changed=False, is_new=True)

    @classmethod
    def unreadable(cls, directory: Path, files: Files, reason: str) -> Recovered:
        """The result for a folder that could not be read."""
        segments = [Segment(directory, 0, files)]
        return cls(
            segments, LogState(), EpochCache(), state_changed=False, epochs_changed=False, failed=reason
        )


def open_folder(
    directory: Path,
    *,
    files: Files,
    producers: ProducerState,
    interval: int,
    clean: bool,
    new: bool,
    power_lost: bool,
    now_ms: int,
) -> Recovered:
    """`recover`, and store its result; a new folder is not read. Raises StorageBusy."""
    if new:
        return Recovered.new(directory, files)
    try:
        files.make_directory(directory)
        recovered = recover(
            directory, files=files, producers=producers, interval=interval,
            clean=clean, power_lost=power_lost, now_ms=now_ms,
        )  # fmt: skip
        if recovered.state_changed:
            recovered.state.save(directory, files=files)
        if recovered.epochs_changed:
            write_epochs(directory, recovered.epochs, files=files)
        if recovered.sync_failed:
            files.remove(directory / SYNC_FAILURE_FILE)
    except OSError as error:
        reason = f"opening {directory} failed: {error}"
        if error.errno in NO_DESCRIPTORS:
            raise StorageBusy(reason) from error
        return Recovered.unreadable(directory, files, reason)
    return recovered


def recover(
    directory: Path,
    *,
    files: Files,
    producers: ProducerState,
    interval: int,
    clean: bool,
    power_lost: bool,
    now_ms: int,
) -> Recovered:
    """Read a folder's content, and repair it; fills `producers`. Raises OSError.

    `interval` is `index.interval.bytes`, `now_ms` the time given to producers read from batches, `power_lost`
    if the writes that the last life did not sync may be lost.
    """
    sizes = files.sizes(directory)
    if finish_swaps(directory, sizes, files=files):
        sizes = files.sizes(directory)
    for name in [name for name in sizes if name.endswith(PARTIAL_SUFFIX)]:
        files.remove(directory / name)
    try:
        state = LogState.load(directory, files=files)
    except ValueError as error:
        # Without the recovery point it is unknown how long the log has to be.
        state = LogState(corrupt=str(error))
    failure = SyncFailure.load(directory, files=files)
    work = _Recovery(directory, sizes, state or LogState(), files, interval, power_lost=power_lost)
    work.drop_below_start()
    work.find_lost_segments()
    if failure is not None or not (clean and work.open_clean()):
        work.scan()
    if failure is not None:
        work.write_anew(failure)
    epochs, epochs_changed = work.load_epochs()
    dropped = drop_snapshots_above(directory, work.end, files=files)
    try:
        load_producers(
            directory, work.segments, producers,
            end=work.end, clean_offset=work.clean_offset, files=files, now_ms=now_ms,
        )  # fmt: skip
    except CorruptMessage as error:
        work.mark(error.message)
    recovered = work.result(epochs, epochs_changed)
    recovered.had_state = state is not None
    recovered.sync_failed = failure is not None
    recovered.names_changed = dropped or epochs_changed or recovered.scanned_bytes > 0
    return recovered


class _Recovery:
    """The work of one `recover`."""

    def __init__(
        self,
        directory: Path,
        sizes: dict[str, int],
        state: LogState,
        files: Files,
        interval: int,
        *,
        power_lost: bool,
    ) -> None:
        self._power_lost = power_lost
        self._directory = directory
        self._sizes = sizes
        self._files = files
        self._interval = interval
        self._was = state
        self._state = state
        self._bases = sorted(base for name in sizes if (base := offset_in(name, LOG_SUFFIX)) is not None)
        self.segments: list[Segment] = []
        """The segments of the good part of the log, in order."""
        self._scanned: list[BatchHeader] = []
        """The first batch of each epoch in the scanned part; positions mean nothing here."""
        self._scanned_from: int | None = None
        self._scanned_bytes = self._cut_bytes = 0
        self._leftovers = False

    @property
    def end(self) -> int:
        """The LEO."""
        return self.segments[-1].next_offset if self.segments else self._state.log_start_offset

    @property
    def clean_offset(self) -> int:
        return self._state.clean_offset

    # --- what is there -----------------------------------------------------------------------

    def drop_below_start(self) -> None:
        """Finish what a crash interrupted: remove empty files, and segments wholly below the log's start."""
        while self._bases and not self._sizes[file_name(self._bases[-1], LOG_SUFFIX)]:
            self._drop(file_name(self._bases.pop(), LOG_SUFFIX))
        start = self._state.log_start_offset
        while len(self._bases) > 1 and self._bases[1] <= start:
            self._remove(self._bases.pop(0))

    def find_lost_segments(self) -> None:
        """Judge the oldest segment, which no scan reads if it is synced."""
        point, start = self._state.recovery_point, self._state.log_start_offset
        # A synced segment that is empty now lost all of its records, as one whose file is gone.
        self._bases = [
            base
            for base, end in zip_longest(self._bases, self._bases[1:], fillvalue=maxsize)
            if end > point or self._sizes[file_name(base, LOG_SUFFIX)]
        ]
        if self._bases and self._bases[0] > start:
            # The log then ends at its start, so that it lacks all to a leader, and gets all again.
            self.mark(f"the log should begin at offset {start}, its first segment begins at {self._bases[0]}")
            self._bases.clear()
            self._leftovers = True

    def open_clean(self) -> bool:
        """Use the files as they are, if the last close left the proof that they are whole."""
        if not self._bases:
            return self._state.recovery_point <= self._state.log_start_offset
        last = self._bases[-1]
        size = self._sizes[file_name(last, LOG_SUFFIX)]
        try:
            saved = IndexFile.from_bytes(
                read_whole(self._directory / file_name(last, INDEX_SUFFIX), files=self._files)
            )
        except (FileNotFoundError, ValueError):
            return False
        if saved.log_size != size or saved.next_offset != self._state.recovery_point:
            return False
        self._trust(len(self._bases), saved.next_offset)
        return True

    def _trust(self, count: int, end: int) -> None:
        """Take the first `count` segments as synced and whole; the last of them ends at `end`."""
        ends = [*self._bases[1:count], end]
        self.segments = [
            Segment.found(
                self._directory, base, next_base, self._sizes[file_name(base, LOG_SUFFIX)], self._files
            )
            for base, next_base in zip(self._bases[:count], ends, strict=True)
        ]

    # --- scanning ----------------------------------------------------------------------------

    def scan(self) -> None:
        """Read everything from the segment of the recovery point on; cut or mark damage."""
        point = self._state.recovery_point
        trusted = max(sum(base <= point for base in self._bases) - 1, 0)
        if trusted:
            self._trust(trusted, self._bases[trusted])
        for index in range(trusted, len(self._bases)):
            base = self._bases[index]
            expected = self.segments[-1].next_offset if self.segments else base
            if base > expected and self._may_be_unwritten(expected):
                self._remove_from(index)
                break
            if base != expected:
                self.mark(f"segment {base} follows offset {expected}")
                self._leftovers = True
                break
            self._drop(file_name(base, INDEX_SUFFIX))
            segment = Segment(self._directory, base, self._files)
            size = self._sizes[file_name(base, LOG_SUFFIX)]
            bad = self._scan_segment(segment, size)
            self.segments.append(segment)
            if bad is not None:
                self._cut_or_mark(segment, size, bad, index)
                break
        if self.end < point:
            self.mark(f"the log ends at offset {self.end}, but everything below {point} was synced")
            clean = min(self.end, self._state.clean_offset)
            self._state = replace(self._state, recovery_point=self.end, clean_offset=clean)
        if self.end < self._state.log_start_offset:
            # A loss of power left only files that were about to be deleted.
            for segment in self.segments:
                segment.remove_files()
            self.segments.clear()
            self._scanned.clear()

    def _scan_segment(self, segment: Segment, size: int) -> Bad | None:
        if self._scanned_from is None:
            self._scanned_from = segment.base_offset
        descriptor = self._files.open(segment.path)
        try:
            bad: Bad | None = None
            epoch = self._scanned[-1].leader_epoch if self._scanned else -1
            for item in scan(self._files, descriptor, size, segment.base_offset, epoch=epoch):
                if isinstance(item, Bad):
                    bad = item
                else:
                    segment.note(item, item.base_offset, item.position, self._interval, item.max_timestamp)
                    if not self._scanned or self._scanned[-1].leader_epoch != item.leader_epoch:
                        self._scanned.append(item)
        finally:
            self._files.close(descriptor)
        self._scanned_bytes += size
        return bad

    def _cut_or_mark(self, segment: Segment, size: int, bad: Bad, index: int) -> None:
        """Cut a torn end, or mark the log and leave everything."""
        is_last = index == len(self._bases) - 1
        descriptor = self._files.open(segment.path)
        try:
            survivor = find_batch(self._files, descriptor, bad.position + 1, size, bad.offset)
            torn = (is_last and survivor is None) or (
                self._may_be_unwritten(bad.offset)
                and is_unwritten(self._files, descriptor, bad, size, survivor)
            )
        finally:
            self._files.close(descriptor)
        if not torn:
            behind = (
                "other segments follow"
                if survivor is None
                else f"a good batch follows at byte {survivor.position}"
            )
            self.mark(f"{segment.path.name}, offset {bad.offset}: {bad.reason}; {behind}")
            self._leftovers = True
            return
        self._remove_from(index + 1)
        self._cut_bytes += size - bad.position
        if bad.position:
            segment.cut(Boundary(bad.position, bad.offset))
        else:
            segment.remove_files()
            self._files.sync_directory(self._directory)

    def _may_be_unwritten(self, offset: int) -> bool:
        """Records from this offset on were perhaps not synced when the power was lost."""
        state = self._state
        return self._power_lost and state.corrupt is None and offset >= state.recovery_point

    def _remove_from(self, index: int) -> None:
        """Remove the segments behind a torn end, the newest first."""
        for base in reversed(self._bases[index:]):
            self._cut_bytes += self._sizes[file_name(base, LOG_SUFFIX)]
            self._remove(base)
        if self._bases[index:]:
            self._files.sync_directory(self._directory)

    def write_anew(self, failure: SyncFailure) -> None:
        """Rewrite the scanned part on the disk; a log that lacks any record that it had is damaged. After a
        loss of power it lacks no more than the loss took, so it is judged as any other log."""
        for segment in self.segments:
            if segment.size > segment.synced_size:
                segment.close()  # a descriptor of the replaced file may have been used to cut it
                write_anew(segment.path, files=self._files)
        self._files.sync_directory(self._directory)
        if self.end < failure.log_end_offset and not self._power_lost:
            self.mark(
                f"a sync failed ({failure.reason}) when the log reached offset {failure.log_end_offset}; "
                f"now it ends at {self.end}"
            )

    # --- the outcome -------------------------------------------------------------------------

    def load_epochs(self) -> tuple[EpochCache, bool]:
        """The cache, and whether it differs from its file."""
        end = self.end
        loaded = read_epochs(self._directory, files=self._files)
        epochs = EpochCache(loaded.entries if loaded is not None else ())
        try:
            if self._scanned_from is not None:
                epochs.truncate_from_end(self._scanned_from)
                for header in self._scanned:
                    epochs.assign(header.leader_epoch, header.base_offset)
            start = self._state.log_start_offset
            if start < end and epochs.epoch_at(start) < 0:
                raise ValueError(f"the epoch file of {self._directory} says nothing of offset {start}")
        except ValueError:
            # Missing, damaged, or not of this log: each batch has its epoch, so the cache can be rebuilt.
            epochs = self._rebuild_epochs()
        epochs.truncate_from_end(end)
        start = self._state.log_start_offset
        if start == end and loaded is not None and any(segment.size for segment in self.segments):
            # All is deleted. The last record's epoch is known if `Cutting.advance_start` kept it.
            start -= loaded.epoch_at(end - 1) >= 0
        epochs.truncate_from_start(start)
        return epochs, epochs.entries != (loaded.entries if loaded is not None else ())

    def _rebuild_epochs(self) -> EpochCache:
        epochs = EpochCache()
        try:
            for segment in self.segments:
                for header in segment.headers(Boundary(0, segment.base_offset), segment.size):
                    if header.leader_epoch > epochs.latest:
                        epochs.assign(header.leader_epoch, header.base_offset)
        except CorruptMessage as error:
            self.mark(error.message)
        return epochs

    def result(self, epochs: EpochCache, epochs_changed: bool) -> Recovered:
        segments = [segment for segment in self.segments if segment.size]
        if not segments:
            segments = [Segment(self._directory, self._empty_log_end(), self._files)]
        start = min(self._state.log_start_offset, segments[-1].next_offset)
        state = replace(self._state, log_start_offset=start)
        return Recovered(
            segments, state, epochs, state != self._was, epochs_changed,
            scanned_bytes=self._scanned_bytes, cut_bytes=self._cut_bytes, leftovers=self._leftovers,
        )  # fmt: skip

    def _empty_log_end(self) -> int:
        """The offset at which a log without any batch begins and ends."""
        return self.segments[0].base_offset if self.segments else self._state.log_start_offset

    def mark(self, reason: str) -> None:
        """Note damage; the first reason is kept."""
        self._state = replace(self._state, corrupt=self._state.corrupt or reason)

    def _remove(self, base: int) -> None:
        for suffix in (INDEX_SUFFIX, SNAPSHOT_SUFFIX, LOG_SUFFIX):
            self._drop(file_name(base, suffix))

    def _drop(self, name: str) -> None:
        if name in self._sizes:
            self._files.remove(self._directory / name)
            del self._sizes[name]
