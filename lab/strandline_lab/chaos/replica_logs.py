"""Reads the replicas that brokers have on disk, and compares them.

Every in-sync replica has the same bytes below the high watermark: a follower appends the batches that its
leader stamped, without decoding them. Replicas may differ above it, in where their segments begin, and in how
much old data was deleted. Nothing is written, so brokers may run; but their logs should not change meanwhile.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from strandline.adapters.system.files import SYSTEM_FILES
from strandline.auditing.checks import REPLICAS, Finding
from strandline.auditing.reference import Logged
from strandline.broker.storage.segments.scanning import Bad, scan
from strandline.broker.storage.segments.segment import LOG_SUFFIX, file_name, offset_in
from strandline.broker.storage.state_files.checkpoint import Checkpoint
from strandline.broker.storage.state_files.epoch_file import EPOCH_FILE, read_epochs
from strandline.broker.storage.state_files.log_state import LogState
from strandline.broker.storage.state_files.partition_folder import DELETED_SUFFIX, DESCRIPTION, Description
from strandline.records import decode, iterate
from strandline.records.control import decode_marker
from strandline.records.decode import decode_batch
from strandline.vocabulary.log import ProducerIdentity
from strandline_lab.auditing import transactions

WATERMARKS_FILE: Final = "watermarks"
COMPACTED: Final = "compact"


class LogId(NamedTuple):
    """A partition of one incarnation of a topic."""

    topic: str
    partition: int
    topic_id: str

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Batch(NamedTuple):
    """The place of a batch. `position` and `size` are bytes of the file. Its offsets end before
    `next_offset`."""

    path: Path
    position: int
    size: int
    base_offset: int
    next_offset: int
    epoch: int


@dataclass(slots=True)
class Replica:
    """One replica as it was found. Its log is good from `start` to before `end`. `damage` says what ended it
    before the end of a file. `watermark` is the last high watermark that the broker wrote down, 0 if there is
    none."""

    broker: int
    folder: Path
    compacted: bool
    start: int = 0
    end: int = 0
    damage: str = ""
    watermark: int = 0
    batches: list[Batch] = field(default_factory=list)


Read = Callable[[Batch], bytes]


@contextmanager
def _reading() -> Iterator[Read]:
    """Yields a reader of batches that opens each file once. The reader raises OSError."""
    with ExitStack() as opened:
        descriptors: dict[Path, int] = {}

        def read(batch: Batch) -> bytes:
            descriptor = descriptors.get(batch.path)
            if descriptor is None:
                descriptor = descriptors[batch.path] = os.open(batch.path, os.O_RDONLY)
                opened.callback(os.close, descriptor)
            return os.pread(descriptor, batch.size, batch.position)

        yield read


# --- finding -----------------------------------------------------------------------------------


def find(logs: Mapping[int, Path]) -> dict[LogId, list[Replica]]:
    """All replicas in the folders of these brokers, by broker. Raises OSError, StorageFailed."""
    found: defaultdict[LogId, list[Replica]] = defaultdict(list)
    for broker, folder in sorted(logs.items()):
        watermarks = Checkpoint(folder / WATERMARKS_FILE, files=SYSTEM_FILES)
        for each in sorted(child for child in folder.iterdir() if (child / DESCRIPTION).exists()):
            if each.name.endswith(DELETED_SUFFIX):
                continue
            try:
                whose = Description.load(each, files=SYSTEM_FILES)
            except ValueError:
                continue  # its broker does not know its topic either, and set it aside
            replica = Replica(broker, each, COMPACTED in whose.config.get("cleanup.policy", ""))
            replica.watermark = watermarks.get(each.name) or 0
            _survey(replica)
            found[LogId(whose.name.topic, whose.name.partition, whose.key.topic_id)].append(replica)
    return dict(found)


def _survey(replica: Replica) -> None:
    """Fills in the contents of a replica's files. Verifies each batch's checksum."""
    try:
        state = LogState.load(replica.folder, files=SYSTEM_FILES) or LogState()
    except ValueError as error:
        replica.damage = str(error)
        return
    replica.start = replica.end = state.log_start_offset
    sizes = SYSTEM_FILES.sizes(replica.folder)
    bases = sorted(base for name in sizes if (base := offset_in(name, LOG_SUFFIX)) is not None)
    if bases:
        replica.end = bases[0]
        replica.start = max(replica.start, bases[0])
    epoch = -1
    for base in bases:
        path = replica.folder / file_name(base, LOG_SUFFIX)
        if base != replica.end:
            replica.damage = f"segment {path.name} follows offset {replica.end}"
            return
        descriptor = SYSTEM_FILES.open(path)
        try:
            for item in scan(SYSTEM_FILES, descriptor, sizes[path.name], base, epoch=epoch):
                if isinstance(item, Bad):
                    replica.damage = f"{path.name}, byte {item.position}: {item.reason}"
                    return
                replica.batches.append(
                    Batch(
                        path, item.position, item.size, item.base_offset, item.next_offset, item.leader_epoch
                    )
                )
                replica.end, epoch = item.next_offset, item.leader_epoch
        finally:
            SYSTEM_FILES.close(descriptor)


def records(log_id: LogId, replica: Replica, end: int) -> Iterator[Logged]:
    """The records from the start of a log to before an offset, without the markers of transactions. Raises
    OSError, CorruptMessage."""
    with _reading() as read:
        for batch in replica.batches:
            if batch.next_offset > replica.start and batch.base_offset < end:
                data = read(batch)
                if any(header.is_control for header in iterate(data)):
                    continue
                for record in decode(data, from_offset=replica.start):
                    if record.offset < end:
                        yield Logged(log_id.topic, log_id.partition, record.offset, record.value)


def batches(replica: Replica, end: int) -> Iterator[transactions.Batch]:
    """The batches from the start of a log to before an offset, with markers. Raises OSError,
    CorruptMessage."""
    with _reading() as read:
        for batch in replica.batches:
            if batch.next_offset <= replica.start or batch.base_offset >= end:
                continue
            data = read(batch)
            for header in iterate(data):
                marker = decode_marker(data, header) if header.is_control else None
                if header.is_control and marker is None:
                    continue
                producer = ProducerIdentity(header.producer_id, header.producer_epoch)
                commits = None if marker is None else marker.commit
                records = [] if header.is_control else decode_batch(data, header, from_offset=replica.start)
                reads = tuple(transactions.Read(each.offset, each.value) for each in records)
                yield transactions.Batch(
                    header.base_offset, producer, header.is_transactional, commits, reads
                )


# --- comparing ---------------------------------------------------------------------------------


def compare(log_id: LogId, replicas: Sequence[Replica], watermark: int) -> Iterator[Finding]:
    """Compares in-sync replicas below the high watermark with the first of them, the leader. Yields the first
    difference of each replica. Raises OSError.

    A compacted log is compared by its records, and only at offsets that both have: each broker compacts its
    own.
    """
    for replica in replicas:
        if replica.end < watermark:
            why = f": {replica.damage}" if replica.damage else ""
            yield _finding(
                log_id,
                replica.end,
                f"the log of broker {replica.broker}, which is in sync, ends at {replica.end}, below the "
                f"high watermark {watermark}{why}",
            )
        yield from _epochs(log_id, replica, watermark)
    for other in replicas[1:]:
        differ = _records_differ if replicas[0].compacted else _bytes_differ
        yield from differ(log_id, replicas[0], other, watermark)


def missing(log_id: LogId, broker: int, watermark: int) -> Finding:
    """The finding that an in-sync broker has no log of the partition."""
    return _finding(log_id, 0, f"broker {broker} is in sync up to {watermark}, and has no log of this")


def _finding(log_id: LogId, offset: int, detail: str) -> Finding:
    return Finding(REPLICAS.name, log_id.topic, log_id.partition, offset, detail)


def _between(replica: Replica, first: int, end: int) -> Iterator[Batch]:
    """The batches that lie wholly between two offsets."""
    return (batch for batch in replica.batches if batch.base_offset >= first and batch.next_offset <= end)


def _bytes_differ(log_id: LogId, leader: Replica, other: Replica, watermark: int) -> Iterator[Finding]:
    first, end = max(leader.start, other.start), min(leader.end, other.end, watermark)
    with _reading() as read:
        for one, two in zip(_between(leader, first, end), _between(other, first, end), strict=False):
            if (one.base_offset, one.size) == (two.base_offset, two.size) and read(one) == read(two):
                continue
            yield _finding(
                log_id,
                min(one.base_offset, two.base_offset),
                f"broker {leader.broker} has {_said(one)}, broker {other.broker} {_said(two)}: they differ",
            )
            return


def _said(batch: Batch) -> str:
    last = batch.next_offset - 1
    return f"{batch.base_offset} to {last} of epoch {batch.epoch} in {batch.size} bytes"


def _records_differ(log_id: LogId, leader: Replica, other: Replica, watermark: int) -> Iterator[Finding]:
    theirs = {each.offset: each.value for each in records(log_id, other, watermark)}
    for each in records(log_id, leader, watermark):
        if each.offset in theirs and theirs[each.offset] != each.value:
            detail = f"brokers {leader.broker} and {other.broker} have two values here"
            yield _finding(log_id, each.offset, detail)
            return


def _epochs(log_id: LogId, replica: Replica, watermark: int) -> Iterator[Finding]:
    """Compares each batch's epoch with the replica's list of epochs."""
    cache = read_epochs(replica.folder, files=SYSTEM_FILES)
    who = f"broker {replica.broker}"
    if cache is None:
        if (replica.folder / EPOCH_FILE).exists():
            yield _finding(log_id, replica.start, f"the list of epochs of {who} is damaged")
        return
    for batch in _between(replica, replica.start, watermark):
        listed = cache.epoch_at(batch.base_offset)
        if listed != batch.epoch:
            detail = f"{who} has a batch of epoch {batch.epoch} here, and lists epoch {listed}"
            yield _finding(log_id, batch.base_offset, detail)
            return
