"""Consumers share a group, with real brokers: who reads what, and what is read again (docs/groups.md)."""

from __future__ import annotations

import asyncio

import pytest

from strandline import (
    Admin,
    Consumer,
    ConsumerRecord,
    LocalCluster,
    Producer,
    RebalanceListener,
    TopicPartition,
)
from strandline.errors import InvalidRequest
from tests.integration.group_members import (
    GROUP_SETTINGS,
    SETTLE_S,
    Members,
    Participant,
    loading,
    new_group,
    new_topic,
)
from tests.waiting import eventually

WAIT_MS = 10_000

both_protocols = pytest.mark.parametrize("protocol", ["eager", "cooperative"])


async def write(cluster: LocalCluster, topic: str, partition: int, how_many: int) -> None:
    async with Producer(cluster.bootstrap) as producer:
        for _ in range(how_many):
            _ = await producer.send_and_wait(topic, b"v", partition=partition)


# --- coming and going -----------------------------------------------------------------------------


@both_protocols
async def test_members_come_and_go_and_each_record_is_read_once(cluster: LocalCluster, protocol: str) -> None:
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
        await eventually(lambda: second.records and third.records, what="everybody reads")
        await members.leave(second)
        await members.settled(first, third, partitions=6)
        await members.leave(third)
        await members.settled(first, partitions=6)
        await load.finish()
        written = len(load.acked)
        await eventually(lambda: sum(members.seen().values()) >= written, what="everything is read")
        assert members.seen() == dict.fromkeys(load.acked, 1)
        assert [member.errors for member in members.all] == [[], [], []]


async def test_cooperative_members_are_told_only_of_what_moves(cluster: LocalCluster) -> None:
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


async def test_eager_members_give_everything_up_first(cluster: LocalCluster) -> None:
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


async def test_kept_partitions_go_on_while_a_cooperative_group_rebalances(cluster: LocalCluster) -> None:
    """G9: records of kept partitions are handed out in the middle of a rebalance that somebody holds up."""
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
        assert not third.owned, "the rebalance is held up, so nobody can have got anything"
        go_on.set()
        await members.settled(first, second, third, partitions=6)


async def test_a_close_calls_the_listener_for_everything_and_hands_over_at_once(
    cluster: LocalCluster,
) -> None:
    """Everything is revoked in order, committed, and the group told, long before a session would expire."""
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


# --- what is committed ----------------------------------------------------------------------------


async def test_what_is_in_hand_is_not_committed(cluster: LocalCluster) -> None:
    """At least once: records whose handling failed are read again, those before them are not."""
    topic = await new_topic(cluster, 1)
    name = TopicPartition(topic, 0)
    group = new_group()
    await write(cluster, topic, 0, 10)
    with pytest.raises(RuntimeError, match="the handler failed"):
        async with Consumer(cluster.bootstrap, group_id=group, **GROUP_SETTINGS) as consumer:
            consumer.subscribe([topic])
            async for record in consumer:
                if record.offset == 4:
                    raise RuntimeError("the handler failed")
    async with Consumer(cluster.bootstrap, group_id=group, **GROUP_SETTINGS) as consumer:
        consumer.subscribe([topic])
        again = await consumer.getone()
        assert again.offset == 4
        # This one ends in peace: what was handed out is done.
    async with Consumer(cluster.bootstrap, group_id=group, **GROUP_SETTINGS) as consumer:
        committed = await consumer.committed(name)
        assert committed is not None and committed.offset == 5


async def test_processed_records_are_committed_from_time_to_time(cluster: LocalCluster) -> None:
    topic = await new_topic(cluster, 1)
    name = TopicPartition(topic, 0)
    await write(cluster, topic, 0, 3)
    async with Consumer(cluster.bootstrap, group_id=new_group(), **GROUP_SETTINGS) as consumer:
        consumer.subscribe([topic])
        for _ in range(3):
            _ = await consumer.getone()

        async def committed() -> int:
            found = await consumer.committed(name)
            return -1 if found is None else found.offset

        await eventually(lambda: _is(committed, 2), what="the first two are committed, the third is in hand")
        assert await consumer.getmany() == {}
        await eventually(lambda: _is(committed, 3), what="the third is committed too")


async def _is(committed: object, offset: int) -> bool:
    assert callable(committed)
    return bool(await committed() == offset)


async def test_a_partition_that_moves_waits_for_the_records_in_hand(cluster: LocalCluster) -> None:
    """Revoke = drain, commit, release: the next owner begins after the record that was being handled."""
    topic = await new_topic(cluster, 2)
    async with Members(cluster, [topic], rebalance_protocol="cooperative") as members:
        first = await members.join()
        await members.settled(first, partitions=2)
        handling, go_on = asyncio.Event(), asyncio.Event()

        async def slowly(record: ConsumerRecord) -> None:
            handling.set()
            await go_on.wait()

        first.handle = slowly
        async with Producer(cluster.bootstrap) as producer:
            for partition in (0, 1):
                _ = await producer.send_and_wait(topic, b"v", partition=partition)
            await handling.wait()
            second = await members.join()
            await eventually(lambda: second.generation >= 0, what="the second has joined")
            assert second.owned == set() and first.heard.kinds() == ["assigned"]
            go_on.set()
            await members.settled(first, second, partitions=2)
            for partition in (0, 1):
                _ = await producer.send_and_wait(topic, b"v", partition=partition)
        await eventually(lambda: sum(members.seen().values()) >= 4, what="all four are read")
        assert set(members.seen().values()) == {1}


async def test_commits_by_hand(cluster: LocalCluster) -> None:
    """Offsets and metadata come back as committed; a commit in `on_revoked` is in time (G11)."""
    topic = await new_topic(cluster, 2)
    names = [TopicPartition(topic, number) for number in range(2)]
    group = new_group()

    class Commits(RebalanceListener):
        async def on_revoked(self, removed: set[TopicPartition]) -> None:
            await consumer.commit()

    for partition in (0, 1):
        await write(cluster, topic, partition, 5)
    settings = {**GROUP_SETTINGS, "enable_auto_commit": False}
    async with Consumer(cluster.bootstrap, group_id=group, **settings) as consumer:
        assert await consumer.committed(names[0]) is None
        consumer.subscribe([topic], listener=Commits())
        read = 0
        while read < 10:
            read += sum(map(len, (await consumer.getmany(timeout_ms=WAIT_MS)).values()))
        await consumer.commit({names[0]: 2, names[1]: (3, "so far")})
        first, second = [await consumer.committed(name) for name in names]
        assert first is not None and (first.offset, first.metadata) == (2, "")
        assert second is not None and (second.offset, second.metadata) == (3, "so far")
        stranger = TopicPartition(topic, 7)
        with pytest.raises(InvalidRequest, match=f"{topic}-7"):
            await consumer.commit({names[0]: 4, stranger: 1})
        with pytest.raises(InvalidRequest, match="offset -1"):
            await consumer.commit({names[0]: -1})
    async with Consumer(cluster.bootstrap, group_id=group, **settings) as consumer:
        offsets = [await consumer.committed(name) for name in names]
        assert [committed and committed.offset for committed in offsets] == [5, 5]


async def test_assigned_by_hand_a_consumer_commits_to_its_group(cluster: LocalCluster) -> None:
    """From outside the group protocol, as long as nobody subscribes; and it goes on where it stood."""
    topic = await new_topic(cluster, 2)
    name = TopicPartition(topic, 1)
    group = new_group()
    await write(cluster, topic, 1, 4)
    async with Consumer(cluster.bootstrap, group_id=group, **GROUP_SETTINGS) as consumer:
        consumer.assign([name])
        assert [(await consumer.getone()).offset for _ in range(2)] == [0, 1]
        await consumer.commit()
        with pytest.raises(InvalidRequest, match="assigned by hand"):
            consumer.subscribe([topic])
        with pytest.raises(InvalidRequest, match=f"{topic}-0"):
            await consumer.commit({TopicPartition(topic, 0): 0})
    async with Consumer(cluster.bootstrap, group_id=group, **GROUP_SETTINGS) as consumer:
        consumer.assign([name])
        assert (await consumer.getone()).offset == 2
        consumer.assign([])
        consumer.subscribe([topic])
        with pytest.raises(InvalidRequest, match="subscribed"):
            consumer.assign([name])
        assert consumer.subscription() == {topic}


async def test_without_a_group_there_is_nothing_to_subscribe_in(cluster: LocalCluster) -> None:
    async with Consumer(cluster.bootstrap) as consumer:
        for refused in (lambda: consumer.subscribe(["t"]), consumer.group_metadata, consumer.unsubscribe):
            with pytest.raises(InvalidRequest, match="group_id"):
                refused()
        with pytest.raises(InvalidRequest, match="group_id"):
            await consumer.commit()
    async with Consumer(cluster.bootstrap, group_id=new_group()) as consumer:
        for topics, pattern in (([], None), (None, None), (["t"], "t.*"), ("t", None)):
            with pytest.raises(InvalidRequest):
                consumer.subscribe(topics, pattern=pattern)


# --- the listener ---------------------------------------------------------------------------------


@both_protocols
async def test_a_listener_that_fails_skips_nothing(cluster: LocalCluster, protocol: str) -> None:
    """G10: what it raises is raised by the next get call; the rebalance goes on as if nothing happened."""
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
        told = [str(error) for error in first.errors]
        assert told == [f"{kind} failed" for kind, partitions in first.heard.events]


async def test_a_seek_in_on_assigned_counts(cluster: LocalCluster) -> None:
    """Fetching begins after on_assigned returned, from where it says."""
    topic = await new_topic(cluster, 1)
    await write(cluster, topic, 0, 6)

    class Seeks(RebalanceListener):
        def on_assigned(self, added: set[TopicPartition]) -> None:
            for name in added:
                consumer.seek(name, 4)

    async with Consumer(cluster.bootstrap, group_id=new_group(), **GROUP_SETTINGS) as consumer:
        consumer.subscribe([topic], listener=Seeks())
        assert [(await consumer.getone()).offset for _ in range(2)] == [4, 5]


# --- the subscription -----------------------------------------------------------------------------


async def test_another_subscription_takes_the_place_of_the_first(cluster: LocalCluster) -> None:
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
async def test_a_pattern_finds_topics_that_come(cluster: LocalCluster, protocol: str) -> None:
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


async def test_a_topic_that_is_subscribed_to_may_come_later(cluster: LocalCluster) -> None:
    late = f"late-{new_group()}"
    async with Members(cluster, [late]) as members:
        member = await members.join()
        await eventually(lambda: member.generation >= 0, what="it has joined for nothing yet")
        async with Admin(cluster.bootstrap) as admin:
            await admin.create_topic(late, 2, replication_factor=3)
        await members.settled(member, partitions=2)


@both_protocols
async def test_a_deleted_topic_goes_from_a_group_subscribed_by_pattern(
    cluster: LocalCluster, protocol: str
) -> None:
    """Its partitions are revoked, and nobody fails for it."""
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


async def test_a_deleted_topic_goes_from_an_eager_group(cluster: LocalCluster) -> None:
    stays, goes = await new_topic(cluster, 2), await new_topic(cluster, 2)
    async with Members(cluster, [stays, goes], rebalance_protocol="eager") as members:
        one, two = await members.join(), await members.join()
        await members.settled(one, two, partitions=4)
        await _delete(cluster, goes)
        await members.settled(one, two, partitions=2)
        await _read_on(members, stays)


async def test_a_deleted_topic_that_is_named_is_given_back(cluster: LocalCluster) -> None:
    """KIP-429, unknown partitions: whoever claims them has them, so a topic made anew is read at once."""
    stays, goes = await new_topic(cluster, 2), await new_topic(cluster, 2)
    async with Members(cluster, [stays, goes], rebalance_protocol="cooperative") as members:
        one, two = await members.join(), await members.join()
        await members.settled(one, two, partitions=4)
        generation = one.generation
        await _delete(cluster, goes)
        await eventually(lambda: one.generation > generation, what="the leader has noticed")
        await members.settled(one, two, partitions=4)
        await _read_on(members, stays)
        async with Admin(cluster.bootstrap) as admin:
            await admin.create_topic(goes, 2, replication_factor=3)
        await _read_on(members, goes)
        assert one.heard.kinds() + two.heard.kinds() == ["assigned"] * 2


async def _delete(cluster: LocalCluster, topic: str) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.delete_topics([topic])


async def _read_on(members: Members, topic: str) -> None:
    """Nobody has failed, and what is written now arrives."""
    before = sum(members.seen().values())
    await write(members.cluster, topic, 0, 5)
    await eventually(
        lambda: sum(members.seen().values()) == before + 5, deadline_s=SETTLE_S, what=f"{topic} is read on"
    )
    assert [member.errors for member in members.all] == [[] for _ in members.all]
