"""A flush runs in a thread while the event loop appends, reads and cuts (`flush.messages`)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from strandline.adapters.system.files import SYSTEM_FILES
from strandline.broker.storage.log import PartitionLog
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.storage.support.disk import ManualClock, append, contents, fill

CONFIG = TopicConfig(segment_bytes=2048, index_interval_bytes=200, retention_bytes=20_000, retention_ms=-1)


def test_flushes_beside_everything_else_lose_and_fence_nothing(tmp_path: Path) -> None:
    """E14: no sync meets a file that is closed under it, and none counts what came after it began."""
    log = PartitionLog.open(tmp_path / "t-0", CONFIG, clock=ManualClock(), clean=True, files=SYSTEM_FILES)
    log.appending.begin_epoch(0)
    with ThreadPoolExecutor(1) as thread:
        flushing = thread.submit(log.flush)
        for step in range(2_000):
            fill(log, 1)
            if flushing.done():
                flushing.result()
                flushing = thread.submit(log.flush)
            match step % 100:
                case 33:
                    log.cutting.truncate_to(max(log.log_end_offset - 10, log.log_start_offset))
                    log.appending.begin_epoch(step)
                case 66:
                    log.apply_retention(now_ms=0, high_watermark=log.log_end_offset)
                case 99:
                    contents(log)
        flushing.result()
    log.flush()
    assert (log.failed, log.unflushed_records) == (None, 0)
    expected = contents(log)
    log.close(clean=False)
    again = PartitionLog.open(tmp_path / "t-0", CONFIG, clock=ManualClock(), clean=False, files=SYSTEM_FILES)
    assert (contents(again), again.corrupt) == (expected, None)


def test_descriptors_do_not_grow_with_segments(tmp_path: Path) -> None:
    """PERFORMANCE: thousands of partitions share the process's descriptors."""
    log = PartitionLog.open(tmp_path / "t-0", CONFIG, clock=ManualClock(), clean=True, files=SYSTEM_FILES)
    log.appending.begin_epoch(0)
    fill(log, 100)
    assert log.segment_count > 10
    log.flush()
    before = len(list(Path("/proc/self/fd").iterdir()))
    contents(log)
    for offset in range(0, log.log_end_offset, 7):
        log.read(offset, 1, below=log.log_end_offset)
    after = len(list(Path("/proc/self/fd").iterdir()))
    assert after <= before + 1
    append(log, b"x")
    log.close(clean=True)
    assert len(list(Path("/proc/self/fd").iterdir())) < before
