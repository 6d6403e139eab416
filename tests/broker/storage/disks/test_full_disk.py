"""A full disk and the deletion of records, which needs some bytes before it frees more (CORRECTNESS E14)."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.storage.log import PartitionLog
from strandline.errors import StorageBusy, StorageFailed
from strandline.ports import SyncFailed
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.storage.support.disk import RunsOut, append, contents, fill, names, new_log, open_log

CONFIG = TopicConfig(segment_bytes=1024, index_interval_bytes=200, retention_ms=1, cleanup_policy="delete")


def full_from(code: int | None, writes: int) -> RunsOut:
    """The disk is full from the n-th write on. `code` None: a write has room for its first byte."""
    return RunsOut("append", None if code is None else (code, "no space left"), writes)


USES: dict[str, Callable[[PartitionLog], object]] = {
    "advance_log_start": lambda log: log.cutting.advance_start(14, as_leader=True),
    "apply_retention": lambda log: log.apply_retention(now_ms=10**13, high_watermark=16),
}


def prepared() -> tuple[PartitionLog, MemoryFiles]:
    log, files = new_log(CONFIG)
    fill(log, 8)
    log.flush()
    return log, files


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, None])
@pytest.mark.parametrize("use", USES)
def test_a_leader_that_cannot_delete_on_a_full_disk_is_read_on_and_deletes_later(
    use: str, code: int | None
) -> None:
    """A failed log would free nothing either, and would be out of use until the process ends."""
    expected_log, expected_files = prepared()
    USES[use](expected_log)
    writes = 0
    while True:
        log, files = prepared()
        files.fault = disk = full_from(code, writes)
        if disk.left == 0:
            with pytest.raises(StorageBusy, match=r"no space left|bytes fit"):
                USES[use](log)
            assert [record.offset for record in contents(log)] == list(range(16))
        else:
            with suppress(StorageBusy):
                USES[use](log)
        assert log.failed is None
        files.fault = None
        USES[use](log)
        assert names(files, ".log") == names(expected_files, ".log")
        append(log, b"next")
        found = open_log(files.after_crash(), clean=False, config=CONFIG)
        for each in (log, found):
            assert (each.log_start_offset, each.corrupt) == (expected_log.log_start_offset, None)
            assert [record.offset for record in contents(each)] == list(range(each.log_start_offset, 17))
        if not disk.refused:
            return
        writes += 1


@pytest.mark.parametrize("writes", range(5))
def test_producers_stay_known_if_the_disk_is_full_while_their_records_are_deleted(writes: int) -> None:
    """CORRECTNESS T12: what their state could be rebuilt from goes at the next check."""
    log, files = new_log(CONFIG)
    append(log, b"a", b"b", producer=(7, 0, 0))
    log.flush()
    files.fault = full_from(errno.ENOSPC, writes)
    with suppress(StorageBusy):
        log.apply_retention(now_ms=1_001_000, high_watermark=2)
    files.fault = None
    assert log.apply_retention(now_ms=1_001_000, high_watermark=2) == 2
    found = open_log(files.after_crash(), clean=False, config=CONFIG)
    assert append(found, b"c", producer=(7, 0, 2)) == 2


def test_a_follower_that_cannot_delete_on_a_full_disk_has_failed() -> None:
    """H9: if it stayed in sync, it could lead, and show again what was deleted."""
    log, files = prepared()
    files.fault = full_from(errno.ENOSPC, 0)
    with pytest.raises(StorageFailed, match="no space left"):
        log.cutting.advance_start(14)
    assert log.failed is not None


def test_a_sync_that_fails_on_a_full_disk_fails_the_log() -> None:
    """E3: it is unknown what it left."""

    def full(operation: str, path: Path) -> int | None:
        if operation == "sync":
            raise SyncFailed(errno.ENOSPC, "no space left", str(path))
        return None

    log, files = prepared()
    files.fault = full
    with pytest.raises(StorageFailed, match="no space left"):
        log.cutting.advance_start(14, as_leader=True)
