"""A disk writes sectors in any order: a loss of power may leave a hole in front of good batches (E3, E15)."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.adapters.system.memory_nodes import SECTOR_BYTES
from strandline.broker.storage.log import PartitionLog
from strandline.broker.storage.segments.segment import file_name
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.storage.support.disk import (
    FOLDER,
    anchored,
    append,
    contents,
    fill,
    names,
    new_log,
    open_log,
)

ONE_SEGMENT = TopicConfig()
BATCH_BYTES = 279
"""The size of a batch that `fill` appends."""
BATCHES = 9
SECTORS = -(-BATCHES * BATCH_BYTES // SECTOR_BYTES)


def all_of_it(n: int) -> int:
    return n


def without_sector(files: MemoryFiles, sector: int) -> MemoryFiles:
    """Everything was written but one sector of each file that has it."""

    def lost(count: int) -> Collection[int]:
        return [sector] if sector < count else []

    return files.after_power_loss(all_of_it, lost)


def unsynced_log() -> tuple[PartitionLog, MemoryFiles]:
    """A log of one segment on the medium, none of whose batches is synced."""
    log, files = new_log(ONE_SEGMENT)
    anchored(log)
    fill(log, BATCHES)
    return log, files


@pytest.mark.parametrize("sector", range(SECTORS))
def test_a_sector_that_was_never_written_is_a_torn_end(sector: int) -> None:
    """CORRECTNESS E3: the log ends before the hole, and goes on from there. Nothing behind it comes back."""
    log, files = unsynced_log()
    whole = sector * SECTOR_BYTES // BATCH_BYTES * 2
    expected = contents(log)[:whole]
    after = without_sector(files, sector)
    found = open_log(after, power_lost=True)
    assert (found.corrupt, found.log_end_offset, contents(found)) == (None, whole, expected)
    found.appending.begin_epoch(2)
    append(found, b"goes on")
    again = open_log(after.after_crash(), clean=False)
    assert (again.corrupt, [record.value for record in contents(again)][-1]) == (None, b"goes on")


def test_what_was_synced_is_kept_in_front_of_a_hole() -> None:
    """CORRECTNESS E3: the hole may begin in the middle of a sector, where the synced bytes end."""
    log, files = unsynced_log()
    log.flush()
    expected = contents(log)
    fill(log, 6)
    found = open_log(without_sector(files, 0), power_lost=True)
    assert (found.corrupt, contents(found)) == (None, expected)


def test_a_hole_in_front_of_other_segments_is_a_torn_end() -> None:
    """CORRECTNESS E3: a segment is sealed without a sync, so the next one may be on the medium before it."""
    log, files = new_log()
    anchored(log)
    fill(log, 12)
    assert len(names(files, ".log")) > 2
    expected = contents(log)
    after = without_sector(files, 0)
    found = open_log(after, power_lost=True)
    assert (found.corrupt, found.log_end_offset, names(after, ".log")) == (None, 0, [])
    short = files.after_crash()
    descriptor = short.open(FOLDER / file_name(6, ".log"))
    for size in (2 * BATCH_BYTES + 100, BATCH_BYTES, 0):
        short.truncate(descriptor, size)
        found = open_log(each := short.after_crash(), power_lost=True)
        end = 6 + 2 * (size // BATCH_BYTES)
        assert (found.corrupt, contents(found)) == (None, expected[:end])
        assert max(names(each, ".log")) <= 6


def test_a_log_that_syncs_each_record_is_whole_though_the_next_ones_have_a_hole() -> None:
    """CORRECTNESS E3: the power is lost before the sync of some batches is over, and no record of them
    counted. All replicas of a partition may lose their power at once, so such a log must be able to lead."""
    log, files = new_log(TopicConfig(flush_messages=1))
    anchored(log)
    fill(log, 2)
    log.flush()
    counted = log.log_end_offset
    fill(log, 6)
    found = open_log(without_sector(files, 1), power_lost=True)
    assert (found.corrupt, found.provenance.survives_power_loss) == (None, True)
    assert found.log_end_offset >= counted
    found.appending.begin_epoch(2)


@pytest.mark.parametrize("position", [0, 9, 17, 23, 200])
def test_bytes_that_are_wrong_and_not_missing_are_damage_after_a_loss_of_power_too(position: int) -> None:
    """CORRECTNESS E15: zeros are what was not written, so anything else was written, and is wrong now."""
    _, files = unsynced_log()
    after = files.after_power_loss(all_of_it)
    after.corrupt(FOLDER / file_name(0, ".log"), 3 * BATCH_BYTES + position)
    found = open_log(after, power_lost=True)
    assert (found.corrupt is not None, found.log_end_offset) == (True, 6)


def test_a_hole_is_damage_where_no_power_was_lost_or_all_was_synced() -> None:
    """CORRECTNESS E15: a kill leaves no hole, and a loss of power leaves none below the recovery point."""
    _, files = unsynced_log()
    assert open_log(without_sector(files, 1), clean=False).corrupt is not None
    log, files = unsynced_log()
    log.close(clean=True)
    after = files.after_power_loss(all_of_it)
    after.remove(FOLDER / file_name(0, ".index"))
    after.overwrite(FOLDER / file_name(0, ".log"), SECTOR_BYTES, bytes(SECTOR_BYTES))
    assert open_log(after, power_lost=True).corrupt is not None


def test_a_mark_of_damage_outlives_a_loss_of_power() -> None:
    """CORRECTNESS E15: its files stay until a leader's records replace them."""
    _, files = unsynced_log()
    after = files.after_power_loss(all_of_it)
    after.corrupt(FOLDER / file_name(0, ".log"), 100)
    assert open_log(after, power_lost=True).corrupt is not None
    size = after.sizes(FOLDER)[file_name(0, ".log")]
    again = without_sector(after, 0)
    assert open_log(again, power_lost=True).corrupt is not None
    assert again.sizes(FOLDER)[file_name(0, ".log")] == size
