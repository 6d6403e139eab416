"""A broker dies, or its machine does, at each step of a compaction: the log is the old or the new one.

Each operation on the disk is a step, and for a loss of power every outcome that a seed draws is tried. The
checks look from the outside: the last record of every key is there, every record was written, and another
compaction has the result that the first one would have had.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.storage.log import PartitionLog
from tests.broker.storage.compaction.compacting import (
    COMPACTED,
    NOW_MS,
    check_sound,
    compact,
    compacted_log,
    pairs,
    put,
    remembered,
    seal,
)
from tests.broker.storage.support.disk import FOLDER, open_log

LATER_MS = NOW_MS + 5_000
POWER_LOSSES = 6
"""Outcomes that are tried for each step."""


class Crash(BaseException):
    """The end of the process."""


class CrashAt:
    """Ends the process before an operation: the `step`th from now on."""

    def __init__(self, step: int) -> None:
        self.left = step

    def __call__(self, operation: str, path: Path) -> int | None:
        if operation == "read":
            return None
        self.left -= 1
        if self.left < 0:
            raise Crash
        return None


def filled() -> tuple[PartitionLog, MemoryFiles]:
    """Segments that become fewer, tombstones whose time has come, producers, epochs, an active segment."""
    log, files = compacted_log()
    for number in range(12):
        put(log, (f"key {number % 5}", f"{number}" * 60), (f"dead {number % 2}", "alive"))
    put(log, ("dead 0", None), ("dead 1", None), producer=(7, 0, 0))
    log.appending.begin_epoch(2)
    seal(log)
    compact(log)
    for number in range(12, 24):
        put(
            log, (f"key {number % 4}", f"{number}"), ("once", str(number)), producer=(8, 0, 2 * (number - 12))
        )
    put(log, ("key 1", None))
    seal(log)
    put(log, ("key 0", "active"))
    log.flush()
    return log, files


def live(log: PartitionLog) -> dict[str, tuple[int, str | None]]:
    """A table made of the log: each key's last record, unless it is a tombstone."""
    table: dict[str, tuple[int, str | None]] = {}
    for offset, key, value in pairs(log):
        table[key] = (offset, value)
    return {key: last for key, last in table.items() if last[1] is not None}


def steps_of_a_compaction() -> int:
    log, files = filled()
    before = files.operations
    assert compact(log, now_ms=LATER_MS) == 1
    return files.operations - before


STEPS = steps_of_a_compaction()


def compact_all(log: PartitionLog) -> None:
    log.appending.begin_epoch(3)
    seal(log)
    compact(log, now_ms=LATER_MS)


def compacted_at_leisure() -> list[tuple[int, str, str | None]]:
    log, _ = filled()
    compact(log, now_ms=LATER_MS)
    compact_all(log)
    return pairs(log)


def reopened(files: MemoryFiles) -> PartitionLog:
    log = open_log(files, config=COMPACTED, clean=False)
    assert (log.failed, log.corrupt) == (None, None)
    return log


@pytest.mark.parametrize("step", range(STEPS + 1))
def test_a_crash_at_any_step_leaves_the_old_log_or_the_new_one(step: int) -> None:
    """Crash-safe. A killed process loses nothing that it wrote; then a machine without power
    keeps some of what was not synced. Producers and epochs are those of the log that was never compacted
    (T1, T12)."""
    log, files = filled()
    written, table = pairs(log), live(log)
    end, epochs = log.log_end_offset, log.epochs.entries
    producers = remembered(log)
    expected = compacted_at_leisure()
    files.fault = CrashAt(step)
    try:
        compact(log, now_ms=LATER_MS)
        assert step == STEPS
    except Crash:
        pass
    chance = random.Random(step)
    outcomes = [files.after_crash()]
    outcomes += [files.after_power_loss(lambda n: chance.randint(0, n)) for _ in range(POWER_LOSSES)]
    outcomes += [files.after_power_loss(lambda n: 0), files.after_power_loss(lambda n: n)]
    for after in outcomes:
        again = reopened(after)
        assert again.log_end_offset == end
        assert again.epochs.entries == epochs
        assert remembered(again) == producers
        assert set(pairs(again)) <= set(written)
        assert live(again) == table
        assert not [name for name in after.sizes(FOLDER) if name.endswith((".cleaned", ".swap", ".partial"))]
        check_sound(again, after, power_lost=after is not outcomes[0])
        compact_all(again)
        assert pairs(again) == expected
        check_sound(again, after, power_lost=after is not outcomes[0])


@pytest.mark.parametrize("step", range(STEPS))
def test_a_log_that_crashed_twice(step: int) -> None:
    """The open that finishes a swap dies too, at each of its own steps."""
    log, files = filled()
    table, end = live(log), log.log_end_offset
    files.fault = CrashAt(step)
    with pytest.raises(Crash):
        compact(log, now_ms=LATER_MS)
    for second in range(40):
        after = files.after_crash()
        after.fault = CrashAt(second)
        try:
            reopened(after)
            break
        except Crash:
            again = reopened(after.after_crash())
            assert (live(again), again.log_end_offset) == (table, end)

    else:
        raise AssertionError("the open never came to its end")
