"""No descriptor left for a file: nothing is done, nothing is damaged, and the same may be asked again."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.storage.log import PartitionLog
from strandline.errors import StorageBusy
from strandline.records import encode_values
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.storage.support.disk import SMALL, RunsOut, append, contents, fill, new_log, open_log

FULL = TopicConfig(segment_bytes=1024, index_interval_bytes=200, retention_ms=1, cleanup_policy="delete")
TOO_MANY = (errno.EMFILE, "Too many open files")


def follow(log: PartitionLog) -> None:
    log.appending.as_follower(encode_values([b"x"], 0, base_offset=log.log_end_offset, leader_epoch=99))


def mark_whole(log: PartitionLog) -> None:
    log.cutting.mark_whole()


USES: dict[str, Callable[[PartitionLog], object]] = {
    "begin_epoch": lambda log: log.appending.begin_epoch(99),
    "append_as_leader": lambda log: append(log, b"x" * 900),  # into a new segment
    "append_as_follower": follow,
    "read": lambda log: log.read(0, 1 << 20, below=4),
    "bytes_from": lambda log: log.bytes_from(0),
    "search_time": lambda log: log.search_time(0, start=0, below=4),
    "advance_log_start": lambda log: log.cutting.advance_start(4),
    "apply_retention": lambda log: log.apply_retention(now_ms=10**13, high_watermark=6),
    "flush": lambda log: log.flush(),
}


def picture(log: PartitionLog, files: MemoryFiles) -> object:
    """Everything observable of a log, now and after a crash."""
    log.flush()
    found = open_log(files.after_crash(), clean=False, config=FULL)
    return [
        (contents(each), each.epochs.entries, each.log_start_offset, each.log_end_offset, each.corrupt)
        for each in (log, found)
    ]


def prepared() -> tuple[PartitionLog, MemoryFiles]:
    """A few segments, all of whose descriptors and indexes were given back."""
    log, files = new_log(FULL)
    fill(log, 8)
    log.close(clean=False)
    return log, files


@pytest.mark.parametrize("use", USES)
def test_any_operation_that_could_not_open_a_file_may_be_repeated(use: str) -> None:
    """CORRECTNESS E14: connections alone had fenced replicas to which nothing had been written. The n-th file
    that an operation opens is refused, for each n."""
    expected_log, expected_files = prepared()
    USES[use](expected_log)
    expected = picture(expected_log, expected_files)
    opened = 0
    while True:
        log, files = prepared()
        files.fault = descriptors = RunsOut("open", TOO_MANY, opened)
        if opened:
            try:
                USES[use](log)
            except StorageBusy as error:
                assert "Too many open files" in error.message
        else:
            with pytest.raises(StorageBusy, match="Too many open files"):
                USES[use](log)
        assert log.failed is None
        refused, descriptors.left = descriptors.refused, 1 << 30
        if refused:
            USES[use](log)
        assert picture(log, files) == expected
        if not refused:
            return
        opened += 1


def test_a_log_that_cannot_be_opened_for_want_of_descriptors_has_not_failed() -> None:
    """It is opened again later; a log that failed would be out of use until the process ends."""
    log, files = new_log(SMALL)
    fill(log, 3)
    files.fault = descriptors = RunsOut("open", TOO_MANY, 0)
    with pytest.raises(StorageBusy):
        open_log(files)
    descriptors.left = 1 << 30
    assert open_log(files).failed is None
