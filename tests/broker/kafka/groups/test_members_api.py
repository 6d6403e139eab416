"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: what the handlers make of a client's request, and of the
coordinator's answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.groups.administration import DeleteGroupsRequest
from strandline.broker.kafka.wire.groups.membership import (
    HeartbeatRequest,
    JoinGroupAnswer,
    JoinGroupRequest,
    LeaveGroupAnswer,
    LeaveGroupRequest,
    MemberOfGeneration,
    MemberThatLeaves,
    MemberThatLeft,
    OfferedProtocol,
    SyncGroupRequest,
)
from strandline.broker.kafka.wire.groups.offsets import (
    GroupWanted,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.config.limits import MIB
from strandline.errors import ErrorCode
from strandline.testing import SimulatedCluster
from tests.broker.kafka.support.group_client import (
    BY_NAME,
    RANGE,
    SESSION_MS,
    TOPIC,
    GroupClient,
    lone_broker,
    offsets,
)
from tests.virtual_time import on_virtual_time

FOREVER_MS = 2**31 - 1
UNKNOWN_MEMBER = int(ErrorCode.UNKNOWN_MEMBER_ID)
NOT_COORDINATOR = int(ErrorCode.NOT_COORDINATOR)


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with lone_broker() as cluster:
        yield cluster


@on_virtual_time
async def test_a_broker_that_does_not_coordinate_a_group_says_so(cluster: SimulatedCluster) -> None:
    """An error of the whole request is each partition's in answers that have no other place for it."""
    client = GroupClient(cluster)
    await cluster.create_topic(TOPIC, partitions=3)
    wanted = (OfTopic(TOPIC, (0,)),)
    whole = [
        await client.ask(api, request)
        for api, request in (
            (apis.JOIN_GROUP, JoinGroupRequest("g", SESSION_MS, SESSION_MS, "", "consumer", RANGE)),
            (apis.SYNC_GROUP, SyncGroupRequest("g", 1, "m", (), None, "consumer", "range")),
            (apis.HEARTBEAT, HeartbeatRequest("g", 1, "m")),
            (apis.LEAVE_GROUP, LeaveGroupRequest("g", (MemberThatLeaves("m"),))),
            (apis.OFFSET_DELETE, OffsetDeleteRequest("g", ())),
        )
    ]
    asked = OffsetFetchRequest((GroupWanted("g", wanted),))
    (fetched,) = (await client.ask(apis.OFFSET_FETCH, asked, BY_NAME)).groups
    (deleted,) = (await client.ask(apis.DELETE_GROUPS, DeleteGroupsRequest(("g",)))).groups
    each = [*whole, fetched, fetched.topics[0].partitions[0], deleted, await client.described("g")]
    assert [answer.error for answer in each] == [NOT_COORDINATOR] * len(each)
    assert await client.commit("g", offsets((0, 1), (1, 1))) == [NOT_COORDINATOR] * 2


@on_virtual_time
async def test_clients_join_with_an_id_from_version_4_on(cluster: SimulatedCluster) -> None:
    """Earlier ones join once, and do not know that a member needs its id first (KIP-394)."""
    client = await GroupClient.prepared(cluster)
    joins = [await client.join("old", version=3, rebalance_timeout_ms=None)]
    given = await client.join("new", version=4)
    assert (given.error, given.members, given.member != "") == (ErrorCode.MEMBER_ID_REQUIRED, (), True)
    joins.append(await client.join("new", given.member, version=4))
    assert joins[1].member == given.member
    for joined in joins:
        alone = (MemberOfGeneration(joined.member, b"topics"),)
        assert joined == JoinGroupAnswer(0, 1, "consumer", "range", joined.member, joined.member, alone)


@on_virtual_time
async def test_a_join_that_is_refused_says_why(cluster: SimulatedCluster) -> None:
    """Not for its rebalance timeout: clients ask for the longest that there is, and the broker's bound
    holds."""
    client = await GroupClient.prepared(cluster)
    large = (OfferedProtocol("range", bytes(2 * MIB)),)
    refusals: tuple[tuple[dict[str, Any], int], ...] = (
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": large}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": FOREVER_MS}, ErrorCode.MEMBER_ID_REQUIRED),
    )
    for changed, error in refusals:
        found = await client.join(**{"group": "g", **changed})
        assert (found.error, found.generation, found.members) == (error, -1, ()), changed


@on_virtual_time
async def test_a_join_waits_for_the_others_and_only_the_leader_learns_who_they_are(
    cluster: SimulatedCluster,
) -> None:
    client = await GroupClient.prepared(cluster)
    leader = await client.stable("g")

    async def rebalances() -> bool:
        """A heartbeat is answered at once, also while a join waits."""
        return await client.beat("g", leader) == ErrorCode.REBALANCE_IN_PROGRESS

    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(client.enter("g"))
        await client.until(rebalances, "a rebalance")
        assert not waiting.done()
        again = await client.join("g", leader.member)
    assert again.generation == waiting.result().generation == leader.generation + 1
    assert (len(again.members), len(waiting.result().members)) == (2, 0)


@on_virtual_time
async def test_a_member_that_believes_in_another_protocol_gets_no_assignment(
    cluster: SimulatedCluster,
) -> None:
    """KIP-559: from version 5 on it says which."""
    client = await GroupClient.prepared(cluster)
    joined = await client.enter("g")
    for named in ((None, None), ("consumer", ""), ("consumer", "sticky")):
        refused = await client.sync("g", joined, named=named, all=b"all")
        assert (refused.error, refused.assignment) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, b"")
    older = await client.sync("g", joined, version=4, named=(None, None), all=b"all", gone=b"nothing")
    assert (older.error, older.assignment) == (0, b"all")
    newer = await client.sync("g", joined)
    assert newer == (0, b"all", "consumer", "range")


@on_virtual_time
async def test_a_static_leader_that_returns_is_not_to_assign_again(cluster: SimulatedCluster) -> None:
    """CORRECTNESS G13: it learns it (KIP-814), and its former process is fenced (KIP-345)."""
    client = await GroupClient.prepared(cluster)
    before = await client.stable("g", instance="i")
    again = await client.enter("g", instance="i")
    assert again.generation == before.generation and again.member != before.member
    assert again.leader == again.member and again.skip_assignment
    assert [each.instance for each in again.members] == ["i"]
    synced = await client.sync("g", again, instance="i", all=b"other")
    assert (synced.error, synced.assignment) == (0, b"all")
    assert await client.beat("g", before, "i") == ErrorCode.FENCED_INSTANCE_ID
    assert await client.beat("g", again, "i") == 0


@on_virtual_time
async def test_a_heartbeat_has_the_error_of_its_member(cluster: SimulatedCluster) -> None:
    client = await GroupClient.prepared(cluster)
    joined = await client.stable("g")
    assert await client.beat("g", joined) == 0
    assert await client.beat("g", joined._replace(generation=7)) == ErrorCode.ILLEGAL_GENERATION
    assert await client.beat("nowhere", joined) == UNKNOWN_MEMBER


@on_virtual_time
async def test_each_member_of_a_request_leaves_or_has_its_error(cluster: SimulatedCluster) -> None:
    """An operator names a static member by its instance (KIP-345). Reasons are kept (KIP-800)."""
    client = await GroupClient.prepared(cluster)
    joined = await client.stable("g", reason="a new day")
    async with cluster.admin() as admin:
        assert "a new day" in (await admin.describe_group("g")).group.reason
        leaving = (MemberThatLeaves("stranger"), MemberThatLeaves(joined.member, reason="the end of it"))
        answer = await client.ask(apis.LEAVE_GROUP, LeaveGroupRequest("g", leaving))
        left = (MemberThatLeft("stranger", None, UNKNOWN_MEMBER), MemberThatLeft(joined.member))
        assert (answer.error, answer.members) == (0, left)
        assert "the end of it" in (await admin.describe_group("g")).group.reason
    assert (await client.described("g")).state == "Empty"
    await client.stable("static", instance="i")
    by_instance = (MemberThatLeaves("", "i"), MemberThatLeaves("", "j"))
    answer = await client.ask(apis.LEAVE_GROUP, LeaveGroupRequest("static", by_instance))
    assert answer.members == (MemberThatLeft("", "i"), MemberThatLeft("", "j", UNKNOWN_MEMBER)), "as asked"
    assert (await client.described("static")).state == "Empty"
    answer = await client.ask(apis.LEAVE_GROUP, LeaveGroupRequest("nowhere", leaving[:1]))
    assert answer == LeaveGroupAnswer(0, (MemberThatLeft("stranger", None, UNKNOWN_MEMBER),))


@on_virtual_time
async def test_requests_that_change_a_group_outlive_their_connection(cluster: SimulatedCluster) -> None:
    """Clients do not wait for the answer when they leave and close; `test_connection.py` has what follows. A
    join, a sync and a heartbeat end with their connection."""
    wanted = (
        apis.JOIN_GROUP, apis.SYNC_GROUP, apis.HEARTBEAT, apis.LEAVE_GROUP, apis.OFFSET_COMMIT,
        apis.OFFSET_DELETE, apis.DELETE_GROUPS,
    )  # fmt: skip
    served = GroupClient(cluster).stage.broker._kafka.router._apis
    assert [served[wire.key].changes for wire in wanted] == [False] * 3 + [True] * 4
