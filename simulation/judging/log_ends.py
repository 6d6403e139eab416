"""Where the logs on the brokers' disks end, at any moment, whether their brokers run or not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from strandline.broker.storage.segment import LOG_SUFFIX, offset_in
from strandline.broker.storage.state_files.partition_folder import DELETED_SUFFIX
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Files
from strandline.records import BatchHeader
from strandline.simulation.cluster import Cluster


@dataclass(slots=True)
class _Read:
    """How far the last segment of a log was read."""

    files: Files
    folder: Path
    segment: int
    position: int
    end: int


class LogEnds:
    """Reads only what was appended since it read the same log before."""

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
            known = _Read(files, folder, -1, 0, 0)
            self._read[broker, name] = known
        return _read_on(known)


def _folder(files: Files, top: Path, name: TopicPartition) -> Path | None:
    start = f"{name.topic}-{name.partition}-"
    found = [
        each
        for each in files.directories(top)
        if each.startswith(start) and not each.endswith(DELETED_SUFFIX) and "-" not in each[len(start) :]
    ]
    return top / found[0] if found else None


def _read_on(known: _Read) -> int:
    sizes = known.files.sizes(known.folder)
    bases = [base for each in sizes if (base := offset_in(each, LOG_SUFFIX)) is not None]
    if not bases:
        return 0
    last = max(bases)
    [name] = [each for each in sizes if offset_in(each, LOG_SUFFIX) == last]
    if last != known.segment or sizes[name] < known.position:
        known.segment, known.position, known.end = last, 0, last
    if sizes[name] > known.position:
        descriptor = known.files.open(known.folder / name)
        try:
            _read_batches(known, known.files.read(descriptor, sizes[name], 0))
        finally:
            known.files.close(descriptor)
    return known.end


def _read_batches(known: _Read, content: bytes) -> None:
    """A torn batch at the end does not count."""
    try:
        while known.position < len(content):
            header = BatchHeader.parse(content, known.position)
            if header.end > len(content):
                return
            known.position, known.end = header.end, header.next_offset
    except StrandlineError:
        return
