"""A compacted log on a disk in memory: keyed batches to put there, and a whole compaction in one call."""

from __future__ import annotations

from collections.abc import Sequence
from sys import maxsize

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.storage.inspect import verify
from strandline.broker.storage.log import PartitionLog
from strandline.ports import Files
from strandline.records import BatchHeader, Codec, encode_batch, split
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.storage.support.disk import FOLDER, ManualClock, contents, open_log

COMPACTED = TopicConfig(
    cleanup_policy="compact", segment_bytes=1024, index_interval_bytes=200, delete_retention_ms=1_000,
    min_cleanable_dirty_ratio=0,
)  # fmt: skip
MAP_BYTES = 1 << 20
NOW_MS = 1_000_000

Pairs = Sequence[tuple[str, str | None]]


def compacted_log(
    config: TopicConfig = COMPACTED, *, clock: ManualClock | None = None
) -> tuple[PartitionLog, MemoryFiles]:
    """An empty log that leads in epoch 1."""
    files = MemoryFiles()
    log = open_log(files, config=config, clock=clock)
    log.appending.begin_epoch(1)
    return log, files


def put(
    log: PartitionLog,
    *pairs: tuple[str, str | None],
    producer: tuple[int, int, int] | None = None,
    codec: Codec = Codec.NONE,
    timestamp: int = 1_000,
) -> int:
    """Append one batch; its base offset. A value None is a tombstone. `producer`: id, epoch, sequence."""
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    data = encode_batch(
        [(key.encode(), None if value is None else value.encode(), (), timestamp) for key, value in pairs],
        codec=codec, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence,
    )  # fmt: skip
    return log.appending.as_leader(data, log.epochs.latest, now_ms=max(NOW_MS, timestamp)).base_offset


Remembered = dict[int, tuple[int, list[tuple[int, int, int]]]]


def remembered(log: PartitionLog) -> Remembered:
    """For each producer its epoch, and its batches by sequences and offset: compaction must not change them.

    A later reader of the log does not see the CRCs of the batches that compaction rewrote.
    """
    return {key: (p.epoch, [batch[:3] for batch in p.batches]) for key, p in log.producers}


def seal(log: PartitionLog) -> None:
    """Begin another segment, and sync: everything so far may be compacted."""
    log._parts.roll()
    log.flush()


def compact(
    log: PartitionLog,
    *,
    now_ms: int = NOW_MS,
    high_watermark: int | None = None,
    map_bytes: int = MAP_BYTES,
    kept_from: int = maxsize,
    kept_ms_max: int = 1 << 40,
    passes_max: int = 1_000,
) -> int:
    """Compact as a broker does, without its threads; the number of passes."""
    passes = 0
    while passes < passes_max:
        compaction = log.begin_compaction(
            now_ms=now_ms,
            high_watermark=log.log_end_offset if high_watermark is None else high_watermark,
            map_bytes=map_bytes,
            kept_from=kept_from,
            kept_ms_max=kept_ms_max,
            continued=passes > 0,
        )
        if compaction is None:
            break
        passes += 1
        compaction.read_keys()
        while (group := compaction.write_group()) is not None:
            assert log.compactor.install(compaction, group)
        log.compactor.finish(compaction)
        if compaction.complete:
            break
    return passes


def pairs(log: PartitionLog) -> list[tuple[int, str, str | None]]:
    """(offset, key, value) of every record, read as a consumer does."""
    return [
        (r.offset, (r.key or b"").decode(), None if r.value is None else r.value.decode())
        for r in contents(log)
    ]


def batches(log: PartitionLog) -> list[BatchHeader]:
    """The headers of the whole log."""
    found: list[BatchHeader] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data, offset = log.read_range(offset, 1 << 20, below=log.log_end_offset)
        found += split(data)
    return found


def check_sound(log: PartitionLog, files: Files, *, power_lost: bool = False) -> None:
    """A batch for every offset, and nothing for `strandline log verify` to find.

    A loss of power may tear an index: it is not synced, and is made again when it is needed.
    """
    expected: int | None = None
    for header in batches(log):
        assert header.base_offset == expected or (
            expected is None and header.base_offset <= log.log_start_offset
        )
        expected = header.next_offset
    assert expected is None or expected == log.log_end_offset
    for name in files.sizes(FOLDER):
        if name.endswith(".log"):
            found = verify(FOLDER / name, files=files)
            assert [f for f in found if not (power_lost and f.problem.startswith("index"))] == []
