"""Opening a log that lost a file: a segment, or the file that says where it begins (CORRECTNESS E15)."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.storage.log import PartitionLog
from strandline.broker.storage.segments.segment import file_name
from strandline.errors import StorageFailed
from tests.broker.storage.support.disk import FOLDER, contents, fill, names, new_log, open_log, replicate


def log_path(offset: int) -> Path:
    return FOLDER / file_name(offset, ".log")


def without_segment(offset: int, harm: str, *, start: int = 0) -> tuple[PartitionLog, MemoryFiles]:
    """A log of four segments, and its disk after a clean close and the loss of one segment's records."""
    log, files = new_log()
    fill(log, 12)
    log.cutting.advance_start(start)
    log.close(clean=True)
    after = files.after_crash()
    if harm == "remove":
        after.remove(log_path(offset))
    else:
        after.truncate(after.open(log_path(offset)), 0)
    return log, after


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("harm", ["remove", "empty"])
@pytest.mark.parametrize(("offset", "end"), [(0, 0), (18, 18)])
def test_a_log_without_its_first_or_last_segment_must_not_lead(
    offset: int, end: int, harm: str, clean: bool
) -> None:
    """E15: it is shorter than it was promised to be."""
    _, after = without_segment(offset, harm)
    found = open_log(after, clean=clean)
    assert found.corrupt is not None
    assert (found.log_start_offset, found.log_end_offset) == (0, end)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("harm", ["remove", "empty"])
@pytest.mark.parametrize("start", [0, 2])
def test_a_log_without_its_first_segment_is_copied_from_its_start_on(
    start: int, harm: str, clean: bool
) -> None:
    """E15: it may be whole again once it has all records, and not with the gap, over restarts too."""
    leader, after = without_segment(0, harm, start=start)
    for _ in range(2):
        found = open_log(after, clean=clean)
        assert (found.log_start_offset, found.log_end_offset) == (start, start)
        assert names(after, ".log")[-3:] == [6, 12, 18]
        found.close(clean=True)
        after = after.after_crash()
    found = open_log(after, clean=clean)
    replicate(leader, found)
    assert contents(found) == contents(leader)
    assert found.corrupt is not None
    found.cutting.mark_whole()
    again = open_log(after.after_crash(), clean=False)
    assert (again.corrupt, contents(again)) == (None, contents(leader))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("harm", ["remove", "empty"])
def test_a_hole_in_the_log_is_never_read_over(harm: str, clean: bool) -> None:
    """E15, E14: sealed segments are not opened at start; the first read of the hole fences the log."""
    _, after = without_segment(6, harm)
    found = open_log(after, clean=clean)
    with pytest.raises(StorageFailed):
        contents(found)
    assert found.failed is not None


def test_a_lost_state_file_is_not_guessed() -> None:
    """H7, E15: without its recovery point it is unknown how long the log was promised to be."""
    log, files = new_log()
    fill(log, 12)
    log.close(clean=True)
    after = files.after_crash()
    after.corrupt(FOLDER / "log.json", 3)
    found = open_log(after)
    assert "log.json" in (found.corrupt or "")
    assert contents(found) == contents(log)


def test_without_a_state_file_it_is_not_guessed_where_a_log_begins() -> None:
    """E15: records that retention deleted, and records that the disk lost, look the same."""
    log, files = new_log()
    fill(log, 12)
    log.cutting.advance_start(6)
    after = files.after_crash()
    after.corrupt(FOLDER / "log.json", 3)
    found = open_log(after, clean=False)
    assert (found.log_start_offset, found.log_end_offset) == (0, 0)
    assert "log.json" in (found.corrupt or "")
    assert names(after, ".log") == [6, 12, 18]
