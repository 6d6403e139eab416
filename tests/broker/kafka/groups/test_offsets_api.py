"""OffsetCommit, OffsetFetch, OffsetDelete, ListGroups, DescribeGroups and DeleteGroups: what the handlers
make of a client's request, and of the coordinator's answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.groups.administration import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    GroupInList,
    GroupResult,
    ListGroupsRequest,
)
from strandline.broker.kafka.wire.groups.membership import (
    LeaveGroupRequest,
    MemberThatLeaves,
    OfferedProtocol,
)
from strandline.broker.kafka.wire.groups.offsets import (
    GroupWanted,
    OffsetCommitRequest,
    OffsetDeleteAnswer,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetToCommit,
    PartitionOffset,
)
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.config.limits import KIB
from strandline.errors import ErrorCode
from strandline.ids import PartitionId, TopicPartition
from strandline.testing import SimulatedCluster
from tests.broker.kafka.support.group_client import BY_NAME, TOPIC, GroupClient, lone_broker, offsets
from tests.virtual_time import on_virtual_time

UNKNOWN_TOPIC = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
INVALID_GROUP = int(ErrorCode.INVALID_GROUP_ID)
NON_EMPTY = int(ErrorCode.NON_EMPTY_GROUP)
NOT_FOUND = int(ErrorCode.GROUP_ID_NOT_FOUND)
LOADING = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with lone_broker() as cluster:
        yield cluster


@on_virtual_time
async def test_offsets_are_committed_and_fetched(cluster: SimulatedCluster) -> None:
    """By a client outside the group. No metadata is empty metadata; a partition without an offset, and a
    group that is not known, have offset -1 and no error."""
    client = await GroupClient.prepared(cluster)
    assert await client.commit("g", offsets((0, 5)), OfTopic(TOPIC, (OffsetToCommit(1, 9, 3, "here"),))) == [
        0, 0,
    ]  # fmt: skip
    wanted = (OfTopic(TOPIC, (1, 0, 2)),)
    asked = OffsetFetchRequest(
        (GroupWanted("g", wanted), GroupWanted("nowhere", wanted), GroupWanted("", None))
    )
    known, unknown, nameless = (await client.ask(apis.OFFSET_FETCH, asked, BY_NAME)).groups
    assert [known.group, unknown.group, nameless.group] == ["g", "nowhere", ""]
    found = (PartitionOffset(1, 9, 3, "here"), PartitionOffset(0, 5), PartitionOffset(2))
    assert (known.error, known.topics) == (0, (OfTopic(TOPIC, found),))
    nothing = tuple(PartitionOffset(number) for number in (1, 0, 2))
    assert (unknown.error, unknown.topics) == (0, (OfTopic(TOPIC, nothing),))
    assert (nameless.error, nameless.topics) == (INVALID_GROUP, ())
    assert await client.fetched("g") == {0: 5, 1: 9}


@on_virtual_time
async def test_an_offset_below_0_is_given_back_as_by_kafka(cluster: SimulatedCluster) -> None:
    """To strandline's consumers, and by its command line, it is none; they cannot commit one."""
    client = await GroupClient.prepared(cluster)
    assert await client.commit("g", offsets((0, 5), (1, -1), (2, -5))) == [0, 0, 0]
    assert await client.fetched("g") == {0: 5, 1: -1, 2: -5}
    async with cluster.admin() as admin:
        found = await admin.group_offsets("g")
    assert {name: each.offset for name, each in found.items()} == {TopicPartition(TOPIC, PartitionId(0)): 5}


@on_virtual_time
async def test_a_name_that_no_partition_can_have_is_not_there(cluster: SimulatedCluster) -> None:
    """As with Kafka; the others of a request are committed."""
    client = await GroupClient.prepared(cluster)
    nameless = offsets((0, 1), topic="")
    found = await client.commit("g", nameless, offsets((-1, 1), (0, 7)))
    assert found == [UNKNOWN_TOPIC, UNKNOWN_TOPIC, 0]
    assert await client.fetched("g") == {0: 7}


@on_virtual_time
async def test_only_members_commit_while_there_are_any(cluster: SimulatedCluster) -> None:
    """CORRECTNESS G1. An error of the whole request is each partition's."""
    client = await GroupClient.prepared(cluster)
    member = (await client.stable("g")).member
    topics = offsets((0, 1), (1, 2))
    assert await client.commit("g", topics, member=member, generation=1) == [0, 0]
    assert await client.commit("g", offsets((0, 100))) == [ErrorCode.UNKNOWN_MEMBER_ID]
    stale = await client.commit("g", topics, member=member, generation=2)
    assert stale == [ErrorCode.ILLEGAL_GENERATION] * 2
    assert await client.commit("", topics) == [INVALID_GROUP] * 2
    missing = offsets((0, 1), topic="nowhere")
    found = await client.commit("g", missing, offsets((0, 3)), member=member, generation=1)
    assert found == [UNKNOWN_TOPIC, 0]
    assert await client.fetched("g") == {0: 3, 1: 2}


@on_virtual_time
async def test_a_generation_of_a_group_that_is_not_there(cluster: SimulatedCluster) -> None:
    """Only clients from version 9 on know an error for that."""
    client = await GroupClient.prepared(cluster)
    asked = OffsetCommitRequest("nowhere", 3, "m", (offsets((0, 1)),))
    found = [(await client.ask(apis.OFFSET_COMMIT, asked, version)).topics for version in (8, 9)]
    errors = [partition.error for topics in found for topic in topics for partition in topic.partitions]
    assert errors == [ErrorCode.ILLEGAL_GENERATION, ErrorCode.GROUP_ID_NOT_FOUND]


@on_virtual_time
async def test_single_offsets_of_a_group_without_members_are_deleted(cluster: SimulatedCluster) -> None:
    client = await GroupClient.prepared(cluster)
    member = (await client.stable("g")).member
    await client.commit("g", offsets((0, 5), (1, 6), (2, 7)), member=member, generation=1)

    async def deleted(group: str, topic: str, *numbers: int) -> OffsetDeleteAnswer:
        asked = OffsetDeleteRequest(group, (OfTopic(topic, numbers),))
        answer: OffsetDeleteAnswer = await client.ask(apis.OFFSET_DELETE, asked)
        return answer

    assert await deleted("g", TOPIC, 0) == OffsetDeleteAnswer(NON_EMPTY)
    await client.ask(apis.LEAVE_GROUP, LeaveGroupRequest("g", (MemberThatLeaves(member),)))
    assert await deleted("g", TOPIC, 0, 2) == (0, (OfTopic(TOPIC, ((0, 0), (2, 0))),))
    assert await client.fetched("g") == {1: 6}
    assert await deleted("g", "nowhere", 0) == (0, (OfTopic("nowhere", ((0, UNKNOWN_TOPIC),)),))
    assert await deleted("nowhere", TOPIC, 0) == OffsetDeleteAnswer(NOT_FOUND)


# --- administration ---------------------------------------------------------------------------


@on_virtual_time
async def test_groups_are_described_and_one_that_is_not_known_is_dead(cluster: SimulatedCluster) -> None:
    """Which is an error from version 6 on (KIP-1043). No group has an empty name. A group that is named twice
    has two answers, as from Kafka."""
    client = await GroupClient.prepared(cluster)
    joined = await client.stable("g")
    asked = DescribeGroupsRequest(("g", "nowhere", "", "g"))
    known, unknown, nameless, twice = (await client.ask(apis.DESCRIBE_GROUPS, asked, 5)).groups
    assert twice == known
    assert (known.error, known.state) == (0, "Stable")
    assert (known.protocol_type, known.protocol) == ("consumer", "range")
    (member,) = known.members
    assert (member.member, member.client_id, member.host) == (joined.member, "test", "/192.0.2.1")
    assert (member.metadata, member.assignment) == (b"topics", b"all")
    assert (unknown.error, unknown.state, unknown.members) == (0, "Dead", ())
    assert (nameless.error, nameless.state) == (0, "Dead")
    again, unknown, nameless, _ = (await client.ask(apis.DESCRIBE_GROUPS, asked, 6)).groups
    assert again == known
    assert (unknown.error, unknown.state, unknown.message) == (69, "Dead", "group nowhere is not known")
    assert (nameless.error, nameless.state, nameless.message) == (69, "Dead", "no group has an empty name")


@on_virtual_time
async def test_groups_are_listed_by_state_and_type(cluster: SimulatedCluster) -> None:
    """KIP-518, in any spelling; KIP-848: each is of the classic type."""
    client = await GroupClient.prepared(cluster)
    await client.stable("busy")
    await client.commit("idle", offsets((0, 5)))
    busy, idle = GroupInList("busy", "consumer", "Stable"), GroupInList("idle", "", "Empty")
    for states, types, expected in (
        ((), (), {busy, idle}),
        (("Stable",), (), {busy}),
        (("Empty", "Dead"), (), {idle}),
        (("stable",), (), {busy}),
        ((), ("Classic",), {busy, idle}),
        ((), ("consumer",), set()),
    ):
        found = await client.ask(apis.LIST_GROUPS, ListGroupsRequest(states, types))
        assert (found.error, set(found.groups)) == (0, expected)


@on_virtual_time
async def test_each_group_of_a_request_is_deleted_or_has_its_error(cluster: SimulatedCluster) -> None:
    client = await GroupClient.prepared(cluster)
    await client.stable("busy")
    await client.commit("idle", offsets((0, 5)))
    answer = await client.ask(apis.DELETE_GROUPS, DeleteGroupsRequest(("busy", "idle", "nowhere", "idle")))
    assert answer.groups == (
        GroupResult("busy", NON_EMPTY),
        GroupResult("idle"),
        GroupResult("nowhere", NOT_FOUND),
    )
    assert await client.fetched("idle") == {}


# --- large answers ----------------------------------------------------------------------------


@on_virtual_time
async def test_large_groups_are_described_some_at_a_time(cluster: SimulatedCluster) -> None:
    """CORRECTNESS X6: an answer has a bound of bytes. Clients ask again for a group of a coordinator that
    loads."""
    client = await GroupClient.prepared(cluster)
    names = [f"g-{number}" for number in range(8)]
    for name in names:
        joined = await client.enter(name, protocols=(OfferedProtocol("range", bytes(500 * KIB)),))
        await client.sync(name, joined, all=bytes(500 * KIB))
    left, rounds = names, 0
    while left:
        found = (await client.ask(apis.DESCRIBE_GROUPS, DescribeGroupsRequest(tuple(left)))).groups
        whole = [each for each in found if each.error == 0]
        assert all(len(each.members[0].assignment) == 500 * KIB for each in whole)
        assert 1 <= len(whole) <= 5
        left = [each.group for each in found if each.error == LOADING]
        assert len(left) + len(whole) == len(found)
        rounds += 1
    assert rounds >= 2


@on_virtual_time
async def test_a_group_that_is_named_again_and_again_is_not_fetched_without_end(
    cluster: SimulatedCluster,
) -> None:
    """CORRECTNESS X6."""
    client = await GroupClient.prepared(cluster)
    assert await client.commit("g", offsets((0, 1), (1, 2), (2, 3), metadata="x" * 4_000)) == [0] * 3
    asked = OffsetFetchRequest((GroupWanted("g", None),) * 2_000)
    codes = [each.error for each in (await client.ask(apis.OFFSET_FETCH, asked, BY_NAME)).groups]
    assert set(codes) == {0, LOADING} and codes == sorted(codes)
    assert 300 < codes.count(0) < 400
