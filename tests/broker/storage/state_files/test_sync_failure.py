"""A sync that failed is remembered by the next life: what it concerned may be gone (CORRECTNESS E3, E14)."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.storage.state_files.sync_failure import SYNC_FAILURE_FILE
from strandline.errors import StorageFailed
from strandline.records import Record
from tests.broker.storage.support.disk import FOLDER, contents, fill, new_log, open_log, replicate


class Broken:
    """Syncs fail while this is true."""

    def __init__(self) -> None:
        self.broken = True

    def __call__(self, operation: str, path: Path) -> int | None:
        if self.broken and operation.startswith("sync"):
            raise OSError(errno.EIO, "as the test wants it", str(path))
        return None


def failed_log() -> tuple[list[Record], MemoryFiles]:
    """Some batches that were synced, as many that were not, and a sync that failed; and all their records."""
    log, files = new_log()
    fill(log, 3)
    log.flush()
    fill(log, 3)
    records = contents(log)
    files.fault = Broken()
    with pytest.raises(StorageFailed):
        log.flush()
    return records, files


def pages_dropped(files: MemoryFiles) -> MemoryFiles:
    """Data that the kernel could not sync is gone, and the machine never stopped: names are in the journal,
    and the small file was never synced."""
    dropped = files.after_crash()
    for path in dropped.files():
        if path.name != SYNC_FAILURE_FILE:
            dropped.drop_unsynced(path)
    return dropped


def test_a_complete_log_is_rewritten_after_a_failed_sync() -> None:
    """The pages are called clean, so no sync would ever write them: they are written once more, and then a
    loss of power takes nothing."""
    expected, files = failed_log()
    again = files.after_crash()
    found = open_log(again)
    assert (contents(found), found.corrupt, found.failed) == (expected, None, None)
    assert found.scanned_bytes > 0
    assert SYNC_FAILURE_FILE not in again.sizes(FOLDER)
    assert contents(open_log(again.after_power_loss(lambda _: 0), clean=False)) == expected


def test_a_log_that_lost_records_by_a_failed_sync_does_not_lead_until_it_has_them() -> None:
    """CORRECTNESS E2, E15: the process had acknowledged them, and the next life believed that it had all."""
    records, files = failed_log()
    leader, _ = new_log()
    fill(leader, 6)
    found = open_log(pages_dropped(files))
    assert contents(found) == records[: found.log_end_offset] != records
    assert found.corrupt is not None
    assert "a sync failed" in found.corrupt
    with pytest.raises(StorageFailed, match="must not lead"):
        found.appending.begin_epoch(9)
    replicate(leader, found)
    found.cutting.mark_whole()
    found.appending.begin_epoch(9)
    assert contents(found) == contents(leader)


def test_a_loss_of_power_supersedes_a_failed_sync() -> None:
    """It takes what is not on the disk, perhaps also the content of the record of the failure, though not
    its name. The log is not damaged but unsure, as any log whose end a loss of power took."""
    records, files = failed_log()
    files = files.after_power_loss(lambda n: n if n > 3 else 0)
    assert files.content(FOLDER / SYNC_FAILURE_FILE) == b""
    found = open_log(files, power_lost=True)
    assert (contents(found), found.corrupt) == (records[:6], None)
    assert SYNC_FAILURE_FILE not in files.sizes(FOLDER)
    found.appending.begin_epoch(9)


def test_a_log_that_cannot_be_rewritten_has_failed_and_fails_again_when_opened() -> None:
    """The disk is still broken: the next life after this one tries again."""
    _, files = failed_log()
    again = files.after_crash()
    again.fault = broken = Broken()
    assert open_log(again).failed is not None
    broken.broken = False
    assert open_log(again.after_crash()).failed is None


def test_records_above_a_cut_are_not_missed() -> None:
    """The leader had asked to drop them when the sync of the truncation failed."""
    log, files = new_log()
    fill(log, 3)
    log.flush()
    files.fault = Broken()
    with pytest.raises(StorageFailed):
        log.cutting.truncate_to(2)
    assert open_log(files.after_crash()).corrupt is None
