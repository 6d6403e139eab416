"""A log that fails during any operation: its broker stops leading with it, and stops following."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from strandline.broker.core.replication.replica_states import ReplicaState
from strandline.broker.replicas.replica import Replica
from strandline.broker.replicas.upkeep.retention import flush_aged
from strandline.errors import StorageFailed
from strandline.ids import BrokerId, LeaderEpoch, Offset
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.replicas import batch, write
from tests.broker.support.seat import Seat, seated
from tests.waiting import eventually

READS: dict[str, Callable[[Replica], object]] = {
    "fetch": lambda replica: replica.read(0, 1 << 20),
    "push": lambda replica: replica.log.read_range(0, 1 << 20, below=2),
    "list by time": lambda replica: replica.log.search_time(1, start=0, below=2),
}


def lose_the_bytes(replica: Replica) -> None:
    """As a disk does that no longer knows what was written to it."""
    for segment in replica.log.directory.glob("*.log"):
        os.truncate(segment, 10)


def led_with_two_records(seat: Seat) -> Replica:
    seat.lead(6)
    replica = seat.replica
    for value in ("a", "b"):
        replica.log.appending.as_leader(batch(value), 6, now_ms=1)
    replica.raise_watermark(Offset(2))
    return replica


@pytest.mark.parametrize("read", READS)
async def test_a_leader_that_cannot_read_steps_down(tmp_path: Path, read: str) -> None:
    """CORRECTNESS E14: it continued to lead, and consumers read nothing, until the next write."""
    async with seated(tmp_path) as seat:
        replica = led_with_two_records(seat)
        lose_the_bytes(replica)
        with pytest.raises(StorageFailed):
            READS[read](replica)
        await eventually(lambda: replica.leadership is None, what="it leads no longer")
        assert replica.state is ReplicaState.FOLLOWER
        assert seat.resigned == [LeaderEpoch(6)]


async def test_a_follower_whose_sync_fails_stops_to_follow(tmp_path: Path) -> None:
    """CORRECTNESS E14: nothing was appended, so the failure would have stayed unnoticed."""
    async with seated(tmp_path, flush_check_ms=10) as seat:
        replica, manager = seat.replica, seat.manager
        manager.follow(replica, BrokerId(1), LeaderEpoch(7))
        write(replica, 7, "a")
        replica.log.reconfigure(TopicConfig(flush_ms=1))
        (segment,) = replica.log.directory.glob("*.log")
        replica.log.close(clean=False)  # its next sync opens the file, which is gone
        segment.unlink()
        before = len(seat.unfollowed)
        flushing = seat.tasks.create_task(flush_aged(manager))
        await eventually(lambda: replica.log.failed is not None, what="the log has failed")
        await eventually(lambda: len(seat.unfollowed) > before, what="it follows no longer")
        flushing.cancel()
        followed = len(seat.followed)
        manager.follow(replica, BrokerId(1), LeaderEpoch(7))
        manager.follow(replica, BrokerId(3), LeaderEpoch(8))
        assert len(seat.followed) == followed, "a failed log follows no leader"
