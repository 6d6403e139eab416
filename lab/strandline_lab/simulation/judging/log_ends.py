"""Where the logs on the brokers' disks end, at any moment, whether their brokers run or not."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.storage.segments.segment import LOG_SUFFIX, offset_in
from strandline.broker.storage.state_files.partition_folder import DELETED_SUFFIX
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.records import BatchHeader, validate
from strandline.simulation.cluster import Cluster


@dataclass(slots=True)
class _Read:
    """How far the last segment of a log was read."""

    files: MemoryFiles
    folder: Path
    segment: int
    position: int = 0
    """After the last batch that was read."""
    end: int = 0
    last: bytes = b""
    """The last batch that was read."""


class LogEnds:
    """Reads only what was appended since it read the same log before, whether the disk has a fault or not.

    A log may have been truncated since, and may be longer than before again. So the last batch that was read
    must still be where it was, or else the segment is read from its start.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._read: dict[tuple[int, TopicPartition], _Read] = {}

    def end(self, broker: int, name: TopicPartition) -> int:
        """The log end offset of the partition on this broker's disk, 0 without a log. Records that were
        written and not synced are there."""
        number = broker - self._cluster.first_id
        files = self._cluster.broker_machines[number].disk.files
        known = self._read.get((broker, name))
        if known is None or known.files is not files:
            folder = _folder(files, Path(f"/data/{broker}"), name)
            if folder is None:
                return 0
            known = _Read(files, folder, -1)
            self._read[broker, name] = known
        return _read_on(known)


def _folder(files: MemoryFiles, top: Path, name: TopicPartition) -> Path | None:
    start = f"{name.topic}-{name.partition}-"
    found = [
        each
        for each in files.directories(top)
        if each.startswith(start) and not each.endswith(DELETED_SUFFIX) and "-" not in each[len(start) :]
    ]
    return top / found[0] if found else None


def _read_on(known: _Read) -> int:
    bases = {
        base: name
        for name in known.files.names(known.folder)
        if (base := offset_in(name, LOG_SUFFIX)) is not None
    }
    if not bases:
        return 0
    last = max(bases)
    if last != known.segment:
        _start_over(known, last)
    path = known.folder / bases[last]
    start = known.position - len(known.last)
    content = known.files.content(path, start)
    if not content.startswith(known.last):
        _start_over(known, last)
        start, content = 0, known.files.content(path)
    _read_batches(known, content, start)
    return known.end


def _start_over(known: _Read, segment: int) -> None:
    known.segment, known.position, known.end, known.last = segment, 0, segment, b""


def _read_batches(known: _Read, content: bytes, start: int) -> None:
    """`content` begins at `start` of the file. A torn batch at the end does not count, nor does one of which
    a loss of power left zeros."""
    last = at = known.position - start
    with suppress(StrandlineError):
        while at < len(content):
            end = BatchHeader.parse(content, at).end
            if not at < end <= len(content):
                break
            (header,) = validate(content[at:end])
            last, at, known.end = at, end, header.next_offset
    if start + at > known.position:
        known.last, known.position = content[last:at], start + at
