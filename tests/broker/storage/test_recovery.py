"""Opening a log after a crash, a loss of power or a bad medium (CORRECTNESS E2, E15, H7)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.storage.cutting import Cutting
from strandline.broker.storage.log import PartitionLog
from strandline.broker.storage.segments.scanning import find_batch
from strandline.broker.storage.segments.segment import file_name
from strandline.errors import StorageFailed
from strandline.records import encode_values
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.storage.support.disk import (
    FOLDER,
    append,
    contents,
    fill,
    names,
    new_log,
    offset_for_timestamp,
    open_log,
)

NOTHING = 0
BATCH_BYTES = 279
"""The size of a batch that `fill` appends."""


def all_of_it(n: int) -> int:
    return n


def none_of_it(n: int) -> int:
    return 0


def log_path(offset: int) -> Path:
    return FOLDER / file_name(offset, ".log")


def test_after_a_clean_close_nothing_is_scanned() -> None:
    """A scan of everything would keep a broker of thousands of replicas from serving."""
    log, files = new_log()
    for step in range(12):
        append(log, b"x" * 200, producer=(7, 0, step))
    expected = contents(log)
    log.close(clean=True)
    files.sync_directory(FOLDER.parent)  # as the marker of a clean shutdown does
    after_power_loss = open_log(files.after_power_loss(none_of_it))
    assert contents(after_power_loss) == expected
    found = open_log(files.after_crash())
    assert found.scanned_bytes == NOTHING
    assert (contents(found), found.last_epoch, len(found.producers)) == (expected, 1, 1)
    assert append(found, b"x" * 200, producer=(7, 0, 11)) == 11


def test_a_log_that_was_only_opened_is_closed_clean_without_a_write() -> None:
    """PERFORMANCE: a clean stop of thousands of idle replicas syncs none of them."""
    log, files = new_log()
    fill(log, 12)
    log.close(clean=True)
    again = files.after_crash()
    log = open_log(again)
    assert contents(log)
    log.close(clean=True)
    assert again.operations == 0


@pytest.mark.parametrize("clean", [True, False])
def test_a_segment_keeps_its_age_over_a_restart(clean: bool) -> None:
    """Each restart would begin a segment in every log that is written to."""
    config = TopicConfig(segment_bytes=1024, segment_ms=5_000)
    log, files = new_log(config)
    append(log, b"first", timestamp=1_000_000)
    log.close(clean=clean)
    found = open_log(after := files.after_crash(), config=config, clean=clean)
    append(found, b"young", now_ms=1_004_999)
    assert names(after, ".log") == [0]
    append(found, b"old", now_ms=1_005_000)
    assert names(after, ".log") == [0, 2]


def test_a_marker_that_lies_is_found_out() -> None:
    """E2: the folder says itself whether it was closed clean."""
    log, files = new_log()
    fill(log, 4)
    log.close(clean=True)
    log = open_log(after := files.after_crash())
    log.appending.begin_epoch(2)
    fill(log, 1)
    found = open_log(after.after_crash(), clean=True)
    assert found.scanned_bytes > NOTHING
    assert contents(found) == contents(log)


def test_only_segments_from_the_recovery_point_on_are_scanned() -> None:
    """A flush moves it to the active segment."""
    log, files = new_log()
    fill(log, 12)
    assert open_log(files.after_crash(), clean=False).scanned_bytes == log.size_bytes
    log.flush()
    found = open_log(files.after_crash(), clean=False)
    assert NOTHING < found.scanned_bytes < 1024
    assert contents(found) == contents(log)


def test_flushed_records_survive_a_loss_of_power() -> None:
    """E3: with an fsync before the acknowledgement nothing that was acknowledged is lost."""
    log, files = new_log()
    fill(log, 9)
    log.flush()
    expected = contents(log)
    fill(log, 4)
    found = open_log(files.after_power_loss(none_of_it), clean=False)
    assert (contents(found), found.corrupt, found.last_epoch) == (expected, None, 1)


@pytest.mark.parametrize("batches", [2, 9])
def test_the_next_process_syncs_what_a_killed_one_left(batches: int) -> None:
    """E3: a flush vouches for all that is there, the files' names too, including what an earlier process
    wrote."""
    log, files = new_log()
    fill(log, batches)
    expected = contents(log)
    log = open_log(after := files.after_crash(), clean=False)
    log.flush()
    found = open_log(after.after_power_loss(none_of_it), clean=False)
    assert (contents(found), found.corrupt) == (expected, None)


def test_truncated_segments_stay_away_after_a_loss_of_power() -> None:
    """T1: segments that come back behind a truncated log would be another leader's records."""
    log, files = new_log()
    fill(log, 12)
    log.flush()
    log.cutting.truncate_to(9)
    after = files.after_power_loss(none_of_it)
    assert names(after, ".log") == [0, 6]
    assert open_log(after, clean=False).log_end_offset == 8


def test_a_segment_of_an_older_epoch_is_not_accepted() -> None:
    """T1, E15: for any cause of its return."""
    log, files = new_log(epoch=5)
    fill(log, 3)
    other, old_files = new_log(epoch=4)
    fill(other, 6)
    after = files.after_crash()
    old = old_files.after_crash()
    data = old.read(old.open(log_path(6)), 1 << 20, 0)
    after.append(after.open(log_path(6), create=True), (data,))
    found = open_log(after, clean=False)
    assert "epoch 4 after 5" in (found.corrupt or "")
    assert contents(found) == contents(log)


@pytest.mark.parametrize("kept", range(0, 300, 7))
def test_a_torn_end_is_cut(kept: int) -> None:
    """At the first bad batch, if nothing good follows."""
    log, files = new_log()
    fill(log, 2)
    log.flush()
    expected = contents(log)
    append(log, b"torn" * 100)
    found = open_log(after := files.after_power_loss(lambda n: min(n, kept) if n > 1 else n), clean=False)
    assert (contents(found), found.corrupt, found.cut_bytes) == (expected, None, kept)
    found.appending.begin_epoch(2)
    append(found, b"goes on")
    assert [r.value for r in contents(open_log(after.after_crash(), clean=False))][-1] == b"goes on"


@pytest.mark.parametrize("zeros", [1, 61, 200, 5_000])
def test_zeros_at_the_end_are_a_torn_end(zeros: int) -> None:
    """Some file systems give a file its size before its bytes."""
    log, files = new_log()
    fill(log, 2)
    expected = contents(log)
    after = files.after_crash()
    after.append(after.open(log_path(0)), (bytes(zeros),))
    found = open_log(after, clean=False)
    assert (contents(found), found.corrupt, found.cut_bytes) == (expected, None, zeros)


EPOCH_BYTES = range(12, 16)
"""The leader epoch is not under the CRC, so that a broker can stamp it."""


def damaged(position: int) -> tuple[PartitionLog, MemoryFiles]:
    """A log of three batches, not closed, in which one byte is wrong; opened again."""
    log, files = new_log()
    fill(log, 3)
    assert log.size_bytes == 3 * BATCH_BYTES
    after = files.after_crash()
    after.corrupt(log_path(0), position)
    return open_log(after, clean=False), after


def test_a_bit_flip_in_every_byte_of_the_last_batch_is_cut() -> None:
    """E15, at the end: only what no good batch follows may be cut."""
    for position in range(BATCH_BYTES):
        if position not in EPOCH_BYTES:
            log, _ = damaged(2 * BATCH_BYTES + position)
            assert (log.log_end_offset, log.corrupt) == (4, None), position


def test_a_bit_flip_anywhere_before_good_batches_makes_the_replica_unclean() -> None:
    """E15: it must not lead, for a flip in any byte, the length of a batch among them."""
    for position in range(BATCH_BYTES):
        if position in EPOCH_BYTES:
            continue
        log, files = damaged(position)
        assert log.corrupt is not None, position
        assert (log.log_end_offset, names(files, ".log")) == (0, [0])
        with pytest.raises(StorageFailed, match="must not lead"):
            log.appending.begin_epoch(2)
        with pytest.raises(StorageFailed, match="must not lead"):
            log.appending.as_leader(encode_values([b"x"], 0), 1, now_ms=0)


def test_an_unclean_replica_keeps_what_it_has_until_a_leader_replaces_it() -> None:
    """E15: never "truncate and lead"; it follows, and a leader's word alone makes it whole again."""
    leader, files = new_log()
    fill(leader, 12)
    after = files.after_crash()
    after.corrupt(log_path(6), 100)
    log = open_log(after, clean=False)
    assert log.corrupt is not None
    assert (log.log_end_offset, names(after, ".log")) == (6, [0, 6, 12, 18])
    assert contents(log) == contents(leader)[:6]

    log.close(clean=True)
    log = open_log(after := after.after_crash(), clean=True)
    assert (log.corrupt is not None, log.log_end_offset) == (True, 6)

    log.appending.as_follower(leader.read(6, 300, below=24))
    assert names(after, ".log") == [0, 6]
    while log.log_end_offset < 24:
        log.appending.as_follower(leader.read(log.log_end_offset, 300, below=24))
    assert contents(log) == contents(leader)
    assert open_log(after.after_crash(), clean=False).corrupt is not None

    log.cutting.mark_whole()
    log = open_log(after.after_crash(), clean=False)
    assert (log.corrupt, log.log_end_offset) == (None, 24)
    log.appending.begin_epoch(2)


@pytest.mark.parametrize("clear", [Cutting.truncate_to, Cutting.reset_to])
def test_truncation_and_reset_clear_damaged_files_away(clear: Callable[[Cutting, int], None]) -> None:
    """E15: no damaged file can come back behind a log that continues."""
    leader, files = new_log()
    fill(leader, 12)
    after = files.after_crash()
    after.corrupt(log_path(6), 100)
    log = open_log(after, clean=False)
    clear(log.cutting, 6)
    assert max(names(after, ".log"), default=0) == 0
    log.appending.as_follower(leader.read(6, 300, below=24))
    found = open_log(after.after_crash(), clean=False)
    assert (found.log_end_offset, found.corrupt) == (log.log_end_offset, log.corrupt)


def test_damage_in_a_sealed_segment_that_awaits_its_sync_is_found() -> None:
    """E15: its end is the middle of the log."""
    log, files = new_log()
    fill(log, 12)
    after = files.after_crash()
    after.corrupt(log_path(12), after.sizes(FOLDER)[file_name(12, ".log")] - 1)
    found = open_log(after, clean=False)
    assert "other segments follow" in (found.corrupt or "")
    assert found.log_end_offset == 16


@pytest.mark.parametrize("suffix", ["epochs", ".index", ".snapshot"])
@pytest.mark.parametrize("harm", ["flip", "remove", "empty"])
@pytest.mark.parametrize("clean", [True, False])
def test_derivable_facts_are_recovered_from_the_log(suffix: str, harm: str, clean: bool) -> None:
    """T1, T12: epochs, indexes and producers come from the batches if their files are damaged."""
    log, files = new_log(epoch=2)
    for step in range(16):
        if step == 9:
            log.appending.begin_epoch(5)
        append(log, b"x" * 200, producer=(7, 0, step), timestamp=step)
    log.close(clean=True)
    after = files.after_crash()
    for name, size in after.sizes(FOLDER).items():
        if name.endswith(suffix):
            match harm:
                case "flip":
                    after.corrupt(FOLDER / name, size // 2)
                case "remove":
                    after.remove(FOLDER / name)
                case _:
                    after.truncate(after.open(FOLDER / name), 0)
    found = open_log(after, clean=clean)
    assert found.corrupt is None
    assert found.epochs.entries == log.epochs.entries
    assert contents(found) == contents(log)
    assert [found.read(at, 1, below=16) for at in range(16)] == [
        open_log(files.after_crash()).read(at, 1, below=16) for at in range(16)
    ]
    assert [p.batches for _, p in found.producers] == [p.batches for _, p in log.producers]
    assert offset_for_timestamp(found, 7, below=16) == (7, 7)


def test_the_rest_of_a_crash_is_swept_up() -> None:
    """Half-written files, segments that retention was about to delete, a segment without a batch."""
    log, files = new_log()
    fill(log, 12)
    log.cutting.advance_start(12)
    expected = contents(log)
    after = files.after_crash()
    after.append(after.open(FOLDER / "log.json.partial", create=True), (b"{",))
    after.open(log_path(24), create=True)
    old, _ = new_log()
    fill(old, 3)
    after.append(after.open(log_path(6), create=True), (b"x" * 100,))
    found = open_log(after, clean=False)
    assert (contents(found), found.corrupt) == (expected, None)
    assert names(after, ".log") == [12, 18]
    assert "log.json.partial" not in after.sizes(FOLDER)


def test_a_folder_that_cannot_be_read_is_a_failed_log() -> None:
    """E14: one bad disk does not keep the broker's other replicas from starting."""

    def broken(operation: str, path: Path) -> int | None:
        raise OSError(5, "Input/output error", str(path))

    log, files = new_log()
    fill(log, 2)
    after = files.after_crash()
    after.fault = broken
    found = open_log(after, clean=False)
    assert "Input/output error" in (found.failed or "")
    with pytest.raises(StorageFailed):
        found.read(0, 1, below=1)
    found.close(clean=True)


def test_a_good_batch_is_found_behind_damage_wherever_it_begins() -> None:
    """E15: also across the border of what is read at once."""
    batch = encode_values([b"x" * 50], 0, base_offset=10)
    for before in (0, 1, 1 << 20, (1 << 20) - 30, (1 << 20) - 61, (1 << 20) + 3):
        files = MemoryFiles()
        descriptor = files.open(FOLDER, create=True)
        files.append(descriptor, (b"\x02" * before, batch))
        size = before + len(batch)
        found = find_batch(files, descriptor, 0, size, 9)
        assert found is not None
        assert found.position == before
        assert find_batch(files, descriptor, 0, size, 10) is None
        assert find_batch(files, descriptor, 0, size - 1, 9) is None


@pytest.mark.parametrize("action", ["close", "roll", "truncate", "reset", "retention", "flush", "epoch"])
@pytest.mark.parametrize("power_loss", [False, True], ids=["kill", "power"])
def test_a_crash_at_each_step_of_a_logs_operations(action: str, power_loss: bool) -> None:
    """T11, T12, E2, H7: each operation is either not done, done, or done in part with a valid log."""

    class Crash(BaseException):
        pass

    def act(log: PartitionLog) -> None:
        match action:
            case "close":
                log.close(clean=True)
            case "roll":
                fill(log, 2, size=300)
            case "truncate":
                log.cutting.truncate_to(9)
            case "reset":
                log.cutting.reset_to(50)
            case "retention":
                log.apply_retention(now_ms=10**13, high_watermark=14)
            case "flush":
                log.flush()
            case _:
                log.appending.begin_epoch(7)

    step = 0
    while True:
        log, files = new_log()
        fill(log, 5)
        log.flush()
        fill(log, 4)
        before, left = contents(log), [step]

        def crash(operation: str, path: Path, left: list[int] = left) -> int | None:
            left[0] -= 1
            if left[0] < 0:
                raise Crash
            return None

        files.fault = crash
        done = False
        try:
            act(log)
            done = True
        except Crash:
            pass
        files.fault = None
        after = files.after_power_loss(none_of_it) if power_loss else files.after_crash()
        found = open_log(after, clean=False)
        records = contents(found)
        assert found.corrupt is None, (step, found.corrupt)
        assert found.failed is None
        if action == "reset":
            assert records == before[: len(records)]
            assert found.log_end_offset == (50 if done else found.log_end_offset)
        elif action == "truncate":
            assert records == before[: len(records)]
            assert len(records) == 8 if done else len(records) >= 8
        elif action == "retention":
            assert found.log_start_offset in (0, 12)
            assert found.log_end_offset >= 10
        else:
            assert records[: len(before)] == before[: len(records)]
            assert len(records) >= (10 if power_loss else len(before))
        found.appending.begin_epoch(9)
        fill(found, 3)
        again = open_log(after.after_crash(), clean=False)
        assert (again.corrupt, contents(again)) == (None, contents(found))
        if done:
            assert step > 0 or action == "roll"
            return
        step += 1
