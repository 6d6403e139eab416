"""Opens a log: finds which files are on the disk, how far they are whole, and their content (DESIGN §5).

After a clean close nothing is scanned. Otherwise every segment from the recovery point on is read and each
batch's CRC checked. What follows the first bad batch decides. If nothing good follows, the crash tore the end
of the log, and it is cut. If good batches or another segment follow, the middle of the log is damaged: the
log then ends before the damage, the replica is marked and must never lead (CORRECTNESS E15), and the files
stay until a leader's records replace them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from strandline.broker.core.replication.epochs import EpochCache
from strandline.broker.core.replication.producer_state import ProducerState
from strandline.broker.storage.index import IndexFile
from strandline.broker.storage.segment import (
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
from strandline.broker.storage.swap import finish_swaps
from strandline.errors import CorruptMessage, InvalidRecord, UnsupportedCompression
from strandline.ports import Files
from strandline.records import HEADER_BYTES, BatchHeader
from strandline.records.header import LENGTH_PREFIX_BYTES, MAGIC, check_consistent, crc_of

SCAN_BYTES: Final = 1 << 20
_MAGIC_AT: Final = 16


@dataclass(frozen=True, slots=True)
class Bad:
    """The first position in a segment that does not hold the expected batch."""

    position: int
    offset: int
    reason: str


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

    @classmethod
    def unreadable(cls, directory: Path, files: Files) -> Recovered:
        """The result for a folder that could not be read."""
        segments = [Segment(directory, 0, files)]
        return cls(segments, LogState(), EpochCache(), state_changed=False, epochs_changed=False)


def open_folder(
    directory: Path, *, files: Files, producers: ProducerState, interval: int, clean: bool, now_ms: int
) -> Recovered:
    """`recover`, and store its result. Raises OSError."""
    files.make_directory(directory)
    recovered = recover(
        directory, files=files, producers=producers, interval=interval, clean=clean, now_ms=now_ms
    )
    if recovered.state_changed:
        recovered.state.save(directory, files=files)
    if recovered.epochs_changed:
        write_epochs(directory, recovered.epochs, files=files)
    if recovered.sync_failed:
        files.remove(directory / SYNC_FAILURE_FILE)
    return recovered


def recover(
    directory: Path, *, files: Files, producers: ProducerState, interval: int, clean: bool, now_ms: int
) -> Recovered:
    """Read a folder's content, and repair it; fills `producers`. Raises OSError.

    `interval` is `index.interval.bytes`, `now_ms` the time given to producers read from batches.
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
    work = _Recovery(directory, sizes, state or LogState(), files, interval)
    work.drop_below_start()
    failure = SyncFailure.load(directory, files=files)
    if failure is not None or not (clean and work.open_clean()):
        work.scan()
    if failure is not None:
        work.write_anew(failure)
    epochs, epochs_changed = work.load_epochs()
    dropped = drop_snapshots_above(directory, work.end, files=files)
    try:
        load_producers(directory, work.segments, producers, end=work.end, files=files, now_ms=now_ms)
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
        self, directory: Path, sizes: dict[str, int], state: LogState, files: Files, interval: int
    ) -> None:
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

    # --- what is there -----------------------------------------------------------------------

    def drop_below_start(self) -> None:
        """Finish what a crash interrupted: remove empty files, and segments wholly below the log's start."""
        while self._bases and not self._sizes[file_name(self._bases[-1], LOG_SUFFIX)]:
            self._drop(file_name(self._bases.pop(), LOG_SUFFIX))
        start = self._state.log_start_offset
        while len(self._bases) > 1 and self._bases[1] <= start:
            self._remove(self._bases.pop(0))
        if self._bases and self._bases[0] > start:
            self.mark(f"the log should begin at offset {start}, its first segment begins at {self._bases[0]}")
            self._state = replace(self._state, log_start_offset=self._bases[0])

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
            base, is_last = self._bases[index], index == len(self._bases) - 1
            expected = self.segments[-1].next_offset if self.segments else base
            if base != expected:
                self.mark(f"segment {base} follows offset {expected}")
                self._leftovers = True
                break
            self._drop(file_name(base, INDEX_SUFFIX))
            segment = Segment(self._directory, base, self._files)
            size = self._sizes[file_name(base, LOG_SUFFIX)]
            bad = self._scan_segment(segment, size)
            self.segments.append(segment)
            if bad is not None and not self._cut_or_mark(segment, size, bad, is_last=is_last):
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

    def _cut_or_mark(self, segment: Segment, size: int, bad: Bad, *, is_last: bool) -> bool:
        """Cut a torn end, or mark the log and leave everything. True if it was a torn end."""
        survivor = None
        if is_last:
            descriptor = self._files.open(segment.path)
            try:
                survivor = find_batch(self._files, descriptor, bad.position + 1, size, bad.offset)
            finally:
                self._files.close(descriptor)
            if survivor is None:
                if bad.position:
                    segment.cut(Boundary(bad.position, bad.offset))
                else:
                    segment.remove_files()
                    self._files.sync_directory(self._directory)
                self._cut_bytes += size - bad.position
                return True
        behind = (
            "other segments follow"
            if survivor is None
            else f"a good batch follows at byte {survivor.position}"
        )
        self.mark(f"{segment.path.name}, offset {bad.offset}: {bad.reason}; {behind}")
        self._leftovers = True
        return False

    def write_anew(self, failure: SyncFailure) -> None:
        """Rewrite the scanned part on the disk; a log that lacks any record that it had is damaged."""
        for segment in self.segments:
            if segment.size > segment.synced_size:
                segment.close()  # a descriptor of the replaced file may have been used to cut it
                write_anew(segment.path, files=self._files)
        self._files.sync_directory(self._directory)
        if self.end < failure.log_end_offset:
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
        epochs.truncate_from_start(self._state.log_start_offset)
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
        start = min(max(self._state.log_start_offset, segments[0].base_offset), segments[-1].next_offset)
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


def scan(
    files: Files, descriptor: int, size: int, base_offset: int, *, epoch: int = -1
) -> Iterator[BatchHeader | Bad]:
    """Every batch of a segment with its CRC checked; ends with a `Bad` at the first that is not good.

    `epoch` is that of the batch before the segment: epochs never decrease, across segments either.
    """
    position, offset = 0, base_offset
    window, start = b"", 0
    while position < size:
        at = position - start
        need = HEADER_BYTES
        if len(window) - at >= LENGTH_PREFIX_BYTES:
            need = max(need, LENGTH_PREFIX_BYTES + int.from_bytes(window[at + 8 : at + 12], "big"))
        if len(window) - at < need and start + len(window) < size and need <= size - position:
            window = files.read(descriptor, max(SCAN_BYTES, need), position)
            start = position
            if len(window) < min(need, size - position):
                yield Bad(position, offset, f"{len(window)} bytes could be read of {size - position}")
                return
            continue
        reason = check(window, at, offset, epoch)
        if reason is not None:
            yield Bad(position, offset, reason)
            return
        header = BatchHeader.parse(window, at)._replace(position=position)
        yield header
        position, offset, epoch = header.end, header.next_offset, header.leader_epoch


def check(data: bytes, at: int, offset: int, epoch: int) -> str | None:
    """The fault of the batch at a position, if it should begin at `offset`; None if it has none."""
    try:
        header = BatchHeader.parse(data, at)
        if header.magic != MAGIC or header.size < HEADER_BYTES or header.end > len(data):
            return f"no whole batch (magic {header.magic}, {header.size} bytes, {len(data) - at} are there)"
        crc = crc_of(data, header)
        if crc != header.crc:
            return f"CRC {header.crc:#010x}, its bytes have {crc:#010x}"
        check_consistent(header)
    except (CorruptMessage, InvalidRecord, UnsupportedCompression) as error:
        return error.message
    if header.base_offset != offset:
        return f"base offset {header.base_offset}, wanted {offset}"
    if header.leader_epoch < epoch:
        return f"epoch {header.leader_epoch} after {epoch}"
    return None


def find_batch(files: Files, descriptor: int, start: int, size: int, above: int) -> BatchHeader | None:
    """The first good batch at or after a position whose offset is above the given one.

    Any byte may begin one, because a damaged length hides where batches begin. A candidate has an offset not
    far above and the magic in its place; then its CRC decides.
    """
    near = b"|".join(re.escape(((above >> 32) + more).to_bytes(4, "big")) for more in (0, 1))
    looks_like_one = re.compile(rb"(?=(?:%b).{12}\x02)" % near, re.DOTALL)
    for position in range(start, size, SCAN_BYTES):
        window = files.read(descriptor, SCAN_BYTES + HEADER_BYTES, position)
        for match in looks_like_one.finditer(window, 0, len(window) - HEADER_BYTES + _MAGIC_AT + 1):
            header = BatchHeader.parse(window, match.start())
            whole = header._replace(position=position + header.position)
            if header.base_offset > above and header.size >= HEADER_BYTES and whole.end <= size:
                data = files.read(descriptor, whole.size, whole.position)
                if check(data, 0, header.base_offset, -1) is None:
                    return whole
    return None
