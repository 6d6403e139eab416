"""A replica's log: offsets, epochs, reads, truncation, retention."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.adapters.system.files import SYSTEM_FILES
from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.storage.admission import Appended
from strandline.broker.storage.log import PartitionLog
from strandline.errors import (
    CorruptMessage,
    InvalidRecord,
    MessageTooLarge,
    OffsetOutOfRange,
    OutOfOrderSequence,
    UnknownProducerId,
)
from strandline.records import PackedRecords, decode, encode_batch, encode_values, pack_values, split
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.storage.support.disk import (
    FOLDER,
    SMALL,
    ManualClock,
    append,
    contents,
    fill,
    names,
    new_log,
    open_log,
    replicate,
)

# --- appending ------------------------------------------------------------------------------


def test_a_leader_numbers_records_and_stamps_its_epoch() -> None:
    """Base offset and leader epoch are set, nothing else of a batch changes."""
    log, _ = new_log(epoch=4)
    sent = encode_batch([(b"k", b"v", (("h", b"x"),), 7)], base_offset=999, leader_epoch=77)
    assert log.appending.as_leader(sent, 4, now_ms=0) == Appended(0, 1)
    assert log.appending.as_leader(sent, 4, now_ms=0) == Appended(1, 2)
    data = log.read(0, 1 << 20, below=2)
    assert [(h.base_offset, h.leader_epoch) for h in split(data)] == [(0, 4), (1, 4)]
    assert data[16 : len(sent)] == sent[16:]


def test_an_empty_partition_has_no_files_but_its_epochs() -> None:
    """PERFORMANCE: thousands of mostly empty partitions cost few files."""
    files = MemoryFiles()
    log = open_log(files)
    assert (log.log_start_offset, log.log_end_offset, log.last_epoch, log.size_bytes) == (0, 0, -1, 0)
    assert files.sizes(FOLDER) == {}
    log.close(clean=True)
    assert files.sizes(FOLDER) == {}


def test_a_wrong_batch_is_refused_before_anything_is_written() -> None:
    """E15 and the limits: the log is as it was."""
    log, files = new_log(TopicConfig(max_message_bytes=1024))
    append(log, b"first")
    before = files.sizes(FOLDER)
    good = encode_values([b"x"], 0)
    control = PackedRecords(pack_values([b"x"], 0).body, 0x20, 1, 0, 0).seal()
    for wrong, error in (
        (good[:-1], CorruptMessage),
        (good[:-1] + b"\xff", CorruptMessage),
        (b"", CorruptMessage),
        (good + good, InvalidRecord),
        (control, InvalidRecord),
        (encode_values([b"x" * 1024], 0), MessageTooLarge),
        (encode_values([b"x"], 0, producer_id=1, producer_epoch=0, base_sequence=3), UnknownProducerId),
    ):
        with pytest.raises(error):
            log.appending.as_leader(wrong, 1, now_ms=0)
    assert (log.log_end_offset, log.failed, files.sizes(FOLDER)) == (1, None, before)


def test_a_retry_of_an_idempotent_producer_is_not_written_again() -> None:
    """The old offsets return."""
    log, _ = new_log()
    data = encode_values([b"a", b"b"], 0, producer_id=9, producer_epoch=0, base_sequence=0)
    log.appending.as_leader(data, 1, now_ms=0)
    append(log, b"other")
    assert log.appending.as_leader(data, 1, now_ms=0) == Appended(0, 2, duplicate=True, append_time_ms=0)
    assert log.log_end_offset == 3


def test_a_leader_writes_its_epoch_before_its_first_record() -> None:
    """T4: (epoch, LEO) is in the file when `begin_epoch` returns, and no append goes without."""
    log, files = new_log(epoch=1)
    append(log, b"a")
    log.appending.begin_epoch(3)
    with pytest.raises(ValueError, match="is in epoch 3, the append in 1"):
        log.appending.as_leader(encode_values([b"x"], 0), 1, now_ms=0)
    append(log, b"b")
    again = open_log(files.after_crash(), clean=False)
    assert list(again.epochs.entries) == [(1, 0), (3, 1)]
    assert again.end_offset_for(2) == (1, 1)


def test_a_follower_is_byte_for_byte_its_leader() -> None:
    """For any division of the leader's batches into messages, logs and epochs come out the
    same."""
    leader, _ = new_log()
    fill(leader, 7)
    leader.appending.begin_epoch(5)
    fill(leader, 7)
    for bytes_max in (1, 300, 700, 1 << 20):
        follower = open_log(MemoryFiles())
        replicate(leader, follower, bytes_max)
        assert contents(follower) == contents(leader)
        assert follower.epochs.entries == leader.epochs.entries
        assert follower.last_epoch == 5
        assert follower.read(0, 1 << 20, below=4) == leader.read(0, 1 << 20, below=4)


def test_a_follower_refuses_batches_that_do_not_fit() -> None:
    """E15 on fetch: a damaged batch, a gap, an overlap, an older epoch; nothing is written."""
    leader, _ = new_log(epoch=2)
    fill(leader, 2)
    follower = open_log(MemoryFiles())
    replicate(leader, follower)
    good = encode_values([b"x"], 0, base_offset=4, leader_epoch=2)
    for wrong in (
        good[:-1] + b"?",
        good[:-1],
        b"",
        encode_values([b"x"], 0, base_offset=5, leader_epoch=2),
        encode_values([b"x"], 0, base_offset=3, leader_epoch=2),
        encode_values([b"x"], 0, base_offset=4, leader_epoch=1),
        encode_values([b"x"], 0, base_offset=4, leader_epoch=-1),
        good + good,
        PackedRecords(b"", 0, 0, 0, 0).seal(base_offset=4, leader_epoch=2),
    ):
        with pytest.raises(CorruptMessage):
            follower.appending.as_follower(wrong)
    assert (follower.log_end_offset, follower.failed) == (4, None)
    follower.appending.as_follower(good)
    assert follower.log_end_offset == 5


def test_an_epoch_that_wrote_nothing_does_not_stop_a_follower() -> None:
    """T8: it led in epoch 9 without a write; the log of the next leader continues in epoch 8."""
    leader, _ = new_log(epoch=2)
    fill(leader, 2)
    follower = open_log(MemoryFiles())
    replicate(leader, follower)
    follower.appending.begin_epoch(9)
    leader.appending.begin_epoch(8)
    fill(leader, 1)
    replicate(leader, follower)
    assert list(follower.epochs.entries) == [(2, 0), (8, 4)]


# --- rolling --------------------------------------------------------------------------------


def test_segments_roll_by_size_and_by_age() -> None:
    clock = ManualClock()
    log, files = new_log(TopicConfig(segment_bytes=1024, segment_ms=5_000), clock=clock)
    fill(log, 4)
    assert names(files, ".log") == [0, 6]
    append(log, b"young", now_ms=1_004_999)
    assert names(files, ".log") == [0, 6]
    append(log, b"old", now_ms=1_006_000)
    assert names(files, ".log") == [0, 6, 9]
    assert names(files, ".index") == [0, 6]
    assert names(files, ".snapshot") == [6, 9]


def test_a_batch_larger_than_a_segment_gets_its_own() -> None:
    log, files = new_log()
    append(log, b"x" * 3_000)
    append(log, b"y" * 3_000)
    assert names(files, ".log") == [0, 1]
    assert [len(r.value or b"") for r in contents(log)] == [3_000, 3_000]


# --- reading --------------------------------------------------------------------------------


def test_a_read_begins_with_the_batch_that_holds_the_offset() -> None:
    log, _ = new_log()
    fill(log, 12)
    for offset in range(log.log_end_offset):
        data, next_offset = log.read_range(offset, 1 << 20, below=log.log_end_offset)
        headers = split(data)
        assert headers[0].base_offset == offset - offset % 2
        assert headers[-1].next_offset == next_offset


@pytest.mark.parametrize("bytes_max", [0, 1, 300, 600, 5_000])
def test_a_read_gives_whole_batches_within_the_bound_and_at_least_one(bytes_max: int) -> None:
    log, _ = new_log()
    fill(log, 12)
    data = log.read(0, bytes_max, below=24)
    assert len(split(data)) >= 1
    assert len(data) <= bytes_max or len(split(data)) == 1
    assert contents(log, bytes_max=bytes_max) == contents(log)


def test_a_read_never_reaches_the_bound_that_it_was_given() -> None:
    """What is not committed is not read; a batch across the HW stays out as a whole."""
    log, _ = new_log()
    fill(log, 12)
    for below in range(25):
        for offset in range(24):
            records = decode(log.read(offset, 1 << 20, below=below))
            assert all(record.offset < below for record in records)
            if offset < below - below % 2:
                assert records[0].offset <= offset
            else:
                assert records == []
    assert log.read(24, 1 << 20, below=99) == b""


def test_offsets_outside_the_log_are_out_of_range() -> None:
    log, _ = new_log()
    fill(log, 12)
    log.cutting.advance_start(10)
    for offset in (-1, 9, 25):
        with pytest.raises(OffsetOutOfRange) as caught:
            log.read(offset, 100, below=24)
        assert caught.value.limit == 10


# --- cutting --------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", range(0, 26))
def test_truncation_cuts_records_epochs_and_producers(offset: int) -> None:
    """T12, T8: after it the log is one that never had what was cut."""
    log, files = new_log()
    expected, _ = new_log()
    for step in range(12):
        if step == 6:
            log.appending.begin_epoch(2)
            if offset > 12:
                expected.appending.begin_epoch(2)
        whole = offset - offset % 2 if offset < 24 else 24
        for target in (log, expected) if 2 * step < whole else (log,):
            append(target, b"x" * 90, b"y" * 90, producer=(7, 0, 2 * step))
    log.cutting.truncate_to(offset)
    expected.cutting.truncate_to(expected.log_end_offset)  # its epoch without a record goes, too
    for found in (log, open_log(files.after_crash(), clean=False)):
        assert contents(found) == contents(expected)
        assert found.epochs.entries == expected.epochs.entries
        assert [p.batches for _, p in found.producers] == [p.batches for _, p in expected.producers]
        assert found.corrupt is None
    log.appending.begin_epoch(3)
    assert append(log, b"after", producer=(7, 0, log.log_end_offset)) == expected.log_end_offset


def test_truncation_that_cuts_no_record_still_forgets_idle_epochs() -> None:
    """T8."""
    log, files = new_log(epoch=1)
    fill(log, 2)
    log.appending.begin_epoch(4)
    log.cutting.truncate_to(4)
    assert list(log.epochs.entries) == [(1, 0)]
    assert list(open_log(files.after_crash(), clean=False).epochs.entries) == [(1, 0)]


def test_producers_of_deleted_records_are_remembered_by_a_truncation() -> None:
    """T12: retention took their records, and a truncation to its border must not take their sequences."""
    log, files = new_log()
    append(log, b"x" * 900, producer=(7, 0, 0))
    append(log, b"y" * 900)
    log.cutting.advance_start(1)
    log.cutting.truncate_to(1)
    for found in (log, open_log(files.after_crash(), clean=False)):
        found.appending.begin_epoch(2)
        with pytest.raises(OutOfOrderSequence):
            append(found, b"z", producer=(7, 0, 2))
        assert append(found, b"z", producer=(7, 0, 1)) == 1


def test_truncation_below_the_start_is_a_broken_invariant() -> None:
    log, _ = new_log()
    fill(log, 12)
    log.cutting.advance_start(10)
    with pytest.raises(ValueError, match="below its start"):
        log.cutting.truncate_to(9)


@pytest.mark.parametrize("offset", [0, 5, 24, 1_000])
def test_a_reset_log_is_empty_at_its_offset(offset: int) -> None:
    """H7: over restarts, too; what was there is gone, files included."""
    log, files = new_log()
    for step in range(12):
        append(log, b"x" * 200, producer=(7, 0, step))
    log.flush()
    log.cutting.reset_to(offset)
    found = open_log(files.after_power_loss(lambda n: 0), clean=False)
    for each in (log, found):
        assert (each.log_start_offset, each.log_end_offset, each.last_epoch) == (offset, offset, -1)
        assert len(each.producers) == len(each.epochs) == 0
        assert each.corrupt is None
    assert [name for name in files.sizes(FOLDER) if name[0].isdigit()] == []
    log.appending.begin_epoch(3)
    assert append(log, b"x") == offset


# --- retention ------------------------------------------------------------------------------


def retained(config: TopicConfig) -> tuple[PartitionLog, MemoryFiles]:
    """Twelve batches in segments at 0, 6, 12 and 18, with times 0, 100, 200, …"""
    log, files = new_log(config)
    for step in range(12):
        append(log, b"x" * 100, b"y" * 100, timestamp=step * 100)
    assert names(files, ".log") == [0, 6, 12, 18]
    return log, files


def test_old_segments_go_whole() -> None:
    log, files = retained(TopicConfig(segment_bytes=1024, retention_ms=1_000))
    assert log.apply_retention(now_ms=1_200, high_watermark=24) == 0
    assert log.apply_retention(now_ms=1_201, high_watermark=24) == 6
    assert names(files, ".log") == [6, 12, 18]
    assert names(files, ".index") == [6, 12]
    assert names(files, ".snapshot") == [6, 12, 18]
    assert log.apply_retention(now_ms=10_000, high_watermark=24) == 24
    assert (log.log_end_offset, names(files, ".log"), log.size_bytes) == (24, [], 0)
    assert append(log, b"next") == 24


def test_retention_never_passes_the_high_watermark() -> None:
    """H9."""
    log, _ = retained(TopicConfig(segment_bytes=1024, retention_ms=0, retention_bytes=0))
    assert log.apply_retention(now_ms=10_000, high_watermark=5) == 0
    assert log.apply_retention(now_ms=10_000, high_watermark=17) == 12
    assert log.apply_retention(now_ms=10_000, high_watermark=23) == 18
    assert log.apply_retention(now_ms=10_000, high_watermark=24) == 24


def test_size_is_kept_at_least() -> None:
    log, _ = retained(TopicConfig(segment_bytes=1024, retention_bytes=1_500, retention_ms=-1))
    assert log.apply_retention(now_ms=10**12, high_watermark=24) == 12
    assert 1_500 <= log.size_bytes < 1_500 + 1_024


def test_a_follower_takes_its_leaders_start() -> None:
    """H9: with its epochs; over a restart, too."""
    log, files = retained(SMALL)
    log.appending.begin_epoch(5)
    fill(log, 1)
    log.cutting.advance_start(14)
    log.cutting.advance_start(3)
    for found in (log, open_log(files.after_crash(), clean=False)):
        assert found.log_start_offset == 14
        assert list(found.epochs.entries) == [(1, 14), (5, 24)]
        assert [r.offset for r in contents(found)] == list(range(14, 26))
    with pytest.raises(ValueError, match="above its end"):
        log.cutting.advance_start(27)


def test_the_start_is_exact_and_a_copy_of_the_log_begins_with_its_batch() -> None:
    """H9: a deletion says where the log starts, over a restart, too; a follower that begins anew gets whole
    batches."""
    log, files = retained(SMALL)
    log.cutting.advance_start(15)
    for found in (log, open_log(files.after_crash(), clean=False)):
        assert (found.log_start_offset, found.copy_start_offset) == (15, 14)
        assert next(iter(found.epochs.entries)).start_offset == 15
        assert [r.offset for r in contents(found)] == list(range(15, 24))
        for offset in (13, 14):
            with pytest.raises(OffsetOutOfRange) as caught:
                found.read(offset, 100, below=24)
            assert caught.value.limit == 15
        with pytest.raises(OffsetOutOfRange):
            found.read_range(13, 100, below=24, copy=True)
        data, _ = found.read_range(14, 100, below=24, copy=True)
        assert data == found.read(15, 100, below=24) and split(data)[0].base_offset == 14
        assert names(files, ".log") == [12, 18], "older files are gone"


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_deleted_all_knows_the_epoch_of_its_last_record(clean: bool) -> None:
    """T9: it has no record, but follows by that epoch, and counts with it in an election."""
    log, files = retained(SMALL)
    log.cutting.advance_start(log.log_end_offset)
    assert (log.last_epoch, log.end_offset_for(1)) == (1, (1, 24))
    if clean:
        log.close(clean=True)
    found = open_log(files.after_crash(), clean=clean)
    assert (found.log_start_offset, found.log_end_offset, found.last_epoch) == (24, 24, 1)
    found.cutting.reset_to(24)
    assert found.last_epoch == -1, "a log that begins anew has none"


def test_a_cut_of_the_batch_that_the_log_starts_in_leaves_no_record() -> None:
    """T8: an unclean election may take even that batch; the log is empty where the batch began."""
    log, files = retained(SMALL)
    log.cutting.advance_start(15)
    log.flush()
    log.cutting.truncate_to(15)
    for found in (log, open_log(files.after_crash(), clean=False)):
        assert (found.log_start_offset, found.log_end_offset, found.corrupt) == (14, 14, None)
        assert found.last_epoch == -1
        found.appending.begin_epoch(3)
        fill(found, 1)
        assert [r.offset for r in contents(found)] == [14, 15]


# --- durability -----------------------------------------------------------------------------


def test_flush_is_asked_for_by_count_and_by_age() -> None:
    """`flush.messages` and `flush.ms`."""
    clock = ManualClock()
    log, _ = new_log(TopicConfig(flush_messages=3, flush_ms=2_000), clock=clock)
    start = clock.monotonic()
    append(log, b"1", b"2")
    assert not log.needs_flush(start + 1.9)
    assert log.needs_flush(start + 2)
    append(log, b"3")
    assert log.needs_flush(start)
    assert log.unflushed_records == 3
    log.flush()
    assert not log.needs_flush(start + 99)
    log.reconfigure(TopicConfig(flush_messages=1))
    append(log, b"4")
    assert log.needs_flush(start)


def test_by_default_nothing_is_synced_until_a_segment_is_full() -> None:
    log, _ = new_log()
    fill(log, 3)
    one_segment = (log.needs_flush(1e12), log.has_unflushed_segments)
    fill(log, 3)
    two_segments = (log.needs_flush(1e12), log.has_unflushed_segments)
    log.flush()
    flushed = (log.needs_flush(1e12), log.has_unflushed_segments)
    assert (one_segment, two_segments, flushed) == ((False, False), (False, True), (False, False))


def test_a_log_on_the_real_file_system(tmp_path: Path) -> None:
    """The adapter does what the port says: everything above holds on files, too."""
    folder = tmp_path / "some" / "topic-0"
    log = PartitionLog.open(folder, SMALL, clock=ManualClock(), clean=True, files=SYSTEM_FILES)
    log.appending.begin_epoch(1)
    fill(log, 12)
    log.cutting.truncate_to(21)
    log.cutting.advance_start(8)
    expected = contents(log)
    log.flush()
    log.close(clean=False)
    log = PartitionLog.open(folder, SMALL, clock=ManualClock(), clean=False, files=SYSTEM_FILES)
    assert contents(log) == expected
    assert log.scanned_bytes > 0
    log.close(clean=True)
    log = PartitionLog.open(folder, SMALL, clock=ManualClock(), clean=True, files=SYSTEM_FILES)
    assert (log.scanned_bytes, log.log_start_offset, log.log_end_offset) == (0, 8, 20)
    assert contents(log) == expected
    log.appending.begin_epoch(2)
    fill(log, 3)
    log.cutting.reset_to(100)
    log.close(clean=True)
    assert sorted(path.name for path in folder.iterdir()) == ["epochs", "log.json"]
    log = PartitionLog.open(folder, SMALL, clock=ManualClock(), clean=True, files=SYSTEM_FILES)
    assert log.log_end_offset == 100
