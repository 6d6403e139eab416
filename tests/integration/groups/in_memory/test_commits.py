"""A group's offsets, and the end of its members (docs/use/groups.md)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count

import pytest

from strandline import (
    Consumer,
    ConsumerRecord,
    RebalanceListener,
    TopicPartition,
)
from strandline.errors import InvalidGroupId, InvalidRequest, InvalidSessionTimeout, SettingsError
from strandline.testing import MemoryCluster
from tests.integration.groups.support.group_members import (
    GROUP_SETTINGS,
    SETTLE_S,
    Members,
    RebalanceLog,
    loading,
    new_group,
    new_topic,
    write,
)
from tests.waiting import eventually

WAIT_MS = 10_000
PARTITIONS = 4
COMMIT_S_MAX = 10.0
"""For a commit in a rebalance: far less than `api_timeout_ms`."""


# --- what is committed ----------------------------------------------------------------------------


async def test_records_being_processed_are_not_committed(cluster: MemoryCluster) -> None:
    """At least once: records whose handling failed are read again, those before them are not."""
    topic = await new_topic(cluster, 1)
    name = TopicPartition(topic, 0)
    group = new_group()
    await write(cluster, topic, 0, 10)
    with pytest.raises(RuntimeError, match="the handler failed"):
        async with Consumer(
            cluster.bootstrap, host=cluster.host, group_id=group, **GROUP_SETTINGS
        ) as consumer:
            consumer.subscribe([topic])
            async for record in consumer:
                if record.offset == 4:
                    raise RuntimeError("the handler failed")
    async with cluster.consumer(group_id=group, **GROUP_SETTINGS) as consumer:
        consumer.subscribe([topic])
        again = await consumer.getone()
        assert again.offset == 4
        # This one ends in peace: what was handed out is done.
    async with cluster.consumer(group_id=group, **GROUP_SETTINGS) as consumer:
        committed = await consumer.committed(name)
        assert committed is not None and committed.offset == 5


async def test_processed_records_are_committed_from_time_to_time(cluster: MemoryCluster) -> None:
    topic = await new_topic(cluster, 1)
    name = TopicPartition(topic, 0)
    await write(cluster, topic, 0, 3)
    async with Consumer(
        cluster.bootstrap, host=cluster.host, group_id=new_group(), **GROUP_SETTINGS
    ) as consumer:
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


async def test_a_partition_that_moves_waits_for_the_records_in_hand(cluster: MemoryCluster) -> None:
    """Revoke = drain, commit, release: the next owner begins after the record that was being handled."""
    topic = await new_topic(cluster, 2)
    async with Members(cluster, [topic], rebalance_protocol="cooperative") as members:
        first = await members.join()
        await members.settled(first, partitions=2)
        handling, go_on, moves = asyncio.Event(), asyncio.Event(), 1

        async def slowly(record: ConsumerRecord) -> None:
            handling.set()
            await go_on.wait()

        first.handle = slowly
        async with cluster.producer() as producer:
            _ = await producer.send_and_wait(topic, b"v", partition=moves)
            await handling.wait()
            second = await members.join()
            await eventually(lambda: second.generation >= 0, what="the second has joined")
            assert second.owned == set() and first.heard.kinds() == ["assigned"]
            go_on.set()
            await members.settled(first, second, partitions=2)
            assert second.owned == {TopicPartition(topic, moves)}
            for partition in (0, 1):
                _ = await producer.send_and_wait(topic, b"v", partition=partition)
        await eventually(lambda: sum(members.seen().values()) >= 3, what="all three are read")
        assert set(members.seen().values()) == {1}


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


async def test_a_consumer_with_assigned_partitions_commits_to_its_group(cluster: MemoryCluster) -> None:
    """From outside the group protocol, as long as no consumer subscribes; and it continues at its offsets."""
    topic = await new_topic(cluster, 2)
    name = TopicPartition(topic, 1)
    group = new_group()
    await write(cluster, topic, 1, 4)
    async with cluster.consumer(group_id=group, **GROUP_SETTINGS) as consumer:
        consumer.assign([name])
        assert [(await consumer.getone()).offset for _ in range(2)] == [0, 1]
        await consumer.commit()
        with pytest.raises(InvalidRequest, match="assigned by hand"):
            consumer.subscribe([topic])
        with pytest.raises(InvalidRequest, match=f"{topic}-0"):
            await consumer.commit({TopicPartition(topic, 0): 0})
    async with cluster.consumer(group_id=group, **GROUP_SETTINGS) as consumer:
        consumer.assign([name])
        assert (await consumer.getone()).offset == 2
        consumer.assign([])
        consumer.subscribe([topic])
        with pytest.raises(InvalidRequest, match="subscribed"):
            consumer.assign([name])
        assert consumer.subscription() == {topic}


async def test_without_a_group_there_is_nothing_to_subscribe_in(cluster: MemoryCluster) -> None:
    async with cluster.consumer() as consumer:
        for refused in (lambda: consumer.subscribe(["t"]), consumer.group_metadata, consumer.unsubscribe):
            with pytest.raises(InvalidRequest, match="group_id"):
                refused()
        with pytest.raises(InvalidRequest, match="group_id"):
            await consumer.commit()
    async with cluster.consumer(group_id=new_group()) as consumer:
        for topics, pattern in (([], None), (None, None), (["t"], "t.*"), ("t", None)):
            with pytest.raises(InvalidRequest):
                consumer.subscribe(topics, pattern=pattern)


# --- record by record, in rebalances -------------------------------------------------------------


class ByHand(RebalanceListener):
    """A member, and what it did with each record. It commits before it works on a record or after it."""

    def __init__(self, cluster: MemoryCluster, topic: str, group: str, protocol: str, *, early: bool) -> None:
        settings = {**GROUP_SETTINGS, "rebalance_protocol": protocol, "enable_auto_commit": False}
        self.consumer = cluster.consumer(group_id=group, **settings)
        self.topic = topic
        self.early = early
        self.handled: list[tuple[int, int]] = []
        self.at_work: tuple[int, int] | None = None
        self.broken: list[str] = []
        self.stop = asyncio.Event()
        self.owned: set[int] = set()

    def on_assigned(self, added: set[TopicPartition]) -> None:
        self.owned |= {each.partition for each in added}

    def on_revoked(self, removed: set[TopicPartition]) -> None:
        self.owned -= {each.partition for each in removed}
        if self.at_work is not None and self.at_work[0] in {each.partition for each in removed}:
            self.broken.append(f"revoked {removed} while at work on {self.at_work}")

    def on_lost(self, lost: set[TopicPartition]) -> None:
        self.broken.append(f"lost {lost}")

    async def run(self) -> None:
        async with self.consumer:
            self.consumer.subscribe([self.topic], listener=self)
            while not self.stop.is_set():
                try:
                    record = await asyncio.wait_for(self.consumer.getone(), 0.2)
                except TimeoutError:
                    continue
                self.at_work = (record.partition, record.offset)
                if self.early:
                    await self._commit()
                await eventually(_paced(), what="a handler that takes its time")
                self.handled.append(self.at_work)
                if not self.early:
                    await self._commit()
                self.at_work = None

    async def _commit(self) -> None:
        async with asyncio.timeout(COMMIT_S_MAX):
            await self.consumer.commit()


def _paced() -> Callable[[], bool]:
    """True at the third look."""
    looks = count()
    return lambda: next(looks) > 1


def _read_on(members: Sequence[ByHand]) -> Callable[[], bool]:
    """True once each has handled a few records more."""
    wanted = [len(member.handled) + 3 for member in members]
    return lambda: all(len(member.handled) >= least for member, least in zip(members, wanted, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["eager", "cooperative"])
async def test_members_that_commit_by_hand_handle_each_record_once(
    cluster: MemoryCluster, protocol: str
) -> None:
    """Nothing crashes: a partition changes hands when its handler has ended and its commit is answered, and
    no commit hangs or fails, however often the group rebalances (docs/use/groups.md)."""
    topic, group = await new_topic(cluster, PARTITIONS), new_group()
    members = [ByHand(cluster, topic, group, protocol, early=number % 2 == 0) for number in range(4)]
    async with loading(cluster, {topic: PARTITIONS}) as load, asyncio.TaskGroup() as tasks:
        running = []
        for number, member in enumerate(members, start=1):
            running.append(tasks.create_task(member.run()))
            await eventually(_read_on(members[:number]), deadline_s=SETTLE_S, what=f"{number} members read")
        members[0].stop.set()
        await running[0]
        await load.finish()
        wanted = {(partition, offset) for _, partition, offset in load.acked}

        def handled() -> Counter[tuple[int, int]]:
            return Counter(each for member in members for each in member.handled)

        await eventually(lambda: handled().keys() == wanted, deadline_s=60, what="all is handled")
        for member in members:
            member.stop.set()
    assert [member.broken for member in members] == [[]] * 4
    assert set(handled().values()) == {1}
    ends = Counter(partition for partition, _ in wanted)
    async with cluster.admin() as admin:
        stood = {name.partition: entry.offset for name, entry in (await admin.group_offsets(group)).items()}
    assert stood == ends


async def test_a_commit_in_a_rebalance_keeps_what_stays(cluster: MemoryCluster) -> None:
    """The group takes a partition while the application commits all of them: at once, and nothing is lost."""
    topic, group = await new_topic(cluster, 2), new_group()
    for partition in (0, 1):
        await write(cluster, topic, partition, 1)
    settings = {**GROUP_SETTINGS, "rebalance_protocol": "cooperative", "enable_auto_commit": False}
    async with (
        cluster.consumer(group_id=group, **settings) as first,
        cluster.consumer(group_id=group, **settings) as second,
    ):
        first.subscribe([topic])
        _ = [await first.getone() for _ in range(2)]
        assert await first.getmany() == {}
        second.subscribe([topic])
        async with asyncio.timeout(COMMIT_S_MAX):
            while len(first.assignment()) == 2:
                await first.commit()
        await eventually(lambda: len(second.assignment()) == 1, deadline_s=SETTLE_S, what="it has moved")
    async with cluster.admin() as admin:
        offsets = await admin.group_offsets(group)
    assert {name.partition: entry.offset for name, entry in offsets.items()} == {0: 1, 1: 1}


# --- the end, and bad input -----------------------------------------------------------------------


async def test_a_cancelled_application_leaves_quickly_and_in_order(cluster: MemoryCluster) -> None:
    """All callbacks, the commit of what was processed, and no waiting for what never will be."""
    topic = await new_topic(cluster, 2)
    group, heard = new_group(), RebalanceLog()
    await write(cluster, topic, 0, 3)
    handling = asyncio.Event()

    async def application() -> None:
        settings = {**GROUP_SETTINGS, "session_timeout_ms": 60_000, "auto_commit_interval_ms": 60_000}
        async with cluster.consumer(group_id=group, **settings) as consumer:
            consumer.subscribe([topic], listener=heard)
            async for record in consumer:
                if record.offset == 2:
                    handling.set()
                    await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(30) as limit:
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(application())
                await handling.wait()
                limit.reschedule(asyncio.get_running_loop().time())
                await running
    assert heard.kinds() == ["assigned", "revoked"] and heard.owned() == set()
    async with Members(cluster, [topic]) as members:
        members.group = group
        member = await members.join()
        await members.settled(member, partitions=2)
        await eventually(lambda: member.records, what="the record that was in hand is read again")
        assert [record.offset for record in member.records] == [2]


async def test_a_close_in_the_middle_of_a_drain_does_not_wait_for_it(cluster: MemoryCluster) -> None:
    topic = await new_topic(cluster, 2)
    group, heard = new_group(), RebalanceLog()
    for partition in (0, 1):
        await write(cluster, topic, partition, 1)
    async with Members(cluster, [topic], rebalance_protocol="eager") as members:
        members.group = group
        with pytest.raises(RuntimeError, match="gave up"):
            async with Consumer(
                cluster.bootstrap, host=cluster.host, group_id=group, **GROUP_SETTINGS
            ) as consumer:
                consumer.subscribe([topic], listener=heard)
                _ = await consumer.getmany(timeout_ms=WAIT_MS)
                generation = consumer.group_metadata().generation
                other = await members.join()
                await eventually(lambda: other.consumer.group_metadata().member_id, what="the other is here")
                assert consumer.group_metadata().generation == generation, "it drains, so no member continues"
                raise RuntimeError("the handler gave up")
        assert heard.kinds() == ["assigned", "revoked"]
        await eventually(lambda: len(other.records) == 2, what="what was in hand is read again")


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"group_id": "g\n"}, InvalidGroupId),
        ({"group_id": "g", "session_timeout_ms": 1, "heartbeat_interval_ms": 1}, InvalidSessionTimeout),
        ({"group_id": "g", "client_id": "c\n"}, InvalidRequest),
    ],
)
async def test_fatal_refusals_of_the_group_are_raised_by_get_calls(
    cluster: MemoryCluster, settings: dict[str, str | int], error: type[Exception]
) -> None:
    """Never a consumer that stops silently."""
    topic = await new_topic(cluster, 1)
    async with cluster.consumer(**{**GROUP_SETTINGS, **settings}) as consumer:
        consumer.subscribe([topic])
        with pytest.raises(error):
            _ = await consumer.getmany(timeout_ms=WAIT_MS)
        with pytest.raises(error):
            _ = await consumer.getone()


async def test_an_unknown_assignor_is_refused_at_once(cluster: MemoryCluster) -> None:
    with pytest.raises(SettingsError, match="'nearest'"):
        cluster.consumer(group_id="g", assignors=["nearest"])
