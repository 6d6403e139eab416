"""A topic is read once for all requests, as seldom as its cost demands, and only where it changed
(CORRECTNESS E8)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.adapters.zookeeper.unreadable import UnreadableLog
from strandline.broker.metadata.topic_cache import AGE_S_MAX, READING_SHARE_MAX, TopicCache
from strandline.broker.metadata.topic_reader import TopicReader
from strandline.errors import LeaderNotAvailable, UnknownTopicOrPartition
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch, TopicId, TopicPartition
from strandline.ports import ConnectionLost, NoNode, Znode
from strandline.vocabulary.metadata import Endpoint, IsrMember, PartitionState, Registration
from tests.waiting import DEADLINE_S, eventually

AGE_S = 0.5
PARTITIONS = 3


class Clock:
    """Stands still until a test moves it."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return int(self.now * 1000)

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here sleeps")


class Tree:
    """The znodes of topic `t`, what was read of them, and how long a read takes."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.nodes: dict[str, bytes] = {}
        self.written: dict[tuple[str, bytes], int] = {}
        """The transaction that wrote this data of a znode."""
        self.reads: Counter[str] = Counter()
        self.away = False
        self.read_s = 0.0
        self.on_read: Callable[[], None] = lambda: None
        self.gate = asyncio.Event()
        self.gate.set()
        self.registered: dict[BrokerId, BrokerEpoch] = {BrokerId(1): BrokerEpoch(5)}
        """The brokers in ZooKeeper; the broker learns of a change when a test calls `hear`."""
        self.brokers = {znodes.broker(number): BrokerId(number) for number in (1, 2)}
        self.registrations_read: list[BrokerId] = []
        self.live: dict[BrokerId, Registration] = {}
        self.hear()
        self.reader = TopicReader(self.get, lambda: self.live, UnreadableLog())
        self.cache = TopicCache(lambda: self.live, AGE_S, self.clock)
        self.make("a", PARTITIONS)

    def make(self, incarnation: str, partitions: int) -> None:
        node = znodes.TopicNode(TopicId(incarnation * 32), partitions, {})
        self.nodes = {znodes.topic("t"): znodes.dump_topic(node)}
        for number in range(partitions):
            self.nodes[znodes.replicas("t", number)] = znodes.dump_replicas([BrokerId(1), BrokerId(2)])
            self.elect(number, 1)

    def elect(self, partition: int, epoch: int) -> None:
        state = PartitionState(BrokerId(1), LeaderEpoch(epoch), (IsrMember(BrokerId(1), BrokerEpoch(5)),))
        self.nodes[znodes.isr("t", partition)] = isr_znodes.dump_isr(state)

    async def get(self, path: str) -> Znode:
        if path in self.brokers:
            return self.registration(self.brokers[path])
        self.reads[path] += 1
        await self.gate.wait()
        self.clock.now += self.read_s
        self.on_read()
        if self.away:
            raise ConnectionLost("away")
        if path not in self.nodes:
            raise NoNode(path)
        data = self.nodes[path]
        return Znode(data, 0, 0, self.written.setdefault((path, data), len(self.written)), 0)

    def registration(self, broker: BrokerId) -> Znode:
        self.registrations_read.append(broker)
        if self.away:
            raise ConnectionLost("away")
        if broker not in self.registered:
            raise NoNode(znodes.broker(broker))
        life = self.registered[broker]
        return Znode(b"", 0, life, life, 1)

    def hear(self) -> None:
        self.live = {b: Registration(Endpoint(b, "h", 1), life) for b, life in self.registered.items()}

    async def leaders(self) -> list[tuple[int, int]]:
        return [
            (each.leader, each.leader_epoch) for each in (await self.cache.topic("t", self.reader)).partitions
        ]

    async def epochs(self) -> list[int]:
        return [each.leader_epoch for each in (await self.cache.topic("t", self.reader)).partitions]

    @property
    def isr_reads(self) -> list[int]:
        return [self.reads[znodes.isr("t", number)] for number in range(PARTITIONS)]


@pytest.fixture
async def tree() -> AsyncIterator[Tree]:
    yield Tree()


async def test_concurrent_callers_share_one_reading(tree: Tree) -> None:
    tree.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(tree.epochs()) for _ in range(20)]
        await eventually(lambda: tree.reads[znodes.topic("t")] == 1)
        tree.gate.set()
    assert [each.result() for each in asked] == [[1, 1, 1]] * 20
    assert tree.isr_reads == [1, 1, 1]


async def test_a_cancelled_reader_leaves_the_reading_to_those_that_wait_for_it(tree: Tree) -> None:
    tree.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(tree.epochs())
        await eventually(lambda: tree.reads[znodes.topic("t")] == 1)
        second = tasks.create_task(tree.epochs())
        await asyncio.sleep(0)
        first.cancel()
        await eventually(lambda: tree.reads[znodes.topic("t")] == 2)
        tree.gate.set()
    assert first.cancelled() and second.result() == [1, 1, 1]


async def test_what_is_fresh_needs_no_reading(tree: Tree) -> None:
    assert tree.cache.fresh("t") is None
    read = await tree.cache.topic("t", tree.reader)
    assert tree.cache.fresh("t") == read
    tree.cache.outdated(TopicPartition("t", 1))
    assert tree.cache.fresh("t") is None
    tree.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        again = tasks.create_task(tree.cache.topic("t", tree.reader))
        await eventually(lambda: tree.isr_reads == [1, 2, 1])
        assert tree.cache.fresh("t") is None
        tree.gate.set()
    assert tree.cache.fresh("t") == again.result()
    tree.clock.now += AGE_S
    assert tree.cache.fresh("t") is None


async def test_a_recent_reading_is_reused(tree: Tree) -> None:
    assert await tree.epochs() == [1, 1, 1]
    tree.elect(1, 7)
    tree.clock.now += AGE_S * 0.9
    assert await tree.epochs() == [1, 1, 1]
    tree.clock.now += AGE_S * 0.2
    assert await tree.epochs() == [1, 7, 1]


async def test_a_reading_decodes_only_what_was_written_since_the_last_one(tree: Tree) -> None:
    """Half of the time of a reading of 3,000 partitions was that of decoding the same bytes again."""
    first = (await tree.cache.topic("t", tree.reader)).partitions
    tree.elect(1, 7)
    tree.nodes[znodes.replicas("t", 2)] = znodes.dump_replicas([BrokerId(2), BrokerId(1)])
    tree.clock.now += AGE_S
    again = (await tree.cache.topic("t", tree.reader)).partitions
    assert [new.replicas is old.replicas for new, old in zip(again, first, strict=True)] == [
        True,
        True,
        False,
    ]
    assert [(each.leader_epoch, each.replicas) for each in again] == [(1, (1, 2)), (7, (1, 2)), (1, (2, 1))]


async def test_only_outdated_partitions_are_read_again(tree: Tree) -> None:
    """A thousand partitions that lose their leader are asked about a thousand times."""
    _ = await tree.epochs()
    tree.elect(1, 7)
    tree.elect(2, 8)
    tree.cache.outdated(TopicPartition("t", 1))
    assert await tree.epochs() == [1, 7, 1]
    assert tree.isr_reads == [1, 2, 1]


async def test_the_replicas_of_an_outdated_partition_are_read_again_only_if_its_isr_goes_beyond_them(
    tree: Tree,
) -> None:
    """Clients wait for leaders, of which AR says nothing; but no answer names a leader that is no replica."""
    _ = await tree.epochs()
    first = znodes.replicas("t", 0)
    tree.elect(0, 7)
    tree.cache.outdated(TopicPartition("t", 0))
    assert await tree.epochs() == [7, 1, 1]
    assert tree.reads[first] == 1
    tree.nodes[first] = znodes.dump_replicas([BrokerId(1), BrokerId(3)])
    members = tuple(IsrMember(BrokerId(broker), BrokerEpoch(5)) for broker in (1, 3))
    state = PartitionState(BrokerId(1), LeaderEpoch(8), members)
    tree.nodes[znodes.isr("t", 0)] = isr_znodes.dump_isr(state)
    tree.cache.outdated(TopicPartition("t", 0))
    partition = (await tree.cache.topic("t", tree.reader)).partitions[0]
    assert (partition.replicas, partition.isr, partition.leader_epoch) == ((1, 3), (1, 3), 8)
    assert tree.reads[first] == 2


async def test_a_topic_outdated_during_a_reading_is_read_again_in_it(tree: Tree) -> None:
    _ = await tree.epochs()
    tree.cache.outdated(TopicPartition("t", 0))
    tree.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(tree.epochs())
        await eventually(lambda: tree.reads[znodes.topic("t")] == 2)
        tree.elect(2, 9)
        tree.cache.outdated(TopicPartition("t", 2))
        late = tasks.create_task(tree.epochs())
        await asyncio.sleep(0)
        tree.gate.set()
    assert asked.result() == late.result() == [1, 1, 9]


async def test_reads_end_even_if_the_topic_changes_all_the_time(tree: Tree) -> None:
    """As many clients ask as come: each of them says that its partition is outdated."""
    _ = await tree.epochs()
    tree.on_read = lambda: tree.cache.outdated(TopicPartition("t", 1))
    tree.cache.outdated(TopicPartition("t", 0))
    tree.elect(0, 7)
    async with asyncio.timeout(DEADLINE_S):
        assert await tree.epochs() == [7, 1, 1]


@pytest.mark.parametrize(("incarnation", "partitions"), [("a", 5), ("b", 2)], ids=["grown", "made-again"])
async def test_another_topic_than_the_one_known_is_read_as_a_whole(
    tree: Tree, incarnation: str, partitions: int
) -> None:
    _ = await tree.epochs()
    tree.make(incarnation, partitions)
    tree.cache.outdated(TopicPartition("t", 4_000))
    found = await tree.cache.topic("t", tree.reader)
    assert (found.topic_id[0], len(found.partitions)) == (incarnation, partitions)


async def test_a_topic_that_takes_long_to_read_is_cached_longer(tree: Tree) -> None:
    tree.read_s = 0.02
    began = tree.clock.now
    _ = await tree.epochs()
    took_s = tree.clock.now - began
    assert AGE_S < took_s / READING_SHARE_MAX < AGE_S_MAX
    tree.elect(0, 7)
    tree.clock.now += took_s / READING_SHARE_MAX * 0.9
    assert await tree.epochs() == [1, 1, 1]
    tree.clock.now += took_s / READING_SHARE_MAX * 0.2
    assert await tree.epochs() == [7, 1, 1]


async def test_while_zookeeper_is_away_the_last_reading_is_returned(tree: Tree) -> None:
    tree.away = True
    with pytest.raises(LeaderNotAvailable, match="'t' cannot be read"):
        await tree.epochs()
    tree.away = False
    _ = await tree.epochs()
    tree.away = True
    tree.elect(0, 7)
    tree.cache.outdated(TopicPartition("t", 0))
    assert await tree.epochs() == [1, 1, 1]
    tree.away = False
    assert await tree.epochs() == [7, 1, 1], "it is still known to be outdated"


async def test_growth_shows_at_once_where_sizes_are_compared(tree: Tree) -> None:
    """Half a second later a group's leader would have assigned the old partitions only."""
    assert await tree.epochs() == [1, 1, 1]
    tree.make("a", PARTITIONS + 1)
    assert await tree.epochs() == [1, 1, 1]
    await tree.cache.compare_size("t", tree.reader)
    assert await tree.epochs() == [1, 1, 1, 1]


async def test_growth_shows_although_a_reading_from_before_ends_after_the_comparison(tree: Tree) -> None:
    """Its result was kept, and was the answer to the request that had compared the sizes."""
    await tree.epochs()
    tree.clock.now += AGE_S

    def grow_after_the_size_was_read() -> None:
        if tree.reads[znodes.replicas("t", 0)] == 2:
            tree.on_read = lambda: None
            tree.make("a", PARTITIONS + 1)
            tree.gate.clear()

    tree.on_read = grow_after_the_size_was_read
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(tree.epochs())
        await eventually(lambda: not tree.gate.is_set())
        comparing = tasks.create_task(tree.cache.compare_size("t", tree.reader))
        await eventually(lambda: tree.reads[znodes.topic("t")] == 3)
        tree.gate.set()
        await comparing
        assert await tree.epochs() == [1, 1, 1, 1]
    assert reading.result() == [1, 1, 1]


async def test_a_topic_of_the_same_size_is_not_read_again(tree: Tree) -> None:
    await tree.epochs()
    tree.elect(0, 2)
    await tree.cache.compare_size("t", tree.reader)
    assert await tree.epochs() == [1, 1, 1]
    assert tree.isr_reads == [1, 1, 1]


@pytest.mark.parametrize("gone", [True, False])
async def test_a_topic_that_was_made_again_is_another_one_where_sizes_are_compared(
    tree: Tree, gone: bool
) -> None:
    await tree.epochs()
    tree.make("b", PARTITIONS)
    if gone:
        tree.nodes.clear()
    await tree.cache.compare_size("t", tree.reader)
    if gone:
        with pytest.raises(UnknownTopicOrPartition):
            await tree.cache.topic("t", tree.reader)
    else:
        assert (await tree.cache.topic("t", tree.reader)).topic_id == "b" * 32


async def test_an_old_reading_proves_no_partition(tree: Tree) -> None:
    """A broker refused requests for a deleted topic as if another broker led it, until it was asked for the
    topic's metadata."""
    await tree.epochs()
    there = [tree.cache.has(TopicPartition("t", number)) for number in (-1, 0, PARTITIONS - 1, PARTITIONS)]
    assert there == [False, True, True, False]
    tree.clock.now += AGE_S + AGE_S_MAX
    assert not tree.cache.has(TopicPartition("t", 0))


async def test_a_topic_that_is_gone_is_forgotten(tree: Tree) -> None:
    _ = await tree.epochs()
    assert tree.cache.names == ["t"]
    tree.nodes.clear()
    tree.cache.outdated(TopicPartition("t", 0))
    with pytest.raises(UnknownTopicOrPartition, match="'t'"):
        await tree.epochs()
    assert tree.cache.names == []


async def test_a_leader_of_record_whose_registration_is_gone_leads_nothing(tree: Tree) -> None:
    """It leads in the life in which it was elected, or not at all: also once it is back (CORRECTNESS E4)."""
    tree.registered.clear()
    tree.hear()
    assert await tree.leaders() == [(NO_BROKER, 1)] * PARTITIONS
    assert tree.registrations_read == [1], "one look at each broker, however many partitions it led"
    tree.registered[BrokerId(1)] = BrokerEpoch(99)
    tree.hear()
    tree.clock.now += AGE_S
    assert await tree.leaders() == [(NO_BROKER, 1)] * PARTITIONS


async def test_a_death_is_noticed_at_once_and_its_partitions_are_read_again_once(tree: Tree) -> None:
    assert await tree.leaders() == [(1, 1)] * PARTITIONS
    assert tree.registrations_read == [], "a broker that is known to be alive is not looked for"
    del tree.registered[BrokerId(1)]
    tree.hear()
    assert await tree.leaders() == [(NO_BROKER, 1)] * PARTITIONS
    assert await tree.leaders() == [(NO_BROKER, 1)] * PARTITIONS
    assert tree.isr_reads == [2] * PARTITIONS


async def test_a_death_is_reported_while_zookeeper_is_away(tree: Tree) -> None:
    assert await tree.leaders() == [(1, 1)] * PARTITIONS
    del tree.registered[BrokerId(1)]
    tree.hear()
    tree.away = True
    assert await tree.leaders() == [(NO_BROKER, 1)] * PARTITIONS


async def test_a_leader_that_registered_a_moment_ago_is_named_before_this_broker_knows_it(
    tree: Tree,
) -> None:
    tree.live = {}
    assert await tree.leaders() == [(1, 1)] * PARTITIONS
    assert tree.registrations_read == [1]


@pytest.mark.parametrize("after", range(8))
@pytest.mark.parametrize("outdated", [False, True])
async def test_a_reading_is_of_one_topic_though_it_is_made_anew_meanwhile(
    tree: Tree, outdated: bool, after: int
) -> None:
    """A client that gets a leader of the new topic with the id of the old one takes both for known."""
    if outdated:
        await tree.cache.topic("t", tree.reader)
        tree.cache.outdated(TopicPartition("t", 1))
    reads = 0

    def replace_it() -> None:
        nonlocal reads
        reads += 1
        if reads == after + 1:
            tree.make("b", PARTITIONS)
            for number in range(PARTITIONS):
                tree.elect(number, 7)

    tree.on_read = replace_it
    found = await tree.cache.topic("t", tree.reader)
    epochs = {each.leader_epoch for each in found.partitions}
    assert (found.topic_id[0], epochs) in (("a", {1}), ("b", {7}))
