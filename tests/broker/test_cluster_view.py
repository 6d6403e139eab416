"""What a broker tells of leaders."""

from __future__ import annotations

from pathlib import Path

from broker.cluster_view import ClusterView
from strandline.ids import BrokerId, LeaderEpoch
from tests.broker.replicas import CLOCK, NAME
from tests.broker.seat import ME, seated


async def test_who_is_named_to_succeed_is_not_told_as_the_leader_of_its_predecessors_epoch(
    tmp_path: Path,
) -> None:
    """A leader that hands over follows the one it named before that one is elected, which may be in any later
    epoch, or never: a chaos round was told of two leaders in one epoch."""
    async with seated(tmp_path) as seat:
        view = ClusterView(seat.manager, seat.manager.settings, CLOCK)

        async def told() -> tuple[int, int]:
            metadata, _ = await view.describe([NAME.topic])
            (topic,) = metadata.topics
            return topic.partitions[0].leader, topic.partitions[0].leader_epoch

        assert await told() == (1, 5), "read, and remembered for a while"
        seat.lead(6)
        assert await told() == (ME, 6)
        seat.manager.retire(seat.replica, BrokerId(3))
        assert seat.replica.leader == 3
        assert await told() != (3, 6)
        seat.manager.follow(seat.replica, BrokerId(3), LeaderEpoch(7))
        assert await told() == (3, 7)
