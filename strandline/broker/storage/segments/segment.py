"""One file of a partition's log, and the mapping from an offset to its bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from strandline.broker.storage.segments.index import NO_TIMESTAMP, IndexFile, SparseIndex
from strandline.broker.storage.state_files.checkpoint import read_whole, write_atomically
from strandline.config.limits import SEGMENT_INDEX_ROWS_MAX
from strandline.errors import CorruptMessage
from strandline.ports import Files
from strandline.records import HEADER_BYTES, BatchHeader
from strandline.records.header import LENGTH_PREFIX_BYTES, MAGIC

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
SNAPSHOT_SUFFIX: Final = ".snapshot"

RELATIVE_OFFSET_MAX: Final = 2**31 - 1
_POSITION_MAX: Final = 2**32 - 1
_RECENT_BATCHES_MAX: Final = 64
_LOOK_AHEAD_BYTES: Final = 16 * 1024


def file_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def offset_in(name: str, suffix: str) -> int | None:
    """The offset in a file's name, if it is a file of this kind."""
    stem = name.removesuffix(suffix)
    return int(stem) if stem != name and len(stem) == 20 and stem.isdigit() else None


class Boundary(NamedTuple):
    """The beginning of a batch, or the end of the segment."""

    position: int
    offset: int


class Segment:
    """A file of whole batches, offsets without gaps. Only the last segment of a log grows.

    The file is created with its first batch. Readers see `size` and `next_offset`: a failed write leaves
    these unchanged, even if it left bytes behind them in the file.
    """

    __slots__ = (
        "_created_ms", "_descriptor", "_files", "_index", "_index_saved", "_recent", "_times_known",
        "appended_ms", "base_offset", "directory", "largest_timestamp", "next_offset", "size",
        "synced_size",
    )  # fmt: skip

    def __init__(self, directory: Path, base_offset: int, files: Files) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = 0
        self.synced_size = 0
        """The number of bytes at the file's beginning that a loss of power cannot take."""
        self.largest_timestamp = NO_TIMESTAMP
        self._created_ms = NO_TIMESTAMP
        self.appended_ms = NO_TIMESTAMP
        """No record was appended later; NO_TIMESTAMP where that is unknown."""
        self._files = files
        self._descriptor: int | None = None
        self._index: SparseIndex | None = SparseIndex()
        """None: it is in its file only. A sealed segment's index is read when it is needed."""
        self._index_saved = False
        self._times_known = True
        """False until the index, which has the segment's times, was read once."""
        self._recent: dict[int, int] = {}
        """Base offset → position of the latest batches: readers of the tail ask for these."""

    @classmethod
    def found(cls, directory: Path, base_offset: int, next_offset: int, size: int, files: Files) -> Segment:
        """A segment that is whole and synced on the disk; its index is read when it is needed."""
        segment = cls(directory, base_offset, files)
        segment.next_offset = next_offset
        segment.size = segment.synced_size = size
        segment._index, segment._times_known = None, False
        return segment

    def __repr__(self) -> str:
        return f"Segment({self.base_offset}..{self.next_offset}, {self.size} bytes)"

    @property
    def path(self) -> Path:
        return self.directory / file_name(self.base_offset, LOG_SUFFIX)

    @property
    def index_path(self) -> Path:
        return self.directory / file_name(self.base_offset, INDEX_SUFFIX)

    @property
    def created_ms(self) -> int:
        """When the first batch was written; `segment.ms` counts from it. Raises OSError, CorruptMessage."""
        if not self._times_known:
            self._load_index()
        return self._created_ms

    @property
    def is_indexed(self) -> bool:
        """True if the index file exists."""
        return self._index is None or self._index_saved

    def descriptor(self) -> int:
        """The open file. Raises OSError."""
        if self._descriptor is None:
            self._descriptor = self._files.open(self.path, create=self.size == 0)
        return self._descriptor

    def close(self) -> None:
        """Close the descriptor, and free the index's memory if it is in its file."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            self._files.close(descriptor)
        if self._index_saved:
            self._index = None

    def sync(self) -> None:
        """Sync the present content; may run in a thread while the segment grows. Raises OSError."""
        size = self.size
        if size <= self.synced_size:
            return
        if self._descriptor is not None:
            self._files.sync(self._descriptor)
        else:
            descriptor = self._files.open(self.path)
            try:
                self._files.sync(descriptor)
            finally:
                self._files.close(descriptor)
        self.synced_size = size

    # --- writing -----------------------------------------------------------------------------

    def has_room(self, size: int, records: int, size_max: int) -> bool:
        """False if a write of this size belongs into a new segment."""
        if self.size == 0:
            return True
        return (
            self.size + size <= min(size_max, _POSITION_MAX)
            and self.next_offset + records - self.base_offset <= RELATIVE_OFFSET_MAX
            and len(self.index) < SEGMENT_INDEX_ROWS_MAX
        )

    def write(self, parts: Sequence[bytes | memoryview], size: int) -> int:
        """Append bytes that readers do not see until `note`; returns their position.

        Raises OSError, for a short write too; then the file's tail is unknown and the caller must write
        nothing further (E14).
        """
        if self._index_saved:
            self._files.remove(self.index_path)
            self._index_saved = False
        written = self._files.append(self.descriptor(), parts)
        if written != size:
            raise OSError(f"{self.path}: {written} of {size} bytes written")
        return self.size

    def note(self, header: BatchHeader, base_offset: int, position: int, interval: int, now_ms: int) -> None:
        """Make a written batch visible; `header` has its size, count and times."""
        index = self.index
        last = index.last_position
        if last < 0 or position - last > interval:
            index.add(base_offset - self.base_offset, position, self.largest_timestamp)
        recent = self._recent
        recent[base_offset] = position
        if len(recent) > _RECENT_BATCHES_MAX:
            del recent[next(iter(recent))]
        if header.max_timestamp > self.largest_timestamp:
            self.largest_timestamp = header.max_timestamp
        if now_ms > self.appended_ms:
            self.appended_ms = now_ms
        if position == 0:
            self._created_ms = now_ms
        self.next_offset = base_offset + header.last_offset_delta + 1
        self.size = position + LENGTH_PREFIX_BYTES + header.batch_length

    def seal(self) -> None:
        """End writing: the index is saved to its file and freed. Raises OSError."""
        self.save_index()
        self._index = None
        self._recent.clear()

    def save_index(self) -> None:
        """Write the index file, unless it exists. Not synced: a damaged one is rebuilt."""
        if self._index is not None and not self._index_saved and self.size:
            saved = IndexFile(
                self.size, self.next_offset, self.largest_timestamp, self._created_ms, self._index
            )
            write_atomically(self.index_path, saved.to_bytes(), files=self._files, sync=False)
            self._index_saved = True

    def cut(self, boundary: Boundary) -> None:
        """Drop everything from a batch on, in the file too, synced. Raises OSError, CorruptMessage.

        Cutting at the segment's end drops the invisible bytes behind it.
        """
        rows = self.index
        if self._index_saved:
            self._files.remove(self.index_path)
            self._index_saved = False
        self._files.truncate(self.descriptor(), boundary.position)
        self._files.sync(self.descriptor())
        rows.cut(boundary.position)
        self._recent = {offset: at for offset, at in self._recent.items() if at < boundary.position}
        self.size, self.next_offset = boundary
        self.synced_size = min(self.synced_size, self.size)
        # `largest_timestamp` stays: it can only be too large, so that nothing expires too early.

    def remove_files(self) -> None:
        """Delete the segment with its index and the snapshot taken before it. Raises OSError."""
        self.close()
        for suffix in (INDEX_SUFFIX, SNAPSHOT_SUFFIX, LOG_SUFFIX):
            # A segment without a batch has no file, an active one has no index.
            with suppress(FileNotFoundError):
                self._files.remove(self.directory / file_name(self.base_offset, suffix))

    # --- finding and reading -----------------------------------------------------------------

    @property
    def index(self) -> SparseIndex:
        """The index, read from its file or, if that is missing or void, rebuilt from the log.

        Raises OSError, CorruptMessage.
        """
        if self._index is None:
            self._load_index()
            assert self._index is not None
        return self._index

    def _load_index(self) -> None:
        try:
            saved = IndexFile.from_bytes(read_whole(self.index_path, files=self._files))
        except (FileNotFoundError, ValueError):
            self._rebuild_index()
            return
        if (saved.log_size, saved.next_offset) != (self.size, self.next_offset):
            self._rebuild_index()
            return
        self._index, self._index_saved, self._times_known = saved.index, True, True
        self.largest_timestamp, self._created_ms = saved.largest_timestamp, saved.created_ms

    def _rebuild_index(self) -> None:
        index = SparseIndex()
        largest, expected = NO_TIMESTAMP, self.base_offset
        for header in self.headers(Boundary(0, self.base_offset), self.size):
            if header.base_offset != expected:
                raise CorruptMessage(
                    f"{self.path}: batch at byte {header.position} has offset {header.base_offset}, "
                    f"wanted {expected}"
                )
            if header.position == 0:
                self._created_ms = header.max_timestamp
            index.add(header.base_offset - self.base_offset, header.position, largest)
            largest, expected = max(largest, header.max_timestamp), header.next_offset
        if expected != self.next_offset:
            raise CorruptMessage(f"{self.path} ends at offset {expected}, wanted {self.next_offset}")
        self._index, self._times_known, self.largest_timestamp = index, True, largest

    def newest_ms(self) -> int:
        """The time for retention and compaction: the largest timestamp or, without any, the first write's
        time.

        A timestamp after the last append counts as the time of that append: a wrong clock, or a producer with
        a false timestamp, must not keep a log forever. Raises OSError, CorruptMessage.
        """
        if not self._times_known:
            self._load_index()
        newest_ms = self.largest_timestamp if self.largest_timestamp >= 0 else self._created_ms
        return newest_ms if self.appended_ms < 0 else min(newest_ms, self.appended_ms)

    def boundary_of(self, offset: int) -> Boundary:
        """The batch that contains an offset of this segment. Raises OSError, CorruptMessage."""
        position = self._recent.get(offset)
        if position is not None:
            return Boundary(position, offset)
        if offset == self.next_offset:
            return Boundary(self.size, offset)
        row = self.index.at_offset(offset - self.base_offset)
        boundary = Boundary(row.position, self.base_offset + row.relative_offset)
        if boundary.offset == offset:
            return boundary
        for header in self.headers(boundary, self.size):
            if offset < header.next_offset:
                return Boundary(header.position, header.base_offset)
        raise CorruptMessage(f"{self.path} has no batch with offset {offset}, though it should: {self!r}")

    def position_near(self, offset: int) -> int:
        """About where the batch of an offset begins, without reading a file: by the index if it is in memory,
        else in proportion to the offsets."""
        position = self._recent.get(offset)
        if position is not None:
            return position
        if offset >= self.next_offset:
            return self.size
        if self._index is not None:
            return self._index.at_offset(offset - self.base_offset).position
        return self.size * (offset - self.base_offset) // (self.next_offset - self.base_offset)

    def boundary_within(self, position_max: int) -> Boundary:
        """The last batch boundary at or before a position. Raises OSError, CorruptMessage."""
        if position_max >= self.size:
            return Boundary(self.size, self.next_offset)
        row = self.index.at_position(position_max)
        boundary = Boundary(row.position, self.base_offset + row.relative_offset)
        for header in self.headers(boundary, self.size):
            if header.end > position_max:
                return boundary
            boundary = Boundary(header.end, header.next_offset)
        return boundary

    def boundary_after(self, boundary: Boundary) -> Boundary:
        """The end of the batch at a boundary. Raises OSError, CorruptMessage."""
        header = next(self.headers(boundary, self.size))
        return Boundary(header.end, header.next_offset)

    def read(self, position: int, size: int) -> bytes:
        """Exactly `size` bytes. Raises OSError if the file is shorter than it should be."""
        data = self._files.read(self.descriptor(), size, position)
        if len(data) != size:
            raise OSError(f"{self.path}: {len(data)} of {size} bytes read at byte {position}")
        return data

    def headers(self, start: Boundary, end: int) -> Iterator[BatchHeader]:
        """The headers from a boundary to a position, skipping records; positions are the file's.

        Raises OSError, CorruptMessage where the bytes are no batch.
        """
        position = start.position
        window, window_start = b"", position
        while position < end:
            at = position - window_start
            if at + HEADER_BYTES > len(window):
                window = self.read(position, min(_LOOK_AHEAD_BYTES, end - position))
                window_start, at = position, 0
            header = BatchHeader.parse(window, at, window_start)
            if header.magic != MAGIC or header.size < HEADER_BYTES or header.end > end:
                raise CorruptMessage(f"{self.path}: what stands at byte {position} is no batch: {header}")
            yield header
            position = header.end

    def search_time(
        self, timestamp_ms: int, start: int, *, headers_max: int
    ) -> tuple[BatchHeader | None, int]:
        """The first batch from `start` on that claims a record of this time, and the offset after it.

        If the first `headers_max` headers have none: None, and the offset after them. Raises OSError,
        CorruptMessage.
        """
        index = self.index
        if self.largest_timestamp < timestamp_ms:
            return None, self.next_offset
        row = index.at_timestamp(timestamp_ms)
        boundary = Boundary(row.position, self.base_offset + row.relative_offset)
        if boundary.offset < start:
            boundary = self.boundary_of(start)
        reached = boundary.offset
        for header in islice(self.headers(boundary, self.size), headers_max):
            reached = header.next_offset
            if header.max_timestamp >= timestamp_ms:
                return header, reached
        return None, reached
