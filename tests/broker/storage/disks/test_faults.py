"""A disk that is full, breaks or lies: the first failure is the last thing a log does (CORRECTNESS E14)."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.storage.log import PartitionLog
from strandline.broker.storage.state_files.checkpoint import Checkpoint, write_atomically
from strandline.errors import StorageFailed
from strandline.records import encode_values
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.storage.support.disk import append, contents, fill, new_log, offset_for_timestamp, open_log

SHORT = 10
"""Bytes of a write that reach the disk before it is full."""


class Disk:
    """A disk that fails operations of one kind, from when a test says so."""

    def __init__(self, operation: str, code: int | None) -> None:
        self.operation = operation
        self.code = code
        self.broken = False

    def __call__(self, operation: str, path: Path) -> int | None:
        if not self.broken or operation != self.operation:
            return None
        if self.code is None:
            return SHORT
        raise OSError(self.code, "as the test wants it", str(path))


USES: dict[str, Callable[[PartitionLog], object]] = {
    "begin_epoch": lambda log: log.appending.begin_epoch(99),
    "append_as_leader": lambda log: append(log, b"x"),
    "append_as_follower": lambda log: log.appending.as_follower(
        encode_values([b"x"], 0, base_offset=log.log_end_offset, leader_epoch=99)
    ),
    "read": lambda log: log.read(2, 1, below=4),
    "offset_for_timestamp": lambda log: offset_for_timestamp(log, 0, below=log.log_end_offset),
    "truncate_to": lambda log: log.cutting.truncate_to(3),
    "reset_to": lambda log: log.cutting.reset_to(7),
    "advance_log_start": lambda log: log.cutting.advance_start(4),
    "apply_retention": lambda log: log.apply_retention(now_ms=10**13, high_watermark=6),
    "flush": lambda log: log.flush(),
}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, None], ids=["full", "broken", "short"])
@pytest.mark.parametrize("use", USES)
def test_nothing_is_done_after_a_failed_append(code: int | None, use: str) -> None:
    """E14: also when the disk is well again; what lies behind the failure is unknown."""
    log, files = new_log()
    fill(log, 3)
    expected = contents(log)
    files.fault = disk = Disk("append", code)
    disk.broken = True
    with pytest.raises(StorageFailed, match=r"topic-0: .*"):
        append(log, b"x" * 100)
    disk.broken = False
    assert (log.log_end_offset, log.failed is not None) == (6, True)
    operations = files.operations
    with pytest.raises(StorageFailed):
        USES[use](log)
    log.close(clean=True)
    assert files.operations == operations
    found = open_log(files.after_crash(), clean=True)
    assert (contents(found), found.corrupt) == (expected, None)
    assert found.cut_bytes == (SHORT if code is None else 0)


@pytest.mark.parametrize(
    ("use", "operation"),
    [
        ("begin_epoch", "append"),
        ("begin_epoch", "rename"),
        ("append_as_follower", "append"),
        ("read", "read"),
        ("offset_for_timestamp", "read"),
        ("truncate_to", "truncate"),
        ("truncate_to", "sync"),
        ("reset_to", "remove"),
        ("reset_to", "sync_directory"),
        ("advance_log_start", "rename"),
        ("apply_retention", "create"),
        ("flush", "sync"),
        ("flush", "sync_directory"),
    ],
)
def test_any_failed_operation_fences_the_log(use: str, operation: str) -> None:
    """E14: an error of a sync above all, for the next one may report nothing (and lie)."""
    log, files = new_log()
    fill(log, 3)
    expected = contents(log)
    log.cutting.advance_start(2)
    files.fault = disk = Disk(operation, errno.EIO)
    disk.broken = True
    with pytest.raises(StorageFailed):
        USES[use](log)
    disk.broken = False
    with pytest.raises(StorageFailed):
        log.flush()
    found = open_log(files.after_crash(), clean=False)
    assert found.corrupt is None
    records = contents(found)
    assert records == [r for r in expected if found.log_start_offset <= r.offset < found.log_end_offset]


def test_a_fenced_log_does_not_even_answer_a_retry() -> None:
    """E14: it can no longer vouch for its earlier writes."""
    log, files = new_log()
    data = encode_values([b"a"], 0, producer_id=9, producer_epoch=0, base_sequence=0)
    log.appending.as_leader(data, 1, now_ms=0)
    files.fault = disk = Disk("append", errno.EIO)
    disk.broken = True
    for attempt in (encode_values([b"b"], 0), data):
        with pytest.raises(StorageFailed):
            log.appending.as_leader(attempt, 1, now_ms=0)


def test_a_close_that_fails_is_recovered_from() -> None:
    log, files = new_log()
    fill(log, 3)
    expected = contents(log)
    files.fault = disk = Disk("sync", errno.EIO)
    disk.broken = True
    log.close(clean=True)
    assert log.failed is not None
    found = open_log(files.after_crash(), clean=True)
    assert found.scanned_bytes > 0
    assert contents(found) == expected


def test_a_duplicate_and_a_refused_batch_touch_no_disk() -> None:
    """Typed errors come before anything is written."""
    log, files = new_log(TopicConfig(max_message_bytes=1024))
    data = encode_values([b"a"], 0, producer_id=9, producer_epoch=0, base_sequence=0)
    log.appending.as_leader(data, 1, now_ms=0)
    operations = files.operations
    assert log.appending.as_leader(data, 1, now_ms=0).duplicate
    assert files.operations == operations


# --- checkpoints ----------------------------------------------------------------------------

PATH = Path("/data/watermarks")


def test_a_checkpoint_keeps_entries_that_are_not_passed_to_it() -> None:
    """H7: a folder that is missing today may be there tomorrow."""
    files = MemoryFiles()
    Checkpoint(PATH, files=files).write({"a": 1, "b": 2})
    checkpoint = Checkpoint(PATH, files=files)
    checkpoint.write({"b": 3})
    checkpoint.forget("nobody")
    again = Checkpoint(PATH, files=files)
    assert [again.get(name) for name in ("a", "b", "c")] == [1, 3, None]
    again.forget("a")
    again.write({})
    assert Checkpoint(PATH, files=files).get("a") is None


def test_a_checkpoint_that_changes_nothing_writes_nothing() -> None:
    files = MemoryFiles()
    checkpoint = Checkpoint(PATH, files=files)
    checkpoint.write({"a": 1})
    operations = files.operations
    checkpoint.write({"a": 1})
    assert files.operations == operations


def test_a_damaged_checkpoint_is_an_error_and_no_zero() -> None:
    """H7."""
    files = MemoryFiles()
    Checkpoint(PATH, files=files).write({"a": 1})
    files.corrupt(PATH, 0)
    with pytest.raises(StorageFailed, match="watermarks is damaged"):
        Checkpoint(PATH, files=files)


@pytest.mark.parametrize("power_loss", [False, True])
def test_a_file_is_replaced_as_a_whole_wherever_the_crash(power_loss: bool) -> None:
    """H7: the old content or the new one; the new one once the call has returned."""

    class Crash(BaseException):
        pass

    for step in range(100):
        files = MemoryFiles()
        write_atomically(PATH, b"old", files=files)
        left = [step]

        def crash(operation: str, path: Path, left: list[int] = left) -> int | None:
            left[0] -= 1
            if left[0] < 0:
                raise Crash
            return None

        files.fault = crash
        done = False
        try:
            write_atomically(PATH, b"new", files=files)
            done = True
        except Crash:
            pass
        after = files.after_power_loss(lambda n: 0) if power_loss else files.after_crash()
        content = after.read(after.open(PATH), 10, 0)
        assert content == b"new" if done else content in (b"old", b"new")
        if done:
            return
    raise AssertionError("it never came to an end")


def test_a_checkpoint_that_could_not_be_written_is_as_it_was() -> None:
    files = MemoryFiles()
    checkpoint = Checkpoint(PATH, files=files)
    checkpoint.write({"a": 1})
    files.fault = disk = Disk("append", None)
    disk.broken = True
    with pytest.raises(OSError, match="of"):
        checkpoint.write({"a": 2})
    assert checkpoint.get("a") == Checkpoint(PATH, files=files.after_crash()).get("a") == 1
