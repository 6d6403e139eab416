"""What a broker tells of leaders."""

from __future__ import annotations

from pathlib import Path

from broker.cluster_view import ClusterView
from strandline.ids import NO_BROKER, BrokerId, LeaderEpoch
from tests.broker.replicas import CLOCK, LIVE, NAME
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


async def test_a_partition_whose_leader_is_gone_is_told_to_have_none(tmp_path: Path) -> None:
    """Clients say "has no leader" then; the leader of record has no address that anybody could reach."""
    async with seated(tmp_path) as seat:
        view = ClusterView(seat.manager, seat.manager.settings, CLOCK)

        async def leader_and_brokers() -> tuple[int, list[int]]:
            metadata, _ = await view.describe([NAME.topic])
            return metadata.topics[0].partitions[0].leader, [broker.id for broker in metadata.brokers]

        assert await leader_and_brokers() == (1, [1, 2, 3])
        seat.manager.live_changed({broker: LIVE[broker] for broker in LIVE if broker != 1})
        assert await leader_and_brokers() == (NO_BROKER, [2, 3])
        seat.manager.follow(seat.replica, BrokerId(1), LeaderEpoch(7))
        assert await leader_and_brokers() == (NO_BROKER, [2, 3]), "it was heard of before it died"
