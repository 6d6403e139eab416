"""Consumers share a group, with real brokers: their partitions, and repeated records (docs/use/groups.md)."""

from __future__ import annotations

import asyncio

import pytest

from strandline import (
    Consumer,
    RebalanceListener,
    TopicPartition,
)
from strandline.errors import InvalidRequest
from strandline.testing import MemoryCluster
from tests.integration.groups.support.group_members import (
    GROUP_SETTINGS,
    SETTLE_S,
    Members,
    Participant,
    loading,
    new_group,
    new_topic,
    write,
)
from tests.waiting import eventually

both_protocols = pytest.mark.parametrize("protocol", ["eager", "cooperative"])


# --- coming and going -----------------------------------------------------------------------------


@both_protocols
async def test_members_come_and_go_and_each_record_is_read_once(
    cluster: MemoryCluster, protocol: str
) -> None:
    """Where nothing crashes, draining and committing before a release leave nothing to be read twice (G6)."""
    topic = await new_topic(cluster, 6)
    async with (
        loading(cluster, {topic: 6}) as load,
        Members(cluster, [topic], rebalance_protocol=protocol) as members,
    ):
        first = await members.join()
        await members.settled(first, partitions=6)
        second, third = await members.join(), await members.join()
        await members.settled(first, second, third, partitions=6)
        await eventually(lambda: second.records and third.records, what="all members read")
        await members.leave(second)
        await members.settled(first, third, partitions=6)
        await members.leave(third)
        await members.settled(first, partitions=6)
        await load.finish()
        written = len(load.acked)
        await eventually(lambda: sum(members.seen().values()) >= written, what="everything is read")
        assert members.seen() == dict.fromkeys(load.acked, 1)
        assert [member.errors for member in members.all] == [[], [], []]


async def test_cooperative_members_are_notified_only_of_moving_partitions(cluster: MemoryCluster) -> None:
    """KIP-429: a member that keeps partitions over a rebalance hears nothing of them."""
    topic = await new_topic(cluster, 4)
    async with Members(cluster, [topic], rebalance_protocol="cooperative") as members:
        first = await members.join()
        await members.settled(first, partitions=4)
        second = await members.join()
        await members.settled(first, second, partitions=4)
        assert first.heard.kinds() == ["assigned", "revoked"]
        (_, gone) = first.heard.events[-1]
        assert len(gone) == 2 and second.owned == gone
        await members.leave(second)
        await members.settled(first, partitions=4)
        assert [len(partitions) for kind, partitions in first.heard.events if partitions] == [4, 2, 2]


async def test_eager_members_give_everything_up_first(cluster: MemoryCluster) -> None:
    """KIP-429, "eager": V0's behaviour, as it always was."""
    topic = await new_topic(cluster, 4)
    async with Members(cluster, [topic], rebalance_protocol="eager") as members:
        first = await members.join()
        await members.settled(first, partitions=4)
        second = await members.join()
        await members.settled(first, second, partitions=4)
        sizes = [len(partitions) for _, partitions in first.heard.events]
        assert first.heard.kinds()[:3] == ["assigned", "revoked", "assigned"]
        assert sizes[:3] == [4, 4, 2]


async def test_kept_partitions_continue_while_a_cooperative_group_rebalances(cluster: MemoryCluster) -> None:
    """(G9) records of kept partitions are handed out in the middle of a rebalance that another member
    delays."""
    topic = await new_topic(cluster, 6)
    async with Members(cluster, [topic], rebalance_protocol="cooperative") as members:
        first, second = await members.join(), await members.join()
        await members.settled(first, second, partitions=6)
        blocked, go_on = asyncio.Event(), asyncio.Event()

        async def hold_up(kind: str, partitions: set[TopicPartition]) -> None:
            if kind == "revoked":
                blocked.set()
                await go_on.wait()

        second.heard.before = hold_up
        third = await members.join()
        await blocked.wait()
        assert not third.owned
        kept = min(first.consumer.assignment() & first.owned)
        before = len(first.records)
        await write(cluster, topic, kept.partition, 20)
        await eventually(lambda: len(first.records) >= before + 20, what="a kept partition is read on")
        assert not third.owned, "the rebalance is held up, so no member can have got a partition"
        go_on.set()
        await members.settled(first, second, third, partitions=6)


async def test_a_close_calls_the_listener_for_everything_and_hands_over_at_once(
    cluster: MemoryCluster,
) -> None:
    """Everything is revoked in order, committed, and reported to the group, long before a session would
    expire."""
    topic = await new_topic(cluster, 3)
    async with Members(cluster, [topic], session_timeout_ms=60_000) as members:
        first = await members.join()
        await members.settled(first, partitions=3)
        await write(cluster, topic, 0, 10)
        await eventually(lambda: len(first.records) == 10, what="all is read")
        await members.leave(first)
        assert first.heard.kinds() == ["assigned", "revoked"] and first.owned == set()
        second = await members.join()
        await members.settled(second, partitions=3)
        assert await second.consumer.position(TopicPartition(topic, 0)) == 10
        assert second.records == []


# --- the listener ---------------------------------------------------------------------------------


@both_protocols
async def test_a_listener_that_fails_skips_nothing(cluster: MemoryCluster, protocol: str) -> None:
    """(G10) its exception is raised by the next get call; the rebalance continues as if nothing had
    happened."""
    topic = await new_topic(cluster, 4)
    async with Members(cluster, [topic], rebalance_protocol=protocol) as members:
        first = await members.join()

        async def fail(kind: str, partitions: set[TopicPartition]) -> None:
            raise LookupError(f"{kind} failed")

        first.heard.before = fail
        await members.settled(first, partitions=4)
        second = await members.join()
        await members.settled(first, second, partitions=4)
        await write(cluster, topic, min(first.owned).partition, 5)
        await eventually(lambda: len(first.records) == 5, what="it reads on")
        messages = [str(error) for error in first.errors]
        assert messages == [f"{kind} failed" for kind, partitions in first.heard.events]


async def test_a_seek_in_on_assigned_counts(cluster: MemoryCluster) -> None:
    """Fetching begins after on_assigned returned, from where it says; positions can be asked for there."""
    topic = await new_topic(cluster, 1)
    await write(cluster, topic, 0, 6)
    stood: list[int] = []

    class Seeks(RebalanceListener):
        async def on_assigned(self, added: set[TopicPartition]) -> None:
            for name in added:
                stood.append(await consumer.position(name))
                assert await consumer.committed(name) is None
                consumer.seek(name, 4)

    async with Consumer(
        cluster.bootstrap, host=cluster.host, group_id=new_group(), **GROUP_SETTINGS
    ) as consumer:
        consumer.subscribe([topic], listener=Seeks())
        assert [(await consumer.getone()).offset for _ in range(2)] == [4, 5]
    assert stood == [0]


async def test_a_listener_cannot_stop_its_consumer(cluster: MemoryCluster) -> None:
    """It would wait for itself: the call raises, and everything continues."""
    topic = await new_topic(cluster, 1)
    await write(cluster, topic, 0, 1)

    class Stops(RebalanceListener):
        async def on_assigned(self, added: set[TopicPartition]) -> None:
            await consumer.stop()

    async with Consumer(
        cluster.bootstrap, host=cluster.host, group_id=new_group(), **GROUP_SETTINGS
    ) as consumer:
        consumer.subscribe([topic], listener=Stops())
        with pytest.raises(InvalidRequest, match="cannot stop its consumer"):
            _ = await consumer.getone()
        assert (await consumer.getone()).offset == 0


# --- the subscription -----------------------------------------------------------------------------


async def test_another_subscription_takes_the_place_of_the_first(cluster: MemoryCluster) -> None:
    """KIP-429 (a): joins again with what it has; partitions of a topic no longer wanted are revoked."""
    old, new = await new_topic(cluster, 2), await new_topic(cluster, 2)
    async with Members(cluster, [old], rebalance_protocol="cooperative") as members:
        member = await members.join()
        await members.settled(member, partitions=2)
        member.consumer.subscribe([new], listener=member.heard)
        await eventually(
            lambda: {name.topic for name in member.owned} == {new} and len(member.owned) == 2,
            deadline_s=SETTLE_S,
            what="only the new topic is read",
        )
        member.consumer.unsubscribe()
        await eventually(lambda: member.owned == set(), what="everything is given up")
        member.consumer.subscribe([old], listener=member.heard)
        await members.settled(member, partitions=2)
        assert "lost" not in member.heard.kinds()


@both_protocols
async def test_a_pattern_finds_topics_that_come(cluster: MemoryCluster, protocol: str) -> None:
    prefix = f"pattern-{protocol}"
    first = await new_topic(cluster, 2, prefix)
    async with Members(cluster, [], rebalance_protocol=protocol) as members:
        one = await _subscribed_by_pattern(members, f"{prefix}-.*")
        two = await _subscribed_by_pattern(members, f"{prefix}-.*")
        await members.settled(one, two, partitions=2)
        second = await new_topic(cluster, 4, prefix)
        await members.settled(one, two, partitions=6)
        assert one.consumer.subscription() == two.consumer.subscription() == {first, second}
        assert "lost" not in one.heard.kinds() + two.heard.kinds()


async def _subscribed_by_pattern(members: Members, pattern: str) -> Participant:
    participant = Participant(members.cluster, members.group, **members.settings)
    await members.start(participant)
    participant.consumer.subscribe(pattern=pattern, listener=participant.heard)
    return participant


async def test_a_topic_that_is_subscribed_to_may_come_later(cluster: MemoryCluster) -> None:
    late = f"late-{new_group()}"
    async with Members(cluster, [late]) as members:
        member = await members.join()
        await eventually(lambda: member.generation >= 0, what="it has joined for nothing yet")
        async with cluster.admin() as admin:
            await admin.create_topic(late, 2, replication_factor=3)
        await members.settled(member, partitions=2)


@both_protocols
async def test_a_deleted_topic_leaves_a_group_subscribed_by_pattern(
    cluster: MemoryCluster, protocol: str
) -> None:
    """Its partitions are revoked, and no member fails for it."""
    prefix = f"deleted-{protocol}"
    stays, goes = await new_topic(cluster, 2, prefix), await new_topic(cluster, 2, prefix)
    async with Members(cluster, [], rebalance_protocol=protocol) as members:
        one = await _subscribed_by_pattern(members, f"{prefix}-.*")
        two = await _subscribed_by_pattern(members, f"{prefix}-.*")
        await members.settled(one, two, partitions=4)
        await _delete(cluster, goes)
        await members.settled(one, two, partitions=2)
        assert {name.topic for name in one.owned | two.owned} == {stays}
        await _read_on(members, stays)


async def test_a_deleted_topic_goes_from_an_eager_group(cluster: MemoryCluster) -> None:
    stays, goes = await new_topic(cluster, 2), await new_topic(cluster, 2)
    async with Members(cluster, [stays, goes], rebalance_protocol="eager") as members:
        one, two = await members.join(), await members.join()
        await members.settled(one, two, partitions=4)
        await _delete(cluster, goes)
        await members.settled(one, two, partitions=2)
        await _read_on(members, stays)


async def test_a_deleted_topic_that_is_named_stays_with_its_owner(cluster: MemoryCluster) -> None:
    """KIP-429, unknown partitions: the member that claims them has them, so a topic that is created again
    is read at once."""
    stays, goes = await new_topic(cluster, 2), await new_topic(cluster, 2)
    async with Members(cluster, [stays, goes], rebalance_protocol="cooperative") as members:
        one, two = await members.join(), await members.join()
        await members.settled(one, two, partitions=4)
        generation = one.generation
        await _delete(cluster, goes)
        await eventually(lambda: one.generation > generation, what="the leader has noticed")
        await members.settled(one, two, partitions=4)
        await _read_on(members, stays)
        async with cluster.admin() as admin:
            await admin.create_topic(goes, 2, replication_factor=3)
        await _read_on(members, goes)
        assert one.heard.kinds() + two.heard.kinds() == ["assigned"] * 2


async def _delete(cluster: MemoryCluster, topic: str) -> None:
    async with cluster.admin() as admin:
        await admin.delete_topics([topic])


async def _read_on(members: Members, topic: str) -> None:
    """No consumer has failed, and new records arrive."""
    before = sum(members.seen().values())
    await write(members.cluster, topic, 0, 5)
    await eventually(
        lambda: sum(members.seen().values()) == before + 5, deadline_s=SETTLE_S, what=f"{topic} is read on"
    )
    assert [member.errors for member in members.all] == [[] for _ in members.all]


async def test_a_topic_that_is_deleted_before_it_was_ever_read_is_no_error_of_its_readers(
    cluster: MemoryCluster,
) -> None:
    """The group revokes its partitions; a reader has nothing to do about it."""
    prefix = "short-lived"
    stays = await new_topic(cluster, 1, prefix)
    async with Members(cluster, [], rebalance_protocol="cooperative") as members:
        member = await _subscribed_by_pattern(members, f"{prefix}-.*")
        await members.settled(member, partitions=1)
        created = asyncio.Event()

        async def deleted(kind: str, partitions: set[TopicPartition]) -> None:
            if kind == "assigned":
                await created.wait()  # the creation waits for leaders, which a deletion would take from it
                await _delete(cluster, min(partitions).topic)

        member.heard.before = deleted
        _ = await new_topic(cluster, 4, prefix)
        created.set()
        await eventually(lambda: len(member.owned) == 5, what="it got the topic")
        await members.settled(member, partitions=1)
        assert {name.topic for name in member.owned} == {stays}
        await _read_on(members, stays)
