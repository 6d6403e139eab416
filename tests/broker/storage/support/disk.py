"""One partition's log on a disk in memory, and batches to put there."""

from __future__ import annotations

from pathlib import Path

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.storage.log import PartitionLog
from strandline.broker.storage.provenance import anchor_together
from strandline.broker.storage.segments.time_search import first_not_older
from strandline.ports import Files
from strandline.records import Record, decode, encode_values
from strandline.vocabulary.topic_config import TopicConfig

FOLDER = Path("/data/topic-0")
SMALL = TopicConfig(segment_bytes=1024, index_interval_bytes=200)
"""Segments of a few batches, so that a short test rolls."""


class RunsOut:
    """A fault of a disk: an operation has its effect `left` times, and then raises this error: a code and a
    text. None: a write has room for its first byte."""

    def __init__(self, operation: str, error: tuple[int, str] | None, left: int) -> None:
        self.operation = operation
        self.error = error
        self.left = left
        self.refused = False

    def __call__(self, operation: str, path: Path) -> int | None:
        if operation != self.operation:
            return None
        self.left -= 1
        if self.left >= 0:
            return None
        self.refused = True
        if self.error is None:
            return 1
        raise OSError(*self.error, str(path))


class ManualClock:
    """Time that a test sets."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def monotonic(self) -> float:
        return self.ms / 1000

    def wall_ms(self) -> int:
        return self.ms

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("a log is synchronous")


def open_log(
    files: Files,
    *,
    clean: bool = True,
    power_lost: bool = False,
    config: TopicConfig = SMALL,
    clock: ManualClock | None = None,
) -> PartitionLog:
    return PartitionLog.open(
        FOLDER,
        config,
        clock=clock or ManualClock(),
        clean=clean and not power_lost,
        power_lost=power_lost,
        files=files,
    )


def new_log(
    config: TopicConfig = SMALL, *, clock: ManualClock | None = None, epoch: int = 1
) -> tuple[PartitionLog, MemoryFiles]:
    """An empty log that leads in an epoch."""
    files = MemoryFiles()
    log = open_log(files, config=config, clock=clock)
    log.appending.begin_epoch(epoch)
    return log, files


def append(
    log: PartitionLog,
    *values: bytes,
    timestamp: int = 1_000,
    producer: tuple[int, int, int] | None = None,
    now_ms: int = 1_000_000,
) -> int:
    """Append a batch as the leader in the latest epoch; its base offset. `producer`: id, epoch, sequence."""
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    data = encode_values(
        values, timestamp, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )
    return log.appending.as_leader(data, log.epochs.latest, now_ms=now_ms).base_offset


def fill(log: PartitionLog, batches: int, *, size: int = 100) -> None:
    """Batches of two records each, whose values say their offsets."""
    for _ in range(batches):
        base = log.log_end_offset
        append(log, *(f"{offset:08d}".encode().ljust(size, b".") for offset in (base, base + 1)))


def contents(log: PartitionLog, *, start: int | None = None, bytes_max: int = 1 << 20) -> list[Record]:
    """All records, read as a consumer does."""
    offset = log.log_start_offset if start is None else start
    records: list[Record] = []
    while offset < log.log_end_offset:
        data, next_offset = log.read_range(offset, bytes_max, below=log.log_end_offset)
        assert data
        records += decode(data, from_offset=offset)
        offset = next_offset
    return records


def offset_for_timestamp(
    log: PartitionLog, timestamp_ms: int | None, *, below: int
) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record of this time or later, below an offset; or None. Without a
    time: of the latest one that the log claims."""
    start = offset = log.log_start_offset
    while offset < below:
        step = log.search_time(timestamp_ms, start=offset, below=below)
        found = first_not_older(step, timestamp_ms, start=start, below=below)
        if found is not None:
            return found
        offset = step.next_offset
    return None


def replicate(leader: PartitionLog, follower: PartitionLog, bytes_max: int = 300) -> None:
    """Fetch until the follower has all."""
    while follower.log_end_offset < leader.log_end_offset:
        follower.appending.as_follower(
            leader.read(follower.log_end_offset, bytes_max, below=leader.log_end_offset)
        )


def names(files: MemoryFiles, suffix: str) -> list[int]:
    """The offsets in the names of the folder's files of one kind."""
    return sorted(int(name.removesuffix(suffix)) for name in files.sizes(FOLDER) if name.endswith(suffix))


def anchored(log: PartitionLog) -> None:
    """The log alone is anchored, each of its files synced."""
    anchor_together([log.provenance], lambda: False)
    assert log.provenance.anchored
