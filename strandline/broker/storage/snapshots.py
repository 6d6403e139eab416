"""Producer state on disk: a snapshot at each segment's start and at a clean close (T12).

The state is a function of the log, so a snapshot is only a shortcut: the state is rebuilt from the latest
whole snapshot and the batches after it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable
from pathlib import Path

from strandline.broker.core.replication.producer_state import ProducerState
from strandline.broker.core.replication.transactions import Transactions
from strandline.broker.storage.segments.segment import SNAPSHOT_SUFFIX, Segment, file_name, offset_in
from strandline.broker.storage.state_files.checkpoint import read_whole, write_atomically
from strandline.ports import Files
from strandline.records import BatchHeader
from strandline.records.control import WrittenMarker, decode_marker


def save_snapshot(
    directory: Path, producers: ProducerState, end: int, *, keep: Collection[int], files: Files
) -> None:
    """Write the state at the log's end, and delete all other snapshots but those at offsets in `keep`.

    Not synced: a damaged one is skipped. Raises OSError.
    """
    path = directory / file_name(end, SNAPSHOT_SUFFIX)
    write_atomically(path, producers.to_bytes(), files=files, sync=False)
    for at in _offsets(directory, files):
        if at != end and at not in keep:
            files.remove(directory / file_name(at, SNAPSHOT_SUFFIX))


def drop_snapshots_above(directory: Path, end: int, *, files: Files) -> bool:
    """Delete the snapshots above a log's end; True if there were any. Raises OSError.

    A loss of power may take records and leave the snapshot that was taken after them. If it stayed, it
    would count again once the log has grown past it with other records.
    """
    above = [at for at in _offsets(directory, files) if at > end]
    for at in above:
        files.remove(directory / file_name(at, SNAPSHOT_SUFFIX))
    return bool(above)


def load_producers(
    directory: Path,
    segments: Iterable[Segment],
    producers: ProducerState,
    *,
    end: int,
    clean_offset: int,
    files: Files,
    now_ms: int,
) -> None:
    """Make `producers` the state of the log below `end`. Raises OSError, CorruptMessage.

    `now_ms` becomes the time of producers that are read from batches: a late time expires none too early.
    Below `clean_offset`, compaction may have removed markers that a snapshot remembers.
    """
    producers.clear()
    parts = [segment for segment in segments if segment.base_offset < end]
    # Records below the first segment were deleted; their producers are still in the snapshot there.
    start = parts[0].base_offset if parts else end
    for at in sorted(_offsets(directory, files), reverse=True):
        if start <= at <= end:
            try:
                producers.restore(read_whole(directory / file_name(at, SNAPSHOT_SUFFIX), files=files))
            except (ValueError, FileNotFoundError):
                # A loss of power tore it, or the event loop has just dropped it, during a compaction: an
                # older one and more of the log give the same state.
                continue
            _forget_removed(producers.transactions, parts, clean_offset)
            start = at
            break
    for segment in parts:
        if segment.next_offset > start:
            begin = segment.boundary_of(max(start, segment.base_offset))
            for header in segment.headers(begin, segment.size):
                if header.base_offset >= end:
                    return
                if not header.is_control:
                    producers.record(header, header.base_offset, now_ms)
                elif (marker := _marker(segment, header)) is not None:
                    producers.record_marker(header, marker, header.base_offset, now_ms)


def _forget_removed(transactions: Transactions, segments: list[Segment], clean_offset: int) -> None:
    """A reader would leave out what came after the records of a transaction whose marker it does not see."""
    removed, bases = set[int](), [segment.base_offset for segment in segments]
    for _, _, marker in transactions.aborted(0, clean_offset):
        at = bisect_right(bases, marker) - 1
        if marker < clean_offset and at >= 0:
            segment = segments[at]
            header = next(segment.headers(segment.boundary_of(marker), segment.size))
            if not header.is_control:
                removed.add(marker)
    transactions.forget_aborted(removed)


def _marker(segment: Segment, header: BatchHeader) -> WrittenMarker | None:
    """Raises OSError, CorruptMessage."""
    return decode_marker(segment.read(header.position, header.size), header._replace(position=0))


def _offsets(directory: Path, files: Files) -> list[int]:
    return [at for name in files.sizes(directory) if (at := offset_in(name, SNAPSHOT_SUFFIX)) is not None]
