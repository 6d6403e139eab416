"""ConsumerGroupHeartbeat and ConsumerGroupDescribe, and what other APIs say of such groups (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.groups.administration import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from strandline.broker.kafka.wire.groups.consumers import (
    TopicNumbers,
)
from strandline.broker.kafka.wire.groups.offsets import (
    GroupWanted,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.errors import ErrorCode
from strandline.testing import SimulatedCluster
from tests.broker.kafka.support.consumers import Consumers, numbers
from tests.broker.kafka.support.group_client import BY_NAME, TOPIC, lone_broker, offsets
from tests.virtual_time import on_virtual_time

UNSUPPORTED_VERSION = 35


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with lone_broker() as cluster:
        yield cluster


@on_virtual_time
async def test_a_member_gets_partitions_by_the_ids_of_their_topics(cluster: SimulatedCluster) -> None:
    client = await Consumers.prepared(cluster)
    first = await client.heartbeat("g", "a", 0)
    assert (first.error, first.member, first.epoch, numbers(first)) == (0, "a", 2, [0, 1, 2])
    assert first.assignment is not None and first.interval_ms == 5_000
    (topic,) = first.assignment.partitions
    assert (await client.heartbeat("g", "a", 2)).assignment is None
    second = await client.heartbeat("g", "b", 0)
    assert (second.epoch, numbers(second)) == (3, [])
    fewer = await client.heartbeat("g", "a", 2)
    assert (fewer.epoch, len(numbers(fewer) or ())) == (2, 2)
    assert fewer.assignment is not None
    given = await client.heartbeat("g", "a", 2, owned=fewer.assignment.partitions)
    assert (given.error, given.epoch, given.assignment) == (0, 3, None)
    rest = await client.heartbeat("g", "b", 3)
    assert rest.assignment is not None
    assert set(numbers(rest) or ()) == {0, 1, 2} - set(numbers(fewer) or ())
    assert rest.assignment.partitions[0].topic_id == topic.topic_id


@on_virtual_time
async def test_a_heartbeat_that_is_refused_says_why(cluster: SimulatedCluster) -> None:
    client = await Consumers.prepared(cluster)
    joined = await client.heartbeat("g", "a", 0, instance="i")
    assert joined.error == 0
    await client.stable("classic")
    refusals: tuple[tuple[dict[str, Any], int], ...] = (
        ({"group": ""}, ErrorCode.INVALID_REQUEST),
        ({"member": ""}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 0, "topics": None}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 0, "rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 0, "owned": (TopicNumbers("0" * 32, (1,)),)}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"instance": ""}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 0, "assignor": "nothing"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"group": "nowhere"}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"group": "classic", "epoch": 0}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member": "b"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member": "b", "epoch": -1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member": "b", "epoch": 0, "instance": "i"}, ErrorCode.UNRELEASED_INSTANCE_ID),
        ({"member": "b", "instance": "i"}, ErrorCode.FENCED_INSTANCE_ID),
        ({"epoch": 1}, ErrorCode.FENCED_MEMBER_EPOCH),
        ({"epoch": 3}, ErrorCode.FENCED_MEMBER_EPOCH),
    )
    for changed, error in refusals:
        found = await client.heartbeat(**{"group": "g", "member": "a", "epoch": 2, **changed})
        assert (found.error, found.epoch, found.assignment) == (error, 0, None), changed
        assert found.message
    named = await client.heartbeat("g", "", 0, version=0)
    assert named.error == 0 and named.member


@on_virtual_time
async def test_a_group_is_described_and_listed_as_what_it_is(cluster: SimulatedCluster) -> None:
    client = await Consumers.prepared(cluster)
    await client.heartbeat("g", "a", 0, instance="i", rack="r", assignor="range")
    found = await client.consumers("g")
    assert (found.error, found.state, found.epoch, found.target_epoch) == (0, "Stable", 2, 2)
    assert found.assignor == "range"
    (member,) = found.members
    assert (member.member, member.instance, member.rack, member.epoch) == ("a", "i", "r", 2)
    assert (member.topics, member.type) == ((TOPIC,), 1)
    (assigned,) = member.assigned.partitions
    assert (assigned.topic, assigned.partitions) == (TOPIC, (0, 1, 2))
    assert member.target == member.assigned
    await client.stable("classic")
    for unknown in ("classic", "nowhere"):
        refused = await client.consumers(unknown)
        assert (refused.error, refused.members) == (ErrorCode.GROUP_ID_NOT_FOUND, ())
    (classic,) = (await client.ask(apis.DESCRIBE_GROUPS, DescribeGroupsRequest(("g",)))).groups
    assert classic.error == ErrorCode.GROUP_ID_NOT_FOUND
    for types, names in (((), ["classic", "g"]), (("Consumer",), ["g"]), (("classic",), ["classic"])):
        listed = (await client.ask(apis.LIST_GROUPS, ListGroupsRequest((), types))).groups
        assert [each.group for each in listed] == names
    (listed_group,) = (await client.ask(apis.LIST_GROUPS, ListGroupsRequest((), ("consumer",)))).groups
    assert listed_group == ("g", "consumer", "Stable", "consumer")


@on_virtual_time
async def test_a_member_commits_and_fetches_in_its_epoch(cluster: SimulatedCluster) -> None:
    client = await Consumers.prepared(cluster)
    await client.heartbeat("g", "a", 0)

    async def fetched(member: str | None, epoch: int) -> int:
        wanted = GroupWanted("g", (OfTopic(TOPIC, (0,)),), member, epoch)
        (found,) = (await client.ask(apis.OFFSET_FETCH, OffsetFetchRequest((wanted,)), BY_NAME)).groups
        return int(found.error) or found.topics[0].partitions[0].offset

    stale, unknown = int(ErrorCode.STALE_MEMBER_EPOCH), int(ErrorCode.UNKNOWN_MEMBER_ID)
    for member, epoch, error in (
        ("a", 2, 0),
        ("a", 1, stale),
        ("a", 3, stale),
        ("b", 2, unknown),
        ("", -1, unknown),
    ):
        assert await client.commit("g", offsets((0, 5)), member=member, generation=epoch) == [error]
    for member_id, epoch, result in (
        ("a", 2, 5),
        (None, -1, 5),
        ("a", 1, stale),
        ("b", 2, unknown),
        ("", -1, unknown),
    ):
        assert await fetched(member_id, epoch) == result
    before = OffsetCommitRequest("g", 2, "a", (offsets((0, 5)),))
    (refused,) = (await client.ask(apis.OFFSET_COMMIT, before, BY_NAME - 1)).topics
    assert [each.error for each in refused.partitions] == [UNSUPPORTED_VERSION]


@on_virtual_time
async def test_a_group_goes_when_its_members_have_left(cluster: SimulatedCluster) -> None:
    """Its offsets too; and while it has members, those of the topics that they read stay."""
    client = await Consumers.prepared(cluster)
    await client.heartbeat("g", "a", 0)
    assert await client.commit("g", offsets((0, 5)), member="a", generation=2) == [0]

    async def deleted() -> int:
        (found,) = (await client.ask(apis.DELETE_GROUPS, DeleteGroupsRequest(("g",)))).groups
        return int(found.error)

    of_topic = OffsetDeleteRequest("g", (OfTopic(TOPIC, (0,)),))
    (answer,) = (await client.ask(apis.OFFSET_DELETE, of_topic)).topics
    assert [each.error for each in answer.partitions] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    assert await deleted() == ErrorCode.NON_EMPTY_GROUP
    joined = await client.enter("g")
    assert joined.error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    left = await client.heartbeat("g", "a", -1)
    assert (left.error, left.epoch) == (0, -1)
    assert (await client.consumers("g")).state == "Empty"
    assert await deleted() == 0
    assert (await client.consumers("g")).error == ErrorCode.GROUP_ID_NOT_FOUND
    assert await client.fetched("g") == {}
    assert (await client.heartbeat("g", "a", 0)).epoch == 2
    await client.heartbeat("g", "a", -1)
    assert (await client.stable("g")).generation == 1


@on_virtual_time
async def test_a_pattern_chooses_topics_as_they_come_and_go(cluster: SimulatedCluster) -> None:
    """RE2, and whole names: `t.*` is not `streets`. Internal topics are never chosen."""
    client = await Consumers.prepared(cluster)
    await cluster.create_topic("streets", partitions=1)
    refused = await client.heartbeat("g", "a", 0, topics=None, pattern="[")
    assert (refused.error, refused.epoch) == (ErrorCode.INVALID_REGULAR_EXPRESSION, 0)
    joined = await client.heartbeat("g", "a", 0, topics=None, pattern="t.*|__.*")
    assert (joined.error, numbers(joined)) == (0, [0, 1, 2])
    second = await client.heartbeat("g", "b", 0, topics=None, pattern="t.*|__.*")
    assert (second.error, numbers(second)) == (0, [])
    await client.heartbeat("g", "b", -1)
    await cluster.create_topic("tents", partitions=2)
    epoch = joined.epoch

    async def has_both() -> bool:
        nonlocal epoch
        answer = await client.heartbeat("g", "a", epoch)
        epoch = answer.epoch
        return len(numbers(answer) or ()) == 5

    await client.until(has_both, "the new topic is assigned too")
    (member,) = (await client.consumers("g")).members
    assert (member.pattern, member.topics) == ("t.*|__.*", ())
    assert [topic.topic for topic in member.assigned.partitions] != [TOPIC]
    fewer = await client.heartbeat("g", "a", epoch, topics=(), pattern="tents")
    assert numbers(fewer) == [0, 1]
