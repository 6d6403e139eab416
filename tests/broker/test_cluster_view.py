"""What a broker tells of leaders."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from broker.cluster_view import ClusterView
from strandline.adapters import znodes
from strandline.errors import InvalidTopic
from strandline.ids import BrokerId, LeaderEpoch
from tests.broker.replicas import CLOCK, NAME, settings
from tests.broker.seat import ME, seated


@pytest.mark.parametrize("name", [f"{NAME.topic}/0/isr", "../ids", "", ".", "\x00", "a" * 250])
async def test_a_name_that_no_topic_can_have_is_no_path(tmp_path: Path, name: str) -> None:
    """Metadata of `x/0/isr` was answered with the content of a znode."""
    async with seated(tmp_path) as seat:
        view = ClusterView(seat.manager, seat.manager.settings, CLOCK)
        before = Counter(seat.coordination.reads)
        metadata, unknown = await view.describe([name, NAME.topic, NAME.topic])
        assert ([topic.name for topic in metadata.topics], unknown) == ([NAME.topic], [name])
        assert await view.partition_counts([name]) == {}
        read = seat.coordination.reads - before
        of_topic = znodes.topic(NAME.topic)
        others = [path for path in read if path != of_topic and not path.startswith(f"{of_topic}/")]
        assert others == [znodes.CONTROLLER]
        with pytest.raises(InvalidTopic):
            znodes.topic(name)


async def test_waits_beyond_the_bound_are_answered_at_once(tmp_path: Path) -> None:
    """Each held answer takes memory."""
    async with seated(tmp_path) as seat:
        view = ClusterView(seat.manager, settings(leader_waits_max=1), CLOCK)
        waits = [(NAME, 1_000)]
        async with asyncio.TaskGroup() as tasks:
            held = tasks.create_task(view.wait_for_leaders(waits, 60))
            await asyncio.sleep(0)
            async with asyncio.timeout(5):
                await view.wait_for_leaders(waits, 60)
            assert not held.done()
            held.cancel()


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
