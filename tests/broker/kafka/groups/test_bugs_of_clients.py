"""Bugs of other projects' clients with the consumer protocol (KIP-848): what they send, and that they go on.

A client that was cured since is still in use for years. Where Apache Kafka's answer ends such a client, ours
may be another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.groups.consumers import ConsumerHeartbeatAnswer, TopicNumbers
from strandline.broker.kafka.wire.groups.offsets import GroupWanted, OffsetFetchRequest
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.errors import ErrorCode
from strandline.testing import SimulatedCluster
from tests.broker.kafka.support.consumers import Consumers, numbers
from tests.broker.kafka.support.group_client import BY_NAME, TOPIC, lone_broker, offsets
from tests.virtual_time import on_virtual_time

UNKNOWN, STALE = int(ErrorCode.UNKNOWN_MEMBER_ID), int(ErrorCode.STALE_MEMBER_EPOCH)
BEATS_MAX = 2
"""Heartbeats of each member after which a partition has moved from one to another."""


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with lone_broker() as cluster:
        yield cluster


def owned(answer: ConsumerHeartbeatAnswer) -> tuple[TopicNumbers, ...]:
    assert answer.assignment is not None
    return tuple(answer.assignment.partitions)


@on_virtual_time
async def test_a_member_that_left_after_its_poll_interval_joins_again(cluster: SimulatedCluster) -> None:
    """librdkafka#5488: it left by epoch -1, and comes with the same id."""
    client = await Consumers.prepared(cluster)
    first = await client.heartbeat("g", "a", 0)
    await client.heartbeat("g", "b", 0)
    assert (await client.heartbeat("g", "a", -1)).error == 0
    again = await client.heartbeat("g", "a", 0)
    assert again.error == 0 and again.epoch > first.epoch
    assert (await client.heartbeat("g", "a", again.epoch)).error == 0


@on_virtual_time
async def test_a_member_joins_again_whether_or_not_its_leaving_arrived_in_time(
    cluster: SimulatedCluster,
) -> None:
    """librdkafka#5488: it joins while the group still has it, with partitions that it gave up. If its leaving
    comes after that, it is out, hears so, and joins once more."""
    client = await Consumers.prepared(cluster)
    assert numbers(await client.heartbeat("g", "a", 0)) == [0, 1, 2]
    again = await client.heartbeat("g", "a", 0)
    assert (again.error, numbers(again)) == (0, [0, 1, 2])
    assert (await client.heartbeat("g", "a", -1)).error == 0
    assert (await client.heartbeat("g", "a", again.epoch)).error == UNKNOWN
    assert numbers(await client.heartbeat("g", "a", 0)) == [0, 1, 2]


@on_virtual_time
async def test_a_member_that_joins_without_a_subscription_hears_that_it_is_out(
    cluster: SimulatedCluster,
) -> None:
    """librdkafka#5541: before 2.15 it sends epoch 0 in a heartbeat that says nothing else. INVALID_REQUEST,
    which Kafka answers, ends it; with UNKNOWN_MEMBER_ID it joins again as it should. One that says a part is
    invalid, as in Kafka."""
    client = await Consumers.prepared(cluster)
    bare: dict[str, Any] = {"topics": None, "owned": None, "rebalance_timeout_ms": -1}
    for _ in ("no group", "a group without the member"):
        assert (await client.heartbeat("g", "a", 0, **bare)).error == UNKNOWN
        await client.heartbeat("g", "b", 0)
    assert (await client.consumers("g")).members[0].member == "b"
    some = await client.heartbeat("g", "a", 0, topics=None)
    assert some.error == ErrorCode.INVALID_REQUEST
    assert (await client.heartbeat("g", "a", 0)).error == 0


@on_virtual_time
async def test_commits_go_on_while_others_join_and_leave(cluster: SimulatedCluster) -> None:
    """node-rdkafka#1146: a commit in the epoch before is taken for what the member has kept (KIP-1251). What
    it gave up is refused, since another member reads that now."""
    client = await Consumers.prepared(cluster)
    first = await client.heartbeat("g", "a", 0)
    await client.heartbeat("g", "b", 0)
    fewer = await client.heartbeat("g", "a", first.epoch)
    kept = numbers(fewer) or []
    (gone,) = {0, 1, 2} - set(kept)
    assert (await client.heartbeat("g", "a", fewer.epoch, owned=owned(fewer))).epoch > first.epoch
    committed = [
        await client.commit("g", offsets((number, 5)), member="a", generation=first.epoch)
        for number in (*kept, gone)
    ]
    assert committed == [[0], [0], [STALE]]
    assert (await client.heartbeat("g", "b", -1)).error == 0
    assert await client.commit("g", offsets((kept[0], 6)), member="a", generation=first.epoch) == [0]


@on_virtual_time
async def test_a_partition_moves_within_a_few_heartbeats(cluster: SimulatedCluster) -> None:
    """node-rdkafka#1146: consumers stood still for minutes while partitions moved. Who keeps a partition is
    never asked to stop it, and who gets one has it as soon as it is given up."""
    client = await Consumers.prepared(cluster)
    first = await client.heartbeat("g", "a", 0)
    second = await client.heartbeat("g", "b", 0)
    has, epoch = set(numbers(second) or ()), second.epoch
    kept = first
    for _ in range(BEATS_MAX):
        answer = await client.heartbeat("g", "a", kept.epoch, owned=owned(kept) if kept.assignment else None)
        if answer.assignment is not None:
            assert set(numbers(answer) or ()) < {0, 1, 2}
        kept = answer if answer.assignment is not None else kept._replace(epoch=answer.epoch)
    got = await client.heartbeat("g", "b", epoch)
    has |= set(numbers(got) or ())
    assert has | set(numbers(kept) or ()) == {0, 1, 2}
    assert (await client.consumers("g")).state == "Stable"


@on_virtual_time
async def test_a_topic_that_a_client_dropped_is_given_to_it_again(cluster: SimulatedCluster) -> None:
    """franz-go before 1.21.6: a pattern matches a new topic, which is assigned before the client's metadata
    has it; the client drops it, and says all again, without it. A full heartbeat gets all of it."""
    client = await Consumers.prepared(cluster)
    joined = await client.heartbeat("g", "a", 0, topics=None, pattern="t.*")
    before = owned(joined)
    await cluster.create_topic("tents", partitions=2)
    epoch = joined.epoch

    async def has_both() -> bool:
        nonlocal epoch
        answer = await client.heartbeat("g", "a", epoch)
        epoch = answer.epoch
        return len(numbers(answer) or ()) == 5

    await client.until(has_both, "the new topic is assigned")
    full: dict[str, Any] = {"owned": before, "pattern": "t.*", "topics": None, "rebalance_timeout_ms": 60_000}
    for _ in range(2):
        again = await client.heartbeat("g", "a", epoch, **full)
        assert (again.error, len(numbers(again) or ())) == (0, 5)
    new = GroupWanted("g", (OfTopic("tents", (0, 1)),), "a", epoch)
    (found,) = (await client.ask(apis.OFFSET_FETCH, OffsetFetchRequest((new,)), BY_NAME)).groups
    assert [(each.partition, each.error) for each in found.topics[0].partitions] == [(0, 0), (1, 0)]


@on_virtual_time
async def test_a_member_whose_offsets_are_asked_in_an_old_epoch_hears_it(cluster: SimulatedCluster) -> None:
    """platformatic/kafka#267: a client that takes the refusal for "no offset" would skip records. The refusal
    is for the group, with no offsets beside it, so a client cannot take it for that."""
    client = await Consumers.prepared(cluster)
    joined = await client.heartbeat("g", "a", 0)
    assert await client.commit("g", offsets((0, 5)), member="a", generation=joined.epoch) == [0]
    wanted = GroupWanted("g", (OfTopic(TOPIC, (0,)),), "a", joined.epoch - 1)
    (found,) = (await client.ask(apis.OFFSET_FETCH, OffsetFetchRequest((wanted,)), BY_NAME)).groups
    assert (found.error, found.topics) == (STALE, ())
