"""Compaction keeps the last record of a key, in its place (Kafka's log cleaner).

`test_machine.py` has the histories, `test_crash.py` the crashes, `test_readers.py` the effects on readers.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.storage.compaction.key_map import ENTRY_BYTES, KeyMap
from strandline.broker.storage.compaction.rewrite import Abandoned, Compaction, Replacement
from strandline.broker.storage.log import PartitionLog
from strandline.errors import InvalidConfig, InvalidRecord, StorageFailed
from strandline.records import (
    PackedRecords,
    decode,
    encode_batch,
    encode_values,
    split,
)
from strandline.records.header import assemble
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.storage.compaction.compacting import (
    COMPACTED,
    MAP_BYTES,
    NOW_MS,
    batches,
    check_sound,
    compact,
    compacted_log,
    pairs,
    put,
    seal,
)
from tests.broker.storage.support.disk import FOLDER, append, names, open_log
from tests.strandline.records.hostile_batches import timed

HOUR_MS = 3_600_000
LOG_APPEND_TIME = 8


# --- what stays ------------------------------------------------------------------------------


def sealed_log() -> tuple[PartitionLog, MemoryFiles]:
    """One sealed segment, with a record and its successor."""
    log, files = compacted_log()
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    seal(log)
    return log, files


def keys_read(log: PartitionLog, high_watermark: int) -> Compaction:
    """A pass that has read the keys and written nothing yet."""
    compaction = log.begin_compaction(now_ms=NOW_MS, high_watermark=high_watermark, map_bytes=MAP_BYTES)
    assert compaction is not None
    compaction.read_keys()
    return compaction


def one_group(log: PartitionLog, high_watermark: int) -> tuple[Compaction, Replacement]:
    """A pass that has written its first group."""
    compaction = keys_read(log, high_watermark)
    group = compaction.write_group()
    assert group is not None
    return compaction, group


def test_the_last_record_of_each_key_keeps_its_offset() -> None:
    """Offsets never change, order never changes."""
    log, files = compacted_log()
    put(log, ("a", "1"), ("b", "1"), ("a", "2"))
    put(log, ("c", "1"))
    put(log, ("b", "2"))
    seal(log)
    put(log, ("a", "not yet"))
    assert compact(log) == 1
    assert pairs(log) == [(2, "a", "2"), (3, "c", "1"), (4, "b", "2"), (5, "a", "not yet")]
    assert (log.log_start_offset, log.log_end_offset) == (0, 6)
    check_sound(log, files)


def test_a_batch_keeps_its_first_and_last_offset_and_says_how_many_records_are_left() -> None:
    """A gap is visible: by fewer records than offsets, or by a batch that covers it and has none."""
    log, _ = compacted_log()
    for _ in range(3):
        put(log, ("a", "old"), ("b", "old"))
    put(log, ("a", "x"), ("b", "x"), ("a", "new"))
    seal(log)
    compact(log)
    found = [(h.base_offset, h.last_offset, h.record_count, h.is_gap) for h in batches(log)]
    assert found == [(0, 5, 0, True), (6, 8, 2, False)]


def test_active_uncommitted_and_unsynced_records_are_not_compacted() -> None:
    """H9, and never the active segment; a record that a loss of power may take makes no other superfluous."""
    log, _ = compacted_log()
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    assert compact(log) == 0
    log._parts.roll()
    assert compact(log) == 0
    log.flush()
    assert compact(log, high_watermark=1) == 0
    assert len(pairs(log)) == 2
    assert compact(log) == 1
    assert pairs(log) == [(1, "a", "2")]


def test_nothing_above_the_watermark_makes_a_record_superfluous() -> None:
    """H9: what follows may yet be truncated, and then the older record is the last one."""
    log, _ = compacted_log()
    put(log, ("a", "1"))
    seal(log)
    put(log, ("a", "2"))
    seal(log)
    assert compact(log, high_watermark=1) == 1
    assert pairs(log) == [(0, "a", "1"), (1, "a", "2")]


def test_a_topic_that_is_not_compacted_is_left_alone() -> None:
    log, _ = compacted_log(TopicConfig(segment_bytes=1024))
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    seal(log)
    assert compact(log) == 0


def test_the_dirty_ratio_decides_when() -> None:
    """Kafka's `min.cleanable.dirty.ratio`: more than this part of what may be compacted is new."""
    log, _ = compacted_log(TopicConfig(cleanup_policy="compact", segment_bytes=1 << 20))
    for number in range(10):
        put(log, (f"key {number}", "x"))
    seal(log)
    assert compact(log) == 1
    for _ in range(10):
        put(log, ("key", "x"))
    seal(log)
    assert compact(log) == 0
    put(log, ("key", "x" * 200))
    seal(log)
    assert compact(log) == 1


def test_a_young_record_stays_for_the_compaction_lag() -> None:
    """Kafka's `min.compaction.lag.ms`, by the time of the youngest record of a segment."""
    config = COMPACTED.model_copy(update={"min_compaction_lag_ms": 500})
    log, _ = compacted_log(config)
    put(log, ("a", "1"), timestamp=NOW_MS)
    put(log, ("a", "2"), timestamp=NOW_MS)
    seal(log)
    assert compact(log, now_ms=NOW_MS + 499) == 0
    assert compact(log, now_ms=NOW_MS + 500) == 1
    assert pairs(log) == [(1, "a", "2")]


def test_an_old_segment_is_sealed_and_compacted_for_its_age_alone() -> None:
    """Kafka's `max.compaction.lag.ms`, by the time of a segment's first append."""
    config = TopicConfig(cleanup_policy="compact", min_cleanable_dirty_ratio=1, max_compaction_lag_ms=500)
    log, _ = compacted_log(config)
    put(log, ("a", "1"), timestamp=NOW_MS)
    put(log, ("a", "2"), timestamp=NOW_MS + 499)
    assert log.segment_count == 1
    put(log, ("b", "1"), timestamp=NOW_MS + 500)
    assert log.segment_count == 2
    log.flush()
    assert compact(log, now_ms=NOW_MS + 499) == 0
    assert compact(log, now_ms=NOW_MS + 500) == 1
    assert pairs(log) == [(1, "a", "2"), (2, "b", "1")]
    assert compact(log, now_ms=NOW_MS + 900) == 0


def test_a_second_compaction_of_a_clean_log_does_nothing() -> None:
    log, files = sealed_log()
    compact(log)
    operations = files.operations
    assert compact(log) == 0
    assert files.operations == operations


def test_small_segments_become_one() -> None:
    """Or a log of overwritten keys would be thousands of files with a gap in each."""
    log, files = compacted_log()
    for number in range(40):
        put(log, ("a", "x" * 400 + str(number)))
    seal(log)
    before = log.segment_count
    for _ in range(3):
        put(log, ("a", "last"))
        seal(log)
        compact(log)
    assert before > 10
    assert log.segment_count == 2
    assert log.size_bytes < 400
    assert names(files, ".log") == [0]
    check_sound(log, files)


def test_the_log_start_stays() -> None:
    """Only retention moves it: a follower or a consumer at the start meets a gap, not an error."""
    log, _ = compacted_log()
    for _ in range(20):
        put(log, ("a", "x" * 200))
    seal(log)
    compact(log)
    assert log.apply_retention(now_ms=10**13, high_watermark=log.log_end_offset) == 0
    assert pairs(log)[0][0] == 19


def test_compact_and_delete_do_both() -> None:
    """Kafka's `cleanup.policy=compact,delete`."""
    config = COMPACTED.model_copy(update={"cleanup_policy": "compact,delete", "retention_ms": HOUR_MS})
    log, files = compacted_log(config)
    for key in "abc":
        put(log, (key, "x" * 900), timestamp=HOUR_MS)
    put(log, ("d", "1"), timestamp=3 * HOUR_MS)
    put(log, ("d", "2"), timestamp=3 * HOUR_MS)
    seal(log)
    compact(log)
    assert [p[0] for p in pairs(log)] == [0, 1, 2, 4]
    assert log.apply_retention(now_ms=3 * HOUR_MS, high_watermark=log.log_end_offset) == 3
    assert pairs(log) == [(4, "d", "2")]
    check_sound(log, files)


# --- what may be written ---------------------------------------------------------------------


def test_a_record_without_a_key_is_refused() -> None:
    """Kafka: INVALID_RECORD, and nothing of the batch is written."""
    log, files = compacted_log()
    operations = files.operations
    with pytest.raises(InvalidRecord, match="record 1 of the batch has no key"):
        log.appending.as_leader(encode_batch([(b"a", b"", (), 0), (None, b"", (), 0)]), 1, now_ms=0)
    assert (log.log_end_offset, files.operations) == (0, operations)


@pytest.mark.parametrize("count", [0, 2])
def test_a_producer_may_not_send_batches_that_only_compaction_makes(count: int) -> None:
    """A gap of offsets, and a moment at which tombstones go, are a broker's word."""
    log, _ = compacted_log(TopicConfig())
    packed = PackedRecords(encode_values([b"x"] * 3, 0)[61:], 0, 3, 0, 0).seal()
    header = split(packed)[0]._replace(record_count=count)
    with pytest.raises(InvalidRecord, match=f"claims {count} records"):
        log.appending.as_leader(assemble(header, packed[61:]), 1, now_ms=0)
    marked = assemble(split(packed)[0].with_delete_horizon(5), packed[61:])
    with pytest.raises(InvalidRecord, match="attributes 0x0040"):
        log.appending.as_leader(marked, 1, now_ms=0)


def test_records_of_a_topic_from_before_it_was_compacted() -> None:
    """Records without a key are removed, as in Kafka; unreadable ones stay, since their keys are unknown."""
    log, _ = compacted_log(TopicConfig(segment_bytes=1024))
    append(log, b"no key")
    unreadable = PackedRecords(b"no record", 0, 1, 0, 0).seal()
    log.appending.as_leader(unreadable, 1, now_ms=0)
    put(log, ("a", "1"))
    seal(log)
    log.reconfigure(COMPACTED)
    compact(log)
    assert [(h.base_offset, h.record_count) for h in batches(log)] == [(0, 0), (1, 1), (2, 1)]


def test_a_batch_with_records_later_than_all_time_stays_whole() -> None:
    """CORRECTNESS X14: no header has room for the time of the last one."""
    log, _ = compacted_log(TopicConfig(segment_bytes=1024))
    log.appending.as_leader(timed(2**63 - 1, (1, b"old"), (2, b"new")), 1, now_ms=0)
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    seal(log)
    log.reconfigure(COMPACTED)
    assert compact(log) == 1
    assert [(h.base_offset, h.record_count) for h in batches(log)] == [(0, 2), (2, 0), (3, 1)]


@pytest.mark.parametrize("policy", ["", "none", "compact, delete"])
def test_an_unknown_policy_is_refused(policy: str) -> None:
    with pytest.raises(InvalidConfig, match=r"cleanup\.policy"):
        TopicConfig.parse({"cleanup.policy": policy})


# --- memory ----------------------------------------------------------------------------------


def test_more_keys_than_fit_take_several_passes() -> None:
    """Kafka's `log.cleaner.dedupe.buffer.size`, here `compaction_map_bytes`: the outcome is the same."""
    one, _ = compacted_log()
    other, files = compacted_log()
    for log in (one, other):
        for number in range(100):
            put(log, (f"key {number % 20}", f"{number}"), (f"key {number * 7 % 30}", "x"))
        seal(log)
    assert compact(one) == 1
    assert compact(other, map_bytes=4 * (ENTRY_BYTES + 6)) > 3
    assert pairs(other) == pairs(one)
    check_sound(other, files)


def test_the_map_keeps_to_its_bytes() -> None:
    keys = KeyMap(3 * (ENTRY_BYTES + 1))
    assert keys.add([b"a", b"b", b"a"], [0, 1, 2])
    assert not keys.add([b"c", b"d"], [3, 4])
    assert keys.last == {b"a": 2, b"b": 1}
    assert keys.add([b"c", b"a", None], [3, 4, 5])
    assert keys.last == {b"a": 4, b"b": 1, b"c": 3}
    assert KeyMap(1).add([b"too much"], [0])


# --- beside the rest of the log's life -------------------------------------------------------


def test_damaged_batches_are_not_copied() -> None:
    """E15: it would come out with a CRC that is right. The log is as it was."""
    log, files = compacted_log()
    put(log, ("a", "x" * 50))
    put(log, ("a", "2"))
    seal(log)
    files.corrupt(FOLDER / f"{0:020d}.log", 90)
    compaction = log.begin_compaction(now_ms=NOW_MS, high_watermark=2, map_bytes=MAP_BYTES)
    assert compaction is not None
    with pytest.raises(Exception, match=r"offset 0: CRC .*, its bytes have"):
        compaction.read_keys()
    assert (log.failed, names(files, ".cleaned")) == (None, [])


CUTS: dict[str, Callable[[PartitionLog], None]] = {
    "truncate_to": lambda log: log.cutting.truncate_to(15),
    "reset_to": lambda log: log.cutting.reset_to(50),
    "advance_log_start": lambda log: log.cutting.advance_start(12),
    "close": lambda log: log.close(clean=True),
}


@pytest.mark.parametrize("cut", CUTS)
def test_a_log_that_is_truncated_during_a_compaction_is_not_compacted(cut: str) -> None:
    """The rule of `compaction`: an operation that removes files cancels it first, and an install then does
    nothing."""
    log, files = compacted_log()
    for number in range(20):
        put(log, (f"key {number % 3}", "x" * 100))
    seal(log)
    compaction, group = one_group(log, 20)
    CUTS[cut](log)
    before = files.sizes(FOLDER)
    with pytest.raises(Abandoned):
        log.compactor.install(compaction, group)
    with pytest.raises(Abandoned):
        compaction.write_group()
    with pytest.raises(Abandoned):
        log.compactor.finish(compaction)
    compaction.discard(group)
    left = {name: size for name, size in before.items() if not name.endswith(".cleaned")}
    assert files.sizes(FOLDER) == left


def test_appends_and_reads_during_a_pass_are_not_disturbed() -> None:
    """Sealed segments are copied beside; a reader that has one open reads on in what replaced it."""
    log, files = compacted_log()
    for number in range(20):
        put(log, (f"key {number % 3}", "x" * 100))
    seal(log)
    compaction = keys_read(log, 20)
    while (group := compaction.write_group()) is not None:
        assert log.read(3, 1, below=20)
        at = put(log, ("key 0", "y" * 300))
        assert log.compactor.install(compaction, group)
        assert log.read(3, 1, below=20)
        assert decode(log.read(at, 1, below=at + 1))[0].value == b"y" * 300
    log.compactor.finish(compaction)
    assert [p[0] for p in pairs(log)] == [17, 18, 19, *range(20, log.log_end_offset)]
    check_sound(log, files)


def test_an_install_waits_for_a_flush() -> None:
    """A flush syncs segments in a thread: no file goes away under it."""
    log, _ = sealed_log()
    compaction, group = one_group(log, 2)
    with log._parts.lock:
        assert not log.compactor.install(compaction, group)
    assert log.compactor.install(compaction, group)
    assert pairs(log) == [(1, "a", "2")]


@pytest.mark.parametrize("operation", ["create", "append", "sync"])
def test_a_disk_without_room_leaves_the_log_as_it_is(operation: str) -> None:
    """Nothing but the files beside is touched: the log serves on, and the next compaction begins anew."""
    log, files = sealed_log()
    before = files.sizes(FOLDER)

    def full(happens: str, path: Path) -> int | None:
        if happens == operation:
            raise OSError(errno.ENOSPC, "no room", str(path))
        return None

    compaction = keys_read(log, 2)
    files.fault = full
    with pytest.raises(OSError, match="no room"):
        compaction.write_group()
    files.fault = None
    assert (log.failed, files.sizes(FOLDER)) == (None, before)
    assert compact(log) == 1
    assert pairs(log) == [(1, "a", "2")]


def test_a_swap_that_fails_fences_the_log() -> None:
    """E14: it is unknown which of its files are there."""
    log, files = sealed_log()
    compaction, group = one_group(log, 2)

    def broken(happens: str, path: Path) -> int | None:
        if happens == "remove":
            raise OSError(errno.EIO, "broken", str(path))
        return None

    files.fault = broken
    with pytest.raises(StorageFailed, match="broken"):
        log.compactor.install(compaction, group)
    assert log.failed is not None
    files.fault = None
    assert pairs(open_log(files.after_crash(), config=COMPACTED, clean=False)) == [(1, "a", "2")]
