"""A batch that says where it expects the log to end is appended there or nowhere, and never twice."""

from __future__ import annotations

import pytest

from strandline.broker.storage.admission import Appended
from strandline.broker.storage.log import PartitionLog
from strandline.errors import OutOfOrderSequence, UnexpectedOffset
from strandline.records import encode_batch
from tests.broker.storage.compaction.compacting import compact, compacted_log, put, seal
from tests.broker.storage.support.disk import append, contents, new_log, open_log, replicate


def expecting(
    log: PartitionLog, offset: int, *values: bytes, producer: tuple[int, int, int] | None = None
) -> Appended:
    """Append keyed records as the leader in the latest epoch. `producer`: id, epoch, sequence."""
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    data = encode_batch(
        [(b"k", value, (), 1_000) for value in values],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    return log.appending.as_leader(data, log.epochs.latest, now_ms=1_000_000, expected_offset=offset)


def test_only_one_of_two_writers_that_expect_one_offset_succeeds() -> None:
    """CORRECTNESS S8."""
    log, _ = new_log()
    assert expecting(log, 0, b"a", b"b") == Appended(0, 2)
    with pytest.raises(UnexpectedOffset, match="ends at offset 2, not 0"):
        expecting(log, 0, b"zombie")
    assert expecting(log, 2, b"c") == Appended(2, 3)
    assert [record.value for record in contents(log)] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("expected", [0, 1, 3, 2**63 - 1])
def test_a_refused_batch_leaves_nothing_behind(expected: int) -> None:
    """Neither bytes nor a sequence: the producer's next batch may have the same one."""
    log, files = new_log()
    append(log, b"a", b"b", producer=(7, 0, 0))
    before = files.sizes(log.directory)
    with pytest.raises(UnexpectedOffset) as refused:
        expecting(log, expected, b"c", producer=(7, 0, 2))
    assert (refused.value.limit, refused.value.retriable) == (2, False)
    assert (log.log_end_offset, log.failed, files.sizes(log.directory)) == (2, None, before)
    assert expecting(log, 2, b"c", producer=(7, 0, 2)) == Appended(2, 3)


def test_a_repeat_is_a_duplicate_wherever_the_log_ends_by_now() -> None:
    """The answer to the first try was lost; "refused" would say that the batch is not in the log."""
    log, files = new_log()
    expecting(log, 0, b"a", b"b", producer=(7, 0, 0))
    append(log, b"somebody else's")
    for found in (log, open_log(files.after_crash(), clean=False)):
        assert expecting(found, 0, b"a", b"b", producer=(7, 0, 0)) == Appended(
            0, 2, duplicate=True, append_time_ms=1000
        )
        assert found.log_end_offset == 3


def test_a_missing_sequence_is_reported_before_the_offset() -> None:
    """The batch before it may only have been late: then both are sent again, and this one is right."""
    log, _ = new_log()
    append(log, b"a", producer=(7, 0, 0))
    with pytest.raises(OutOfOrderSequence):
        expecting(log, 2, b"c", producer=(7, 0, 2))


def test_a_new_leader_detects_repeats_of_replicated_batches() -> None:
    leader, _ = new_log()
    follower = open_log(new_log()[1])
    expecting(leader, 0, b"a", producer=(7, 0, 0))
    append(leader, b"b", producer=(8, 0, 0))
    replicate(leader, follower)
    follower.appending.begin_epoch(2)
    assert expecting(follower, 0, b"a", producer=(7, 0, 0)) == Appended(
        0, 1, duplicate=True, append_time_ms=1000
    )
    with pytest.raises(UnexpectedOffset):
        expecting(follower, 0, b"a", producer=(7, 1, 0))


@pytest.mark.parametrize("taken", [False, True], ids=["free", "taken"])
def test_a_truncated_record_is_appended_again_unless_another_has_its_place(taken: bool) -> None:
    """CORRECTNESS T12: what was remembered of it is cut, too, so its repeat is judged as new."""
    log, _ = new_log()
    append(log, b"a")
    expecting(log, 1, b"lost", producer=(7, 0, 0))
    log.cutting.truncate_to(1)
    log.appending.begin_epoch(2)
    if taken:
        append(log, b"another's")
        with pytest.raises(UnexpectedOffset):
            expecting(log, 1, b"lost", producer=(7, 0, 0))
        assert [record.value for record in contents(log)] == [b"a", b"another's"]
    else:
        assert expecting(log, 1, b"lost", producer=(7, 0, 0)) == Appended(1, 2)


def test_compaction_moves_no_end() -> None:
    """Though it takes the last records that there are before the one segment that is written to."""
    log, files = compacted_log()
    for number in range(10):
        put(log, ("k", f"{number}"), producer=(7, 0, number))
    put(log, ("k", None))
    seal(log)
    assert compact(log)
    log.close(clean=True)
    for found in (log, open_log(files), open_log(files.after_crash(), clean=False)):
        assert found.log_end_offset == 11
    again = open_log(files.after_crash(), clean=False, config=log._parts.config)
    assert expecting(again, 8, b"8", producer=(7, 0, 8)) == Appended(
        8, 9, duplicate=True, append_time_ms=1000
    )
    with pytest.raises(UnexpectedOffset):
        expecting(again, 10, b"10", producer=(7, 0, 10))
    assert expecting(again, 11, b"10", producer=(7, 0, 10)) == Appended(11, 12)
