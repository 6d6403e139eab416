"""The segments of one log, in order: one sequence of offsets without gaps, growing at its end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path

from strandline.broker.storage.segments.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    Segment,
    file_name,
    offset_in,
)
from strandline.broker.storage.segments.time_search import HEADERS_PER_STEP_MAX, SearchStep
from strandline.ports import Files
from strandline.vocabulary.topic_config import TopicConfig


class Segments:
    """At least one segment; all but the last one are sealed. Every method may raise OSError."""

    __slots__ = (
        "_directory", "_files", "_list", "_read_last", "active", "directory_synced", "names_unsynced",
    )  # fmt: skip

    def __init__(self, directory: Path, files: Files, segments: list[Segment], opened_ms: int) -> None:
        for segment in segments:
            segment.appended_ms = opened_ms  # at the latest
        self._directory = directory
        self._files = files
        self._list = segments
        self.active: Segment = segments[-1]
        """The last segment, the only one that grows."""
        self._read_last = self.active
        self.names_unsynced = False
        """Files were created, changed or removed since the directory was synced."""
        self.directory_synced = False
        """The folder's own name is synced in its parent; once per life is enough."""

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[Segment]:
        return iter(tuple(self._list))

    @property
    def first(self) -> Segment:
        return self._list[0]

    @property
    def last_written(self) -> Segment | None:
        """The last segment that has a batch, and so a file."""
        for segment in reversed(self._list):
            if segment.size:
                return segment
        return None

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._list)

    @property
    def synced_offset(self) -> int:
        """Everything below it was synced when its segment was opened or last flushed."""
        for segment in self._list:
            if segment.synced_size < segment.size:
                return segment.base_offset
        return self.active.next_offset

    # --- growing -----------------------------------------------------------------------------

    def is_full(self, size: int, records: int, config: TopicConfig, now_ms: int) -> bool:
        """True if a write of this size needs a new segment, because of size or age."""
        active = self.active
        return active.size > 0 and (
            now_ms - active.created_ms >= config.segment_age_ms_max
            or not active.has_room(size, records, config.segment_bytes)
        )

    def roll(self) -> None:
        """Seal the active segment and continue in a new one, whose file is created with its first batch."""
        self.active.seal()
        self.active = Segment(self._directory, self.active.next_offset, self._files)
        self._list.append(self.active)

    # --- finding and reading -----------------------------------------------------------------------------

    def holding(self, offset: int) -> Segment:
        """The segment of an offset between the first one's base and the LEO."""
        if offset >= self.active.base_offset:
            return self.active
        index = bisect_right(self._list, offset, key=lambda segment: segment.base_offset) - 1
        segment, before = self._list[index], self._read_last
        if segment is not before:
            # A reader that catches up keeps one old segment open; thousands of partitions share the
            # process's descriptors. An unsynced segment stays open for its sync.
            if before is not self.active and before.synced_size == before.size:
                before.close()
            self._read_last = segment
        return segment

    def read(self, offset: int, bytes_max: int, limit: int, batch_bytes_max: int) -> tuple[bytes, int]:
        """Whole batches of one segment, and the offset after them; see `PartitionLog.read_range`.

        `offset` < `limit` <= LEO.
        """
        segment = self.holding(offset)
        start = segment.boundary_of(offset)
        stop = segment.boundary_of(min(limit, segment.next_offset))
        if stop.position <= start.position:
            return b"", offset
        if stop.position - start.position > bytes_max:
            stop = segment.boundary_within(start.position + bytes_max)
            if stop.position <= start.position:
                stop = segment.boundary_after(start)
                if stop.position - start.position > batch_bytes_max:
                    return b"", offset
        return segment.read(start.position, stop.position - start.position), stop.offset

    def bytes_from(self, offset: int) -> int:
        """See `PartitionLog.bytes_from`."""
        return self._bytes_after(offset, lambda segment: segment.boundary_of(offset).position)

    def bytes_near(self, offset: int) -> int:
        """See `PartitionLog.bytes_near`."""
        return self._bytes_after(offset, lambda segment: segment.position_near(offset))

    def _bytes_after(self, offset: int, position_in: Callable[[Segment], int]) -> int:
        """The bytes from an offset to the end; `position_in`: where it begins in the segment that has it."""
        size = 0
        for segment in reversed(self._list):
            if segment.base_offset <= offset:
                return size + segment.size - position_in(segment)
            size += segment.size
        return size

    def search_time(self, timestamp_ms: int | None, *, start: int, below: int) -> SearchStep:
        """See `PartitionLog.search_time`."""
        if timestamp_ms is None:
            timestamp_ms = max(segment.largest_timestamp for segment in self._list)
        for segment in self._list:
            if segment.next_offset <= start:
                continue
            if segment.base_offset >= below:
                break
            header, start = segment.search_time(
                timestamp_ms, max(start, segment.base_offset), headers_max=HEADERS_PER_STEP_MAX
            )
            if header is not None:
                return SearchStep(start, header, segment.read(header.position, header.size))
            if start < segment.next_offset:
                return SearchStep(start)
        return SearchStep(below)

    # --- compacting --------------------------------------------------------------------------

    def replace(self, compacted: Segment) -> None:
        """Put a segment in the place of those whose offsets it covers; the files are already in place."""
        covered = [
            segment for segment in self._list
            if compacted.base_offset <= segment.base_offset < compacted.next_offset
        ]  # fmt: skip
        at = self._list.index(covered[0])
        compacted.appended_ms = max(segment.appended_ms for segment in covered)
        for segment in covered:
            segment.close()
        self._list[at : at + len(covered)] = [compacted]
        if self._read_last in covered:
            self._read_last = self.active
        self.names_unsynced = True

    # --- shrinking ---------------------------------------------------------------------------

    def discard_from(self, offset: int) -> None:
        """Delete or cut everything at or above a batch boundary, synced.

        Deletes files of the folder, not only those that were opened: damaged files behind the log's end too.
        A snapshot at the offset stays: it covers the records below.
        """
        kept = [segment for segment in self._list if segment.base_offset < offset]
        boundary = kept[-1].boundary_of(offset) if kept else None
        self._delete(self._list[len(kept) :], offset, snapshots_from=offset + 1)
        if boundary is None:
            self._begin_at(offset)
            return
        self._list, self.active, self._read_last = kept, kept[-1], kept[-1]
        self.active.cut(boundary)

    def discard_all(self, offset: int) -> None:
        """Delete every file, synced; one empty segment at an offset remains."""
        self._delete(self._list, 0, snapshots_from=0)
        self._begin_at(offset)

    def _delete(self, segments: list[Segment], offset: int, *, snapshots_from: int) -> None:
        """Delete the files of segments from an offset on, the newest first: a crash leaves a valid log."""
        for segment in segments:
            segment.close()
        names = self._files.sizes(self._directory)
        for suffix in (SNAPSHOT_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX):
            least = snapshots_from if suffix == SNAPSHOT_SUFFIX else offset
            found = (at for name in names if (at := offset_in(name, suffix)) is not None and at >= least)
            for at in sorted(found, reverse=True):
                self._files.remove(self._directory / file_name(at, suffix))
        self._files.sync_directory(self._directory)

    def _begin_at(self, offset: int) -> None:
        self.active = self._read_last = Segment(self._directory, offset, self._files)
        self._list = [self.active]

    def remove_first(self) -> None:
        """Delete the oldest segment with its index and snapshot."""
        segment = self._list.pop(0)
        segment.remove_files()
        self.names_unsynced = True

    # --- durability --------------------------------------------------------------------------

    def sync(self) -> None:
        """Sync the content at the start of the call, bytes and names; may run in a thread during appends."""
        self.sync_bytes()
        if self.names_unsynced:
            self.names_unsynced = False  # before it is true: more names may appear meanwhile
            try:
                self._files.sync_directory(self._directory)
                if not self.directory_synced:
                    self._files.sync_directory(self._directory.parent)
                    self.directory_synced = True
            except OSError:
                self.names_unsynced = True
                raise

    def sync_bytes(self) -> None:
        """Like `sync`, without the names."""
        for segment in self:
            segment.sync()

    def close(self) -> None:
        for segment in self._list:
            segment.close()
