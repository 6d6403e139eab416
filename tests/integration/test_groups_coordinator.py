"""The coordinator in real brokers, spoken to without a consumer in between."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest

from strandline.ids import TopicPartition
from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.integration.group_rpcs import GroupRpcs, Member, stable

GROUP_SETTINGS = {"group_initial_rebalance_delay_ms": 0, "offsets_topic_partitions": 3}
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    return await make_module_cluster(brokers=3, broker_settings=GROUP_SETTINGS)


@pytest.fixture
async def rpcs(cluster: LocalCluster) -> AsyncIterator[GroupRpcs]:
    async with GroupRpcs(cluster) as found:
        yield found


@pytest.fixture
def group() -> str:
    return f"group-{next(_numbers)}"


async def test_members_join_sync_beat_and_commit(rpcs: GroupRpcs, group: str) -> None:
    """DESIGN §6: one generation, one leader, an assignment for each, and offsets that come back."""
    members = [Member(rpcs, group) for _ in range(3)]
    generation = await stable(members)
    for member in members:
        await member.heartbeat()
        assert member.generation == generation
    assert await members[0].commit({FIRST: 5, SECOND: 7}) == {FIRST: None, SECOND: None}
    committed = await members[1].committed()
    assert {name: found and found.offset for name, found in committed.items()} == {FIRST: 5, SECOND: 7}
    described = await members[2].described()
    assert described.state == "Stable"
    assert {m.member for m in described.members} == {m.member for m in members}
    assert {m.host for m in described.members} == {"127.0.0.1"}
