"""A search by time finds the first record of the time or later."""

from __future__ import annotations

from strandline.broker.storage.log import PartitionLog
from strandline.records import Codec, PackedRecords, encode_batch, encode_values, validate
from tests.broker.storage.support.disk import SMALL, append, contents, new_log, offset_for_timestamp
from tests.strandline.records.hostile_batches import timed


def test_a_time_finds_its_first_record() -> None:
    """ListOffsets: exact within the batch, also in old segments, also if times go back and forth."""
    log, _ = new_log()
    times = [10, 30, 20, 50, 40, 40, 70, 60, 90, 80] * 3
    for step in range(0, len(times), 2):
        append_times(log, times[step : step + 2], step)
    for wanted in range(101):
        expected = next(((i, t) for i, t in enumerate(times) if t >= wanted), None)
        assert offset_for_timestamp(log, wanted, below=log.log_end_offset) == expected
    assert offset_for_timestamp(log, 90, below=8) is None
    assert offset_for_timestamp(log, 90, below=9) == (8, 90)
    log.cutting.advance_start(10)
    assert offset_for_timestamp(log, 0, below=30) == (10, 10)


def append_times(log: PartitionLog, times: list[int], step: int) -> None:
    data = encode_batch([(None, b"x" * 80, (), time) for time in times])
    assert log.appending.as_leader(data, 1, now_ms=0).base_offset == step


def test_the_time_of_an_append_is_that_of_all_records_on_every_replica() -> None:
    """LogAppendTime: readers, followers, look-ups and retention have it from the batch."""
    config = SMALL.model_copy(update={"message_timestamp_type": "LogAppendTime"})
    log, _ = new_log(config)
    append(log, b"a", b"b", timestamp=5, now_ms=100)
    data = encode_values([b"c"], 7_000, producer_id=7, producer_epoch=0, base_sequence=0, codec=Codec.GZIP)
    appended = log.appending.as_leader(data, 1, now_ms=200, from_client=True)
    assert (appended.base_offset, appended.append_time_ms) == (2, 200)
    again = log.appending.as_leader(data, 1, now_ms=300, from_client=True)
    assert (again.base_offset, again.duplicate, again.append_time_ms) == (2, True, -1)
    copy, _ = new_log()
    copy.appending.as_follower(log.read(0, 1 << 20, below=3))
    for each in (log, copy):
        validate(each.read(0, 1 << 20, below=3))
        assert [(found.value, found.timestamp) for found in contents(each)] == [
            (b"a", 100), (b"b", 100), (b"c", 200),
        ]  # fmt: skip
        assert offset_for_timestamp(each, 101, below=3) == (2, 200)
        assert offset_for_timestamp(each, 201, below=3) is None


def test_a_batch_that_does_not_decode_is_found_by_its_header() -> None:
    """Records are opaque to a broker, so a client's nonsense must not stop a search by time."""
    log, _ = new_log()
    append(log, b"a", timestamp=5)
    log.appending.as_leader(PackedRecords(b"nonsense", 4, 1, 10, 20).seal(), 1, now_ms=0)
    append(log, b"b", timestamp=30)
    assert offset_for_timestamp(log, 15, below=3) == (1, 20)


def test_a_record_later_than_all_time_is_found_by_its_header() -> None:
    """CORRECTNESS X14: base and delta of its timestamp fit 64 bits, and their sum does not. An answer with it
    ended the connection's task, and with it the broker."""
    log, _ = new_log()
    log.appending.as_leader(timed(2**63 - 1, (1, b"v")), 1, now_ms=0)
    for wanted in (0, None):
        assert offset_for_timestamp(log, wanted, below=1) == (0, 2**63 - 1)
