"""Every reader of a log works with the remains of a compaction."""

from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.memory_records import MemoryRecords

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.config.limits import PRODUCER_BATCHES_REMEMBERED
from strandline.errors import UnknownProducerId
from strandline.records import (
    Codec,
    decode,
    encode_batch,
    split,
)
from tests.broker.storage.compaction.compacting import (
    COMPACTED,
    NOW_MS,
    batches,
    check_sound,
    compact,
    compacted_log,
    pairs,
    put,
    remembered,
    seal,
)
from tests.broker.storage.support.disk import (
    FOLDER,
    ManualClock,
    names,
    offset_for_timestamp,
    open_log,
    replicate,
)

HOUR_MS = 3_600_000


# --- readers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", tuple(Codec))
def test_kafkas_client_reads_a_compacted_log(codec: Codec) -> None:
    """RecordBatch v2 byte for byte, also with gaps, without records, and with tombstones."""
    log, _ = compacted_log(COMPACTED.model_copy(update={"segment_bytes": 1 << 20}))
    for number in range(5):
        put(log, ("a", "x" * 100), ("b", str(number)), codec=codec, timestamp=number)
    put(log, ("a", "1"), ("c", None), ("d", "1"), ("a", "2"), codec=codec, producer=(7, 0, 0), timestamp=99)
    seal(log)
    compact(log)
    data = log.read(0, 1 << 20, below=log.log_end_offset)
    records, found, ends = MemoryRecords(data), [], []
    while records.has_next():
        batch = records.next_batch()
        assert isinstance(batch, DefaultRecordBatch)
        assert batch.validate_crc()
        found += [(r.offset, (r.key or b"").decode(), r.value, r.timestamp) for r in batch]
        ends.append(batch.next_offset)
    assert found == [(9, "b", b"4", 4), (11, "c", None, 99), (12, "d", b"1", 99), (13, "a", b"2", 99)]
    assert ends == [8, 10, 14]
    assert [(r.offset, r.timestamp) for r in decode(data)] == [(r[0], r[3]) for r in found]


@pytest.mark.parametrize("start", range(9))
def test_a_fetch_from_within_a_gap_gets_further(start: int) -> None:
    """A batch that contains the offset comes first, and reading on from its end reaches the log's end."""
    log, _ = compacted_log()
    for _ in range(4):
        put(log, ("a", "x"), ("b", "x"))
    put(log, ("a", "x"))
    seal(log)
    compact(log)
    offset, seen = start, []
    while offset < log.log_end_offset:
        data, after = log.read_range(offset, 1, below=log.log_end_offset)
        assert after > offset
        assert split(data)[0].base_offset <= offset
        seen += [r.offset for r in decode(data, from_offset=offset)]
        offset = after
    assert seen == [at for at in (7, 8) if at >= start]


def test_a_search_by_time_passes_over_gaps() -> None:
    log, _ = compacted_log()
    put(log, ("a", "1"), timestamp=50)
    put(log, ("b", "1"), timestamp=60)
    put(log, ("a", "2"), timestamp=70)
    seal(log)
    compact(log)
    for wanted, found in ((0, (1, 60)), (60, (1, 60)), (61, (2, 70)), (71, None)):
        assert offset_for_timestamp(log, wanted, below=3) == found


@pytest.mark.parametrize("follower_has", [0, 1, 3, 4, 7, 9])
def test_a_follower_that_is_far_behind_follows_a_compacted_log(follower_has: int) -> None:
    """Its log may end within a gap of the leader's: it takes the part of the gap that it lacks (T1)."""
    leader, _ = compacted_log()
    follower_files = MemoryFiles()
    follower = open_log(follower_files, config=COMPACTED)
    for number in range(9):
        if number == follower_has:
            replicate(leader, follower)
        if number in (3, 6):
            leader.appending.begin_epoch(number)
        put(leader, ("a", str(number)))
    if follower_has == 9:
        replicate(leader, follower)
    seal(leader)
    compact(leader)
    replicate(leader, follower)
    assert follower.log_end_offset == leader.log_end_offset == 9
    assert follower.epochs.entries == leader.epochs.entries
    assert follower.last_epoch == leader.last_epoch == 6
    check_sound(follower, follower_files)
    assert pairs(follower)[-1] == (8, "a", "8")


def test_epochs_are_recovered_from_a_compacted_log() -> None:
    """T1: each epoch has its own gap, so its first offset is never forgotten; no epoch file is needed."""
    log, files = compacted_log()
    for epoch in (1, 4, 5, 9):
        if epoch > 1:
            log.appending.begin_epoch(epoch)
        put(log, ("a", "x"))
        put(log, ("a", "y"))
    seal(log)
    compact(log)
    expected = log.epochs.entries
    after = files.after_crash()
    after.remove(FOLDER / "epochs")
    assert open_log(after, config=COMPACTED, clean=False).epochs.entries == expected


# --- producers -------------------------------------------------------------------------------


def test_batches_by_which_a_producer_is_remembered_stay_without_records() -> None:
    """Kafka keeps a producer's last batch; here all that answer its retries (KIP-98)."""
    log, files = compacted_log()
    end = 3 + PRODUCER_BATCHES_REMEMBERED
    for number in range(end):
        put(log, ("a", str(number)), producer=(7, 0, number))
    put(log, ("a", "last"))
    seal(log)
    expected = remembered(log)
    compact(log)
    found = [(h.base_offset, h.last_offset, h.producer_id, h.base_sequence) for h in batches(log)]
    kept = [(number, number, 7, number) for number in range(3, end)]
    assert found == [(0, 2, -1, -1), *kept, (end, end, -1, -1)]
    after = files.after_crash()
    for at in names(after, ".snapshot"):
        after.remove(FOLDER / f"{at:020d}.snapshot")
    again = open_log(after, config=COMPACTED, clean=False)
    assert remembered(again) == expected
    again.appending.begin_epoch(2)
    retry = encode_batch([(b"a", b"5", (), 1_000)], producer_id=7, producer_epoch=0, base_sequence=5)
    assert again.appending.as_leader(retry, 2, now_ms=NOW_MS).duplicate
    assert put(again, ("a", "next"), producer=(7, 0, end)) == end + 1


def test_a_producer_that_expired_needs_no_batch() -> None:
    clock = ManualClock()
    log, _ = compacted_log(clock=clock)
    put(log, ("a", "1"), producer=(7, 0, 0))
    put(log, ("a", "2"))
    seal(log)
    later = NOW_MS + 8 * 24 * HOUR_MS
    compact(log, now_ms=later)
    assert [(h.base_offset, h.is_gap) for h in batches(log)] == [(0, True), (1, False)]
    with pytest.raises(UnknownProducerId):
        log.producers.expire(later)
        put(log, ("a", "3"), producer=(7, 0, 1))
