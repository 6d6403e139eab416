"""Leader and follower over a stream, with real logs: truncation, watermarks, lost streams."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from strandline.broker.core.replication.produce_ticket import Produced
from strandline.broker.replicas.replica import Replica
from strandline.ids import Offset
from tests.broker.support.replicas import CLOCK, batch, following, leading, open_replica, values, write
from tests.waiting import eventually


def replica_with(*epochs: tuple[int, int], other_from: int | None = None) -> Replica:
    """A log of these (epoch, count) pairs; from an offset on another leader wrote it than elsewhere."""
    replica = open_replica()
    for epoch, count in epochs:
        replica.log.begin_epoch(epoch)
        for _ in range(count):
            offset = replica.log.log_end_offset
            other = "" if other_from is None or offset < other_from else "other "
            write(replica, epoch, f"{other}{epoch}@{offset}")
    return replica


async def test_a_record_is_acknowledged_once_all_in_sync_replicas_have_it() -> None:
    """DESIGN §4: append, queue, replicate, set the HW, acknowledge."""
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
    theirs.log.begin_epoch(2)
    for sequence in (0, 1):
        lost = batch(f"lost {sequence}", producer=(7, sequence))
        theirs.log.append_as_leader(lost, 2, now_ms=CLOCK.wall_ms())
    async with leading(ours, 3) as leader, following(theirs, 3, leader=leader):
        await eventually(lambda: theirs.log.log_end_offset == 1)
    theirs.log.begin_epoch(4)
    again = theirs.log.append_as_leader(batch("again", producer=(7, 0)), 4, now_ms=CLOCK.wall_ms())
    assert (again.base_offset, again.duplicate) == (1, False)
