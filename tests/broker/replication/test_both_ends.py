"""Leader and follower over a stream, with real logs: truncation, watermarks, lost streams."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.core.replication.produce_ticket import Produced
from strandline.broker.replicas.replica import Replica
from strandline.broker.storage.segments.segment import LOG_SUFFIX, file_name
from strandline.ids import Offset
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.replicas import CLOCK, batch, following, leading, open_replica, values, write
from tests.waiting import eventually


def replica_with(*epochs: tuple[int, int], other_from: int | None = None) -> Replica:
    """A log of these (epoch, count) pairs; from an offset on another leader wrote it than elsewhere."""
    replica = open_replica()
    for epoch, count in epochs:
        replica.log.appending.begin_epoch(epoch)
        for _ in range(count):
            offset = replica.log.log_end_offset
            other = "" if other_from is None or offset < other_from else "other "
            write(replica, epoch, f"{other}{epoch}@{offset}")
    return replica


async def test_a_record_is_acknowledged_once_all_in_sync_replicas_have_it() -> None:
    """Append, queue, replicate, set the HW, acknowledge."""
    replica, other, third = open_replica(), open_replica(), open_replica()
    async with leading(replica, 1) as leader, following(other, 1, leader=leader) as followed:
        leader.produce("a")
        await eventually(lambda: values(other) == ["a"])
        assert leader.outcomes == []
        async with following(third, 1, leader=leader, broker=3):
            await eventually(lambda: leader.outcomes == [Produced(0, 0)])
            await eventually(lambda: other.high_watermark == third.high_watermark == 1)
        assert followed.refused == []


@pytest.mark.parametrize(
    ("leads", "follows", "common"),
    [
        # (epoch, count) pairs; the last entry is where both logs part.
        ([(1, 4)], [(1, 2), (2, 3)], 2),
        ([(1, 2), (3, 2)], [(1, 2), (2, 4)], 2),
        ([(1, 2), (3, 2), (5, 1)], [(1, 2), (2, 1), (4, 3)], 2),
        ([(1, 3), (4, 1)], [(1, 1), (2, 2), (3, 2)], 1),
        ([(2, 3)], [(1, 3)], 0),
        ([(1, 3), (5, 0)], [(1, 6)], 3),
        ([(1, 1), (2, 5)], [(1, 4)], 1),
    ],
)
async def test_logs_that_part_several_epochs_ago_agree_in_the_end(
    leads: list[tuple[int, int]], follows: list[tuple[int, int]], common: int
) -> None:
    """CORRECTNESS T3, T7, T9: the cases of KIP-279; the follower cuts to the lesser end and asks again."""
    ours, theirs = replica_with(*leads), replica_with(*follows, other_from=common)
    async with leading(ours, 9) as leader, following(theirs, 9, leader=leader):
        await eventually(lambda: leader.follows(2, ours.log.log_end_offset))
        assert values(theirs) == values(ours)
        assert theirs.log.epochs.entries == tuple(e for e in ours.log.epochs.entries if e.epoch != 9)


@pytest.mark.parametrize("known", [0, 1, 2])
async def test_a_log_is_cut_at_the_same_place_whatever_watermark_is_known(known: int) -> None:
    """CORRECTNESS T1, T2: the follower's HW is behind; what follows it was committed all the same."""
    ours, theirs = replica_with((1, 2), (3, 1)), replica_with((1, 2), (2, 3), other_from=2)
    theirs.raise_watermark(Offset(known))
    with capture_logs() as logs:
        async with leading(ours, 9) as leader, following(theirs, 9, leader=leader):
            await eventually(lambda: leader.follows(2, ours.log.log_end_offset))
    assert values(theirs) == values(ours)
    assert [entry["first"] for entry in logs if entry["event"] == "truncating"] == [2]


async def test_an_epoch_without_records_is_no_conflict() -> None:
    """CORRECTNESS T8: the follower led once and wrote nothing; its epoch file has more than the leader's."""
    ours, theirs = replica_with((1, 2)), replica_with((1, 2), (2, 0))
    async with leading(ours, 3) as leader, following(theirs, 3, leader=leader):
        leader.produce("after", acks=1)
        await eventually(lambda: values(theirs)[2:] == ["after"])
        assert [entry.epoch for entry in theirs.log.epochs.entries] == [1, 3]


async def test_a_watermark_is_not_taken_before_the_log_was_cut() -> None:
    """CORRECTNESS T10, H1: the leader's HW covers offsets at which the follower has other records."""
    ours, theirs = replica_with((1, 2), (3, 2)), replica_with((1, 2), (2, 2), other_from=2)
    for replica in (ours, theirs):
        replica.raise_watermark(Offset(2))
    seen: list[tuple[int, list[str]]] = []
    theirs.listen(lambda: seen.append((theirs.high_watermark, values(theirs)[2:])))
    async with leading(ours, 4, isr=(1, 2)) as leader, following(theirs, 4, leader=leader):
        await eventually(lambda: theirs.high_watermark == 4)
    assert all(high_watermark <= 2 or tail == ["3@2", "3@3"] for high_watermark, tail in seen)


async def test_producer_state_is_truncated_with_the_log() -> None:
    """CORRECTNESS T12: a retry of a batch that was cut is a new write, not a duplicate of nothing."""
    ours, theirs = replica_with((1, 1)), replica_with((1, 1))
    theirs.log.appending.begin_epoch(2)
    for sequence in (0, 1):
        lost = batch(f"lost {sequence}", producer=(7, sequence))
        theirs.log.appending.as_leader(lost, 2, now_ms=CLOCK.wall_ms())
    async with leading(ours, 3) as leader, following(theirs, 3, leader=leader):
        await eventually(lambda: theirs.log.log_end_offset == 1)
    theirs.log.appending.begin_epoch(4)
    again = theirs.log.appending.as_leader(batch("again", producer=(7, 0)), 4, now_ms=CLOCK.wall_ms())
    assert (again.base_offset, again.duplicate) == (1, False)


# --- a log that starts within a batch -----------------------------------------------------------------


def three_batches(*, files: MemoryFiles | None = None, width: int = 1) -> Replica:
    """Offsets 0 to 8, three in each batch; with a width of 300 each batch has a segment of its own."""
    replica = open_replica(TopicConfig(segment_bytes=1024), files=files)
    replica.log.appending.begin_epoch(1)
    for first in (0, 3, 6):
        records = batch(*(str(offset).ljust(width, ".") for offset in range(first, first + 3)))
        replica.log.appending.as_leader(records, 1, now_ms=CLOCK.wall_ms())
    return replica


def shape(replica: Replica) -> tuple[int, int, list[str]]:
    return replica.log.log_start_offset, replica.log.log_end_offset, values(replica)


@pytest.mark.parametrize("has", [0, 3, 6, 9], ids=["nothing", "to the batch", "the batch", "all"])
async def test_a_follower_takes_the_exact_start_of_its_leaders_log(has: int) -> None:
    """CORRECTNESS H9: the start may lie within a batch; a follower copies the batch whole, and starts there
    too. It has this number of records before."""
    ours, theirs = three_batches(), three_batches()
    theirs.truncate(Offset(has))
    ours.log.cutting.advance_start(4)
    ours.raise_watermark(Offset(9))
    async with leading(ours, 9) as leader, following(theirs, 9, leader=leader) as followed:
        await eventually(lambda: leader.follows(2, 9))
        await eventually(lambda: shape(theirs) == (4, 9, ["4", "5", "6", "7", "8"]))
        assert followed.refused == []
        assert theirs.log.copy_start_offset == 3


async def test_a_log_that_lost_the_batch_in_which_it_starts_follows_again() -> None:
    """CORRECTNESS H7: a loss of power left the log's start without its batch: empty, within a batch of the
    leader's."""
    ours, theirs = three_batches(), open_replica()
    theirs.log.cutting.reset_to(4)
    ours.log.cutting.advance_start(4)
    ours.raise_watermark(Offset(9))
    async with leading(ours, 9) as leader, following(theirs, 9, leader=leader):
        await eventually(lambda: shape(theirs) == (4, 9, ["4", "5", "6", "7", "8"]))
    other = open_replica()
    other.log.cutting.reset_to(5)
    async with leading(ours, 10) as leader, following(other, 10, leader=leader):
        await eventually(lambda: shape(other) == (4, 9, ["4", "5", "6", "7", "8"]))


@pytest.mark.parametrize("start", [0, 3, 4], ids=["none deleted", "a batch deleted", "within a batch"])
async def test_a_log_that_lost_its_first_segment_gets_it_from_its_leader(start: int) -> None:
    """CORRECTNESS E15: it is not in sync before, however far its other segments reach."""
    files = MemoryFiles()
    ours, theirs = three_batches(width=300), three_batches(width=300, files=files)
    for replica in (ours, theirs):
        replica.log.cutting.advance_start(start)
    theirs.log.flush()
    ours.raise_watermark(Offset(9))
    after = files.after_crash()
    after.remove(theirs.log.directory / file_name(start // 3 * 3, LOG_SUFFIX))
    theirs = open_replica(files=after, high_watermark=9)
    async with leading(ours, 9) as leader, following(theirs, 9, leader=leader):
        await eventually(lambda: leader.follows(2, 9))
        assert shape(theirs) == shape(ours)
    assert theirs.log.failed is None


async def test_a_replica_that_deleted_all_stays_where_it_is_under_a_leader_that_did_not() -> None:
    """CORRECTNESS H9, I1: the leader fell before the others heard of the deletion. The replica is in sync,
    so it may lead next: if it began anew, the offsets after its start would be given again."""
    ours, theirs = three_batches(), three_batches()
    theirs.raise_watermark(Offset(9))
    theirs.log.cutting.advance_start(9)
    ends: list[int] = []
    theirs.listen(lambda: ends.append(theirs.log.log_end_offset))
    async with leading(ours, 9) as leader, following(theirs, 9, leader=leader):
        await eventually(lambda: leader.follows(2, 9))
        ours.log.appending.begin_epoch(9)
        ours.log.appending.as_leader(batch("next"), 9, now_ms=CLOCK.wall_ms())
        ours.announce()
        await eventually(lambda: shape(theirs) == (9, 10, ["next"]))
    assert min(ends, default=9) >= 9
    assert theirs.counts.truncated_records == 0


async def test_a_replica_that_deleted_all_begins_anew_where_its_records_went_another_way() -> None:
    """CORRECTNESS T3, T11: after an unclean election the leader ends before the replica starts."""
    ours, theirs = three_batches(), three_batches()
    ours.truncate(Offset(6))
    theirs.log.cutting.advance_start(9)
    async with leading(ours, 9) as leader, following(theirs, 9, leader=leader):
        await eventually(lambda: leader.follows(2, 6))
        await eventually(lambda: shape(theirs) == shape(ours))
