"""Consumers share a group, with real brokers: their partitions, commits and closes, and repeated records
(docs/use/groups.md)."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from strandline import RebalanceListener, TopicPartition
from strandline.adapters.codecs.groups import FIND_COORDINATOR
from strandline.consumer.core.member_states import State
from strandline.errors import CoordinatorNotAvailable, InvalidRequest
from strandline.ids import OFFSETS_TOPIC
from strandline.testing import MemoryCluster
from tests.integration.groups.support.group_members import (
    GROUP_SETTINGS,
    SETTLE_S,
    Members,
    Participant,
    RebalanceLog,
    loading,
    new_group,
    new_topic,
    write,
)
from tests.integration.groups.support.group_rpcs import GroupRpcs
from tests.waiting import eventually

WAIT_MS = 10_000
EARLY_S = 2.0
"""Less than a departure waits for a rebalance to end."""

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


@pytest.mark.slow
async def test_members_of_both_protocols_come_and_go_at_random_and_each_record_is_read_once(
    cluster: MemoryCluster,
) -> None:
    """(G4, G6) closes and joins in the middle of rebalances, commits that cross them: nothing is read twice,
    nothing is lost, no error is raised. The seed is fixed, what the cluster makes of it is not."""
    random, protocols = Random(7), ("eager", "cooperative")
    topic = await new_topic(cluster, 6)
    async with loading(cluster, {topic: 6}) as load, Members(cluster, [topic]) as members:
        live = [await members.join(rebalance_protocol=protocols[0])]
        for _ in range(25):
            if len(live) < 2 or (len(live) < 5 and random.random() < 0.5):
                live.append(await members.join(rebalance_protocol=random.choice(protocols)))
            else:
                await members.leave(live.pop(random.randrange(len(live))))
            wanted = sum(members.seen().values()) + random.choice([0, 0, 10, 100])
            await _read_in_all(members, wanted)
        await load.finish()
        written = set(load.acked)
        await eventually(lambda: written <= set(members.seen()), deadline_s=SETTLE_S, what="all is read")
        assert set(members.seen().values()) == {1}
        assert all("lost" not in member.heard.kinds() for member in members.all)
        assert [member.errors for member in members.all] == [[] for _ in members.all]


async def _read_in_all(members: Members, wanted: int) -> None:
    def read() -> bool:
        return sum(len(member.records) for member in members.all) >= wanted

    await eventually(read, deadline_s=SETTLE_S, what="reading continues")


# --- in the middle of a rebalance -----------------------------------------------------------------


class HeldUp:
    """A rebalance that waits for the `on_revoked` of its second member, until `go_on`."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self.go_on = asyncio.Event()

    async def begin(self, partitions: int) -> tuple[Participant, Participant, Participant]:
        first, second = await self.members.join(), await self.members.join()
        await self.members.settled(first, second, partitions=partitions)
        holding = asyncio.Event()

        async def hold_up(kind: str, gone: set[TopicPartition]) -> None:
            if kind == "revoked":
                holding.set()
                await self.go_on.wait()

        second.heard.before = hold_up
        third = await self.members.join()
        await holding.wait()
        return first, second, third


async def test_kept_partitions_continue_while_a_cooperative_group_rebalances(cluster: MemoryCluster) -> None:
    """(G9) records of kept partitions are handed out in the middle of a rebalance that another member
    delays."""
    topic = await new_topic(cluster, 6)
    async with Members(cluster, [topic], rebalance_protocol="cooperative") as members:
        held_up = HeldUp(members)
        first, second, third = await held_up.begin(6)
        assert not third.owned
        kept = min(first.consumer.assignment() & first.owned)
        before = len(first.records)
        await write(cluster, topic, kept.partition, 20)
        await eventually(lambda: len(first.records) >= before + 20, what="a kept partition is read on")
        assert not third.owned, "the rebalance is held up, so no member can have got a partition"
        held_up.go_on.set()
        await members.settled(first, second, third, partitions=6)


@pytest.mark.slow
async def test_a_close_in_a_rebalance_commits_at_once(cluster: MemoryCluster) -> None:
    """The coordinator takes commits until the next generation is there: what is processed need not wait for
    a rebalance that others hold up, and so cannot come too late (G1)."""
    topic = await new_topic(cluster, 6)
    settings = {"rebalance_protocol": "cooperative", "auto_commit_interval_ms": 60_000}
    async with Members(cluster, [topic], **settings) as members:
        held_up = HeldUp(members)
        first, _, _ = await held_up.begin(6)
        kept = min(first.consumer.assignment() & first.owned)
        await write(cluster, topic, kept.partition, 5)
        await eventually(lambda: len(first.records) == 5, what="a kept partition is read on")
        group = first.consumer._group
        assert group is not None
        await eventually(lambda: group._member.core.state is State.JOINING, what="it waits for the others")
        first.stop()

        async def committed() -> bool:
            return (await offsets(cluster, members.group)).get(kept) == 5

        await eventually(committed, deadline_s=EARLY_S, what="it is committed in the middle of the rebalance")
        held_up.go_on.set()
        await members.leave(first)
        assert "lost" not in first.heard.kinds() and first.owned == set()


@pytest.mark.slow
async def test_an_unsubscription_in_a_rebalance_is_orderly(cluster: MemoryCluster) -> None:
    """From that call on nothing is handed out, and nothing is read twice: the release waits for the
    rebalance, in whose middle nothing may be committed (G1)."""
    topic = await new_topic(cluster, 6)
    async with Members(cluster, [topic], rebalance_protocol="cooperative") as members:
        held_up = HeldUp(members)
        first, second, third = await held_up.begin(6)
        for partition in range(6):
            await write(cluster, topic, partition)
        await eventually(lambda: first.records, what="kept partitions are read on")
        first.consumer.unsubscribe()
        before = len(first.records)
        for partition in range(6):
            await write(cluster, topic, partition)
        held_up.go_on.set()
        await members.settled(second, third, partitions=6)
        await eventually(lambda: len(members.seen()) == 12, what="all is read")
        assert set(members.seen().values()) == {1} and len(first.records) == before
        assert "lost" not in first.heard.kinds()


# --- the listener ---------------------------------------------------------------------------------


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

    async with cluster.consumer(group_id=new_group(), **GROUP_SETTINGS) as consumer:
        consumer.subscribe([topic], listener=Seeks())
        assert [(await consumer.getone()).offset for _ in range(2)] == [4, 5]
    assert stood == [0]


@pytest.mark.parametrize("call", ["stop", "getone", "getmany", "getbatches"])
async def test_a_listener_cannot_call_what_waits_for_its_end(cluster: MemoryCluster, call: str) -> None:
    """It would wait for itself: the call raises, also in a task that the listener waits for; everything
    continues."""
    topic = await new_topic(cluster, 1)
    await write(cluster, topic, 0, 1)

    class Calls(RebalanceListener):
        async def on_assigned(self, added: set[TopicPartition]) -> None:
            with pytest.raises(InvalidRequest, match="a listener cannot"):
                await getattr(consumer, call)()
            await asyncio.wait_for(getattr(consumer, call)(), 60)

    async with cluster.consumer(group_id=new_group(), **GROUP_SETTINGS) as consumer:
        consumer.subscribe([topic], listener=Calls())
        with pytest.raises(InvalidRequest, match="a listener cannot"):
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


async def test_from_a_subscription_to_assigned_partitions(cluster: MemoryCluster) -> None:
    """The assignment waits until the subscribed partitions are released, and continues after the processed
    records; the last call counts."""
    topic = await new_topic(cluster, 2)
    name = TopicPartition(topic, 0)
    await write(cluster, topic, 0, 4)
    group, heard = new_group(), RebalanceLog()
    async with cluster.consumer(group_id=group, **GROUP_SETTINGS) as consumer:
        consumer.subscribe([topic], listener=heard)
        assert [(await consumer.getone()).offset for _ in range(2)] == [0, 1]
        with pytest.raises(InvalidRequest, match="is subscribed"):
            consumer.assign([name])
        consumer.unsubscribe()
        consumer.assign([TopicPartition(topic, 1)])
        consumer.assign([name])
        assert (await consumer.getone()).offset == 2
        assert consumer.assignment() == {name} and heard.kinds() == ["assigned", "revoked"]
        await consumer.commit()
        assert await offsets(cluster, group) == {name: 3, TopicPartition(topic, 1): 0}
        consumer.unsubscribe()
        assert consumer.assignment() == set()
        consumer.subscribe([topic], listener=heard)
        assert (await consumer.getone()).offset == 3
        consumer.unsubscribe()
        consumer.assign([name])
        consumer.subscribe([topic], listener=heard)
        assert await consumer.getmany() == {}
        await eventually(lambda: len(heard.owned()) == 2, what="it is subscribed once more")
        assert consumer.assignment() == heard.owned()


# --- commits --------------------------------------------------------------------------------------


async def offsets(cluster: MemoryCluster, group: str) -> dict[TopicPartition, int]:
    """The committed offsets of the group."""
    async with cluster.admin() as admin:
        return {name: entry.offset for name, entry in (await admin.group_offsets(group)).items()}


async def test_processed_records_are_committed_from_time_to_time(cluster: MemoryCluster) -> None:
    topic, group = await new_topic(cluster, 1), new_group()
    name = TopicPartition(topic, 0)
    await write(cluster, topic, 0, 3)
    async with cluster.consumer(group_id=group, **GROUP_SETTINGS) as consumer:
        consumer.subscribe([topic])
        for _ in range(3):
            _ = await consumer.getone()

        async def committed(offset: int) -> bool:
            return await offsets(cluster, group) == {name: offset}

        await eventually(lambda: committed(2), what="the first two are committed, the third is in hand")
        assert await consumer.getmany() == {}
        await eventually(lambda: committed(3), what="the third is committed too")


async def test_commits_by_hand(cluster: MemoryCluster) -> None:
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
    async with cluster.consumer(group_id=group, **settings) as consumer:
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
        with pytest.raises(InvalidRequest, match="= -1: give"):
            await consumer.commit({names[0]: -1})
    async with cluster.consumer(group_id=group, **settings) as consumer:
        offsets = [await consumer.committed(name) for name in names]
        assert [committed and committed.offset for committed in offsets] == [5, 5]


# --- the topic of the offsets ---------------------------------------------------------------------


async def test_the_first_requests_create_the_topic_once() -> None:
    """Replicated and compacted; all brokers name the same coordinator."""
    settings = {"offsets_topic_partitions": 3}
    async with MemoryCluster(brokers=3, broker_settings=settings) as cluster, GroupRpcs(cluster) as rpcs:
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(rpcs.coordinator("somebody")) for _ in range(20)]
        found = {task.result() for task in asked}

        async def all_name_it() -> bool:
            """A broker learns of the new topic's leader a moment later."""
            for broker in cluster.broker_ids:
                try:
                    found.add(await rpcs.at(broker, FIND_COORDINATOR, "somebody"))
                except CoordinatorNotAvailable:
                    return False
            return True

        await eventually(all_name_it)
        (coordinator,) = found
        async with cluster.admin() as admin:
            (topic,) = await admin.describe_topics([OFFSETS_TOPIC])
        assert topic.config["cleanup.policy"] == "compact"
        assert [len(p.replicas) for p in topic.partitions] == [3, 3, 3]
        assert coordinator.id == topic.partitions[rpcs.partition("somebody", 3)].leader
