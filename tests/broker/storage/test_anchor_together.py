"""Logs that begin together: each has begun or has not, wherever the power was lost (CORRECTNESS E2, E18)."""

from __future__ import annotations

import errno
import random
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.storage.log import PartitionLog
from strandline.broker.storage.provenance import SYNC_EACH_MAX, anchor_together
from strandline.broker.storage.state_files.log_state import STAGED_FILE, STATE_FILE
from strandline.broker.storage.state_files.partition_folder import Description
from strandline.broker.storage.state_files.sync_failure import SYNC_FAILURE_FILE
from strandline.ids import LeaderEpoch, PartitionId, PartitionKey, TopicId, TopicPartition
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.storage.support.disk import ManualClock, append

DATA: Final = Path("/data")
LIFE_BEFORE: Final = 70
FEW: Final = SYNC_EACH_MAX
MANY: Final = SYNC_EACH_MAX + 1
POWER_LOSSES: Final = 4
"""Outcomes that are tried for each step, beside the loss of everything that was not synced."""


class Crash(BaseException):
    """The end of the process."""


class Disk:
    """The logs of a group on a disk in memory, and the operations on it."""

    def __init__(self, count: int) -> None:
        self.files = MemoryFiles()
        self.lock = self.files.lock(DATA / "lock")
        self.logs = [begun(self.files, number) for number in range(count)]
        self.done: Counter[str] = Counter()
        self.crash_at = -1
        """The number of the operation before which the process ends; negative: it does not."""
        self.broken: tuple[str, str] | None = None
        """An operation that fails, at paths with this text."""
        self.files.fault = self._fault

    def _fault(self, operation: str, path: Path) -> int | None:
        if self.done.total() == self.crash_at:
            raise Crash
        self.done[operation] += 1
        if self.broken is not None and operation == self.broken[0] and self.broken[1] in str(path):
            raise OSError(errno.EIO, "as the test wants it", str(path))
        return None

    def sync_disk(self) -> bool:
        return self.files.sync_all(self.lock)

    def after_power_loss(self, seed: int) -> MemoryFiles:
        """Seed 0: nothing that was not synced is left."""
        rng = random.Random(seed)
        return self.files.after_power_loss(
            lambda n: rng.choice((0, n, rng.randint(0, n))) if seed else 0,
            lambda n: [sector for sector in range(n) if rng.random() < 1 / 2],
        )

    def anchor(self) -> None:
        anchor_together([log.provenance for log in self.logs], self.sync_disk)


def folder(number: int) -> Path:
    return DATA / f"topic-{number}"


def begun(files: MemoryFiles, number: int) -> PartitionLog:
    """A log in a folder that was just made, as a broker makes it in its second life."""
    path = folder(number)
    assert files.make_directory(path)
    name = TopicPartition("topic", number)
    Description(name, PartitionKey(TopicId("0" * 32), PartitionId(number)), {}).save_new(path, files=files)
    log = PartitionLog.open(path, TopicConfig(), clock=ManualClock(), clean=False, new=True, files=files)
    log.provenance.begin_after(LIFE_BEFORE)
    return log


def reopened(files: MemoryFiles, number: int) -> PartitionLog:
    return PartitionLog.open(
        folder(number), TopicConfig(), clock=ManualClock(), clean=False, power_lost=True, files=files
    )


def check_begun(files: MemoryFiles, number: int) -> None:
    """The log is whole: it counts for every life after `LIFE_BEFORE`, and the folder says whose it is."""
    log = reopened(files, number)
    assert (log.failed, log.corrupt) == (None, None)
    assert log.provenance.anchored
    assert log.provenance.survives_power_loss
    assert log.provenance.absent_through == LIFE_BEFORE
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert Description.load(folder(number), files=files).name == ("topic", number)


@pytest.mark.parametrize("count", [1, FEW, MANY])
def test_logs_that_were_anchored_survive_a_loss_of_power(count: int) -> None:
    disk = Disk(count)
    disk.anchor()
    assert all(log.provenance.anchored for log in disk.logs)
    found = disk.files.after_power_loss(lambda _: 0)
    for number in range(count):
        check_begun(found, number)


@pytest.mark.parametrize("count", [FEW, MANY])
def test_a_loss_of_power_at_each_step_leaves_logs_that_have_begun_and_logs_that_have_not(count: int) -> None:
    """None is damaged, and one that was not anchored counts for no earlier life."""
    step, some = 0, 0
    while True:
        disk = Disk(count)
        disk.crash_at = step
        try:
            disk.anchor()
        except Crash:
            pass
        else:
            break
        assert not any(log.provenance.anchored for log in disk.logs)
        for seed in range(POWER_LOSSES + 1):
            found = disk.after_power_loss(seed)
            present = [number for number in range(count) if folder(number).name in found.directories(DATA)]
            begun = [number for number in present if STATE_FILE in found.sizes(folder(number))]
            some += 0 < len(begun) < count
            for number in present:
                if number in begun:
                    check_begun(found, number)
                else:
                    log = reopened(found, number)
                    assert (log.corrupt, log.failed, log.provenance.anchored) == (None, None, False)
                    assert STAGED_FILE not in found.sizes(folder(number))
        step += 1
    assert some, "a loss of power while the names were synced"


def test_many_logs_cost_two_syncs_of_the_disk_and_few_some_of_each_file() -> None:
    disk = Disk(300)
    disk.anchor()
    assert disk.done["sync_all"] == 2
    assert not disk.done["sync"] and not disk.done["sync_directory"]
    assert disk.done["create"] == disk.done["append"] == disk.done["rename"] == 300
    disk = Disk(FEW)
    disk.anchor()
    assert disk.done["sync_all"] == 0
    assert (disk.done["sync"], disk.done["sync_directory"]) == (2 * FEW, 3 * FEW)


def test_a_disk_that_cannot_be_synced_as_a_whole_has_each_file_synced() -> None:
    disk = Disk(MANY)
    anchor_together([log.provenance for log in disk.logs], lambda: False)
    assert (disk.done["sync"], disk.done["sync_directory"]) == (2 * MANY, 3 * MANY)
    for number in range(MANY):
        check_begun(disk.files.after_power_loss(lambda _: 0), number)


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("operation", ["create", "append", "rename"])
def test_a_log_that_fails_does_not_keep_the_others_from_beginning(operation: str, count: int) -> None:
    """CORRECTNESS E14."""
    disk = Disk(count)
    disk.broken = operation, f"{folder(1).name}/"
    disk.anchor()
    assert [number for number, log in enumerate(disk.logs) if log.failed is not None] == [1]
    assert [number for number, log in enumerate(disk.logs) if not log.provenance.anchored] == [1]
    found = disk.files.after_power_loss(lambda _: 0)
    assert STATE_FILE not in found.sizes(folder(1))
    check_begun(found, 0)


@pytest.mark.parametrize("which", [1, 2])
def test_a_failed_sync_of_the_disk_fails_the_logs_of_the_group_and_no_other(which: int) -> None:
    """CORRECTNESS E3, E14: any of them may have lost what was written, and each remembers it."""
    disk = Disk(MANY + 1)
    other, syncs = disk.logs.pop(), 0

    def sync_disk() -> bool:
        nonlocal syncs
        syncs += 1
        if syncs == which:
            disk.broken = "sync_all", ""
        return disk.sync_disk()

    anchor_together([log.provenance for log in disk.logs], sync_disk)
    assert syncs == which
    assert all(log.failed is not None and not log.provenance.anchored for log in disk.logs)
    assert all(SYNC_FAILURE_FILE in disk.files.sizes(folder(number)) for number in range(MANY))
    assert other.failed is None
    disk.broken = None
    anchor_together([other.provenance], disk.sync_disk)
    assert other.provenance.anchored


def test_a_failed_sync_of_a_file_fails_its_log() -> None:
    disk = Disk(FEW)
    disk.broken = "sync", f"{folder(3).name}/"
    disk.anchor()
    assert [number for number, log in enumerate(disk.logs) if log.failed is not None] == [3]


def test_facts_that_come_into_force_meanwhile_are_kept() -> None:
    """CORRECTNESS E2: the log is anchored the next time, with both."""
    disk = Disk(MANY)
    log = disk.logs[2]

    def sync_disk() -> bool:
        log.provenance.mark_unsure(LIFE_BEFORE)
        return disk.sync_disk()

    anchor_together([each.provenance for each in disk.logs], sync_disk)
    assert [number for number, each in enumerate(disk.logs) if not each.provenance.anchored] == [2]
    assert log.failed is None
    assert STAGED_FILE not in disk.files.sizes(folder(2))
    disk.anchor()
    assert log.provenance.anchored
    found = disk.files.after_power_loss(lambda _: 0)
    assert reopened(found, 2).provenance.unsure_through == LIFE_BEFORE
    check_begun(found, 2)


def test_a_log_that_is_anchored_already_is_left_alone() -> None:
    disk = Disk(MANY)
    disk.anchor()
    disk.done.clear()
    disk.anchor()
    assert not disk.done.total()


@pytest.mark.parametrize("change", ["close", "mark_unsure"])
def test_a_change_before_the_log_is_anchored_keeps_where_it_begins(change: str) -> None:
    """CORRECTNESS E2: its next life took the file for that of a log which had been there all the time."""
    disk = Disk(1)
    (log,) = disk.logs
    if change == "close":
        log.appending.begin_epoch(LeaderEpoch(1))
        append(log, b"record")
        log.close(clean=True)
    else:
        log.provenance.mark_unsure(LIFE_BEFORE)
    found = reopened(disk.files, 0)
    assert found.provenance.absent_through == LIFE_BEFORE
