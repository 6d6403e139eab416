"""Looking after groups of real brokers, one of which is killed."""

from __future__ import annotations

import pytest

from strandline import Admin, TopicPartition
from strandline.errors import GroupIdNotFound, InvalidGroupId
from strandline.vocabulary.groups import ListedGroup
from tests.conftest import ClusterFactory

pytestmark = pytest.mark.slow


async def test_after_a_coordinators_death_the_next_one_has_all_commits(
    make_cluster: ClusterFactory,
) -> None:
    """G12: an acknowledged offset is there under any coordinator; no caller must ask twice."""
    cluster = await make_cluster(brokers=3)
    names = [TopicPartition("t", number) for number in range(2)]
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic("t", 2, 3)
        assert await admin.list_groups() == []
        with pytest.raises(GroupIdNotFound):
            await admin.describe_group("g")
        await admin.alter_group_offsets("g", dict.fromkeys(names, 7))
        first = (await admin.describe_group("g")).coordinator.id
        await cluster.kill_broker(first)
        offsets = await admin.group_offsets("g")
        assert {name: committed.offset for name, committed in offsets.items()} == dict.fromkeys(names, 7)
        assert (await admin.describe_group("g")).coordinator.id != first
        assert await admin.list_groups() == [ListedGroup("g", "", "Empty")]
        await admin.delete_group("g")
        assert await admin.list_groups() == []
        with pytest.raises(GroupIdNotFound):
            await admin.delete_group("g")
        with pytest.raises(InvalidGroupId):
            await admin.describe_group("")
