"""Reads a log without a running broker, for `strandline log dump` and `verify`.

A path is a segment file or a partition's folder. Nothing is written, so a live broker's folder may
be read too; its active segment may then seem to end in the middle of a batch, and a segment that
is being compacted may disappear: try again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from strandline.broker.core.replication.producer_state import ProducerState
from strandline.broker.storage.segments.index import IndexFile
from strandline.broker.storage.segments.scanning import Bad, scan
from strandline.broker.storage.segments.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    Boundary,
    Segment,
    file_name,
    offset_in,
)
from strandline.broker.storage.state_files.checkpoint import read_whole
from strandline.broker.storage.state_files.epoch_file import EPOCH_FILE, read_epochs
from strandline.broker.storage.state_files.log_state import LogState
from strandline.config.limits import PRODUCER_EXPIRY_MS, PRODUCERS_PER_PARTITION_MAX
from strandline.errors import CorruptMessage, SettingsError
from strandline.ports import Files
from strandline.records import BatchHeader, Record, decode_in_parts, iterate
from strandline.records.header import crc_of


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """One batch of a segment file. Positions and sizes are in bytes, times in milliseconds."""

    file: str
    position: int
    size: int
    base_offset: int
    last_offset: int
    records: int
    leader_epoch: int
    codec: str
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    crc: str
    crc_valid: bool


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault in a log. `position` and `offset` are -1 where they do not apply."""

    file: str
    position: int
    offset: int
    problem: str


def dump(path: Path, *, files: Files) -> Iterator[BatchFacts]:
    """The batches in order. Raises CorruptMessage where the bytes are no batch, SettingsError, OSError."""
    for segment_path, base, size in _segments(path, files):
        segment = Segment.found(segment_path.parent, base, base, size, files)
        try:
            for header in segment.headers(Boundary(0, base), size):
                yield _facts(segment_path, header, segment.read(header.position, header.size))
        finally:
            segment.close()


def records(batch: BatchFacts, *, files: Files) -> Iterator[Record]:
    """The records of a batch that `dump` returned, without their headers; none of a control batch.

    Raises CorruptMessage where they cannot be decoded, also for more than DECOMPRESSED_BYTES_MAX; OSError.
    """
    descriptor = files.open(Path(batch.file))
    try:
        yield from _records(files.read(descriptor, batch.size, batch.position))
    finally:
        files.close(descriptor)


def _records(data: bytes) -> Iterator[Record]:
    """One part after the other: a small batch may have millions of records."""
    for header in iterate(data):
        if not header.is_control:
            for part in decode_in_parts(data, header):
                yield from part


def verify(path: Path, *, files: Files) -> Iterator[Finding]:
    """Check every batch, its records and the log's other files; a sound log has no findings.

    Raises SettingsError if there is no log at the path, OSError.
    """
    segments = _segments(path, files)
    expected = segments[0][1] if segments else 0
    for segment_path, base, size in segments:
        if base != expected:
            yield Finding(str(segment_path), 0, base, f"the segment before it ends at offset {expected}")
        end = base
        descriptor = files.open(segment_path)
        try:
            for item in scan(files, descriptor, size, base):
                if isinstance(item, Bad):
                    yield Finding(str(segment_path), item.position, item.offset, item.reason)
                    continue
                end = item.next_offset
                try:
                    deque(_records(files.read(descriptor, item.size, item.position)), maxlen=0)
                except CorruptMessage as error:
                    yield Finding(str(segment_path), item.position, item.base_offset, error.message)
        finally:
            files.close(descriptor)
        yield from _verify_index(segment_path.with_suffix(INDEX_SUFFIX), size, end, files)
        expected = end
    if _is_folder(path):
        yield from _verify_folder(path, expected, files)


def _segments(path: Path, files: Files) -> list[tuple[Path, int, int]]:
    """The path, base offset and size of each segment file."""
    folder = path if _is_folder(path) else path.parent
    try:
        sizes = files.sizes(folder)
        wanted = sorted(sizes) if folder is path else [path.name]
        return [
            (folder / name, base, sizes[name])
            for name in wanted
            if (base := offset_in(name, LOG_SUFFIX)) is not None
        ]
    except (FileNotFoundError, NotADirectoryError, KeyError):
        raise SettingsError(
            f"{path} is neither a segment ({file_name(0, LOG_SUFFIX)}) nor a partition's folder"
        ) from None


def _is_folder(path: Path) -> bool:
    """By its name, for `files` may be in memory."""
    return offset_in(path.name, LOG_SUFFIX) is None


def _facts(path: Path, header: BatchHeader, data: bytes) -> BatchFacts:
    return BatchFacts(
        file=str(path),
        position=header.position,
        size=header.size,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        records=header.record_count,
        leader_epoch=header.leader_epoch,
        codec=header.codec.name.lower(),
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        crc=f"{header.crc:08x}",
        crc_valid=crc_of(data, header, header.position) == header.crc,
    )


def _verify_index(path: Path, log_size: int, end: int, files: Files) -> Iterator[Finding]:
    try:
        saved = IndexFile.from_bytes(read_whole(path, files=files))
    except FileNotFoundError:
        return  # an active segment has none
    except ValueError as error:
        yield Finding(str(path), -1, -1, str(error))
        return
    if (saved.log_size, saved.next_offset) != (log_size, end):
        yield Finding(
            str(path),
            -1,
            saved.next_offset,
            f"made for {saved.log_size} bytes up to offset {saved.next_offset}, "
            f"the log has {log_size} up to {end}",
        )


def _verify_folder(folder: Path, end: int, files: Files) -> Iterator[Finding]:
    try:
        state = LogState.load(folder, files=files) or LogState()
    except ValueError as error:
        yield Finding(str(folder), -1, -1, str(error))
    else:
        if state.corrupt is not None:
            yield Finding(str(folder), -1, -1, f"marked as corrupt: {state.corrupt}")
        end = max(end, state.log_start_offset)
        if end < state.recovery_point:
            problem = f"the log ends at {end}, below its recovery point {state.recovery_point}"
            yield Finding(str(folder), -1, end, problem)
    names = files.sizes(folder)
    if EPOCH_FILE in names and read_epochs(folder, files=files) is None:
        yield Finding(str(folder / EPOCH_FILE), -1, -1, "the epoch file is damaged")
    for name in sorted(names):
        at = offset_in(name, SNAPSHOT_SUFFIX)
        if at is not None:
            state_of_producers = ProducerState(
                producers_max=PRODUCERS_PER_PARTITION_MAX, expiry_ms=PRODUCER_EXPIRY_MS
            )
            try:
                state_of_producers.restore(read_whole(folder / name, files=files))
            except ValueError as error:
                yield Finding(str(folder / name), -1, at, str(error))
