"""A broker's answers about leaders."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from strandline.adapters.system.clock import SystemClock
from strandline.adapters.zookeeper import znodes
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.broker.metadata.cluster_view import AWAY_S, SIZES_WAIT_S, SMALL_TOPICS_MAX, ClusterView
from strandline.config.limits import ZOOKEEPER_BULK_READS_IN_FLIGHT_MAX
from strandline.errors import InvalidTopic, LeaderNotAvailable
from strandline.ids import NO_BROKER, BrokerId, LeaderEpoch, TopicPartition
from strandline.ports import LinkState, Znode
from strandline.vocabulary.log import LeaderWait
from tests.broker.support.replicas import CLOCK, LIVE, NAME, settings
from tests.broker.support.seat import ME, seated
from tests.waiting import DEADLINE_S
from tests.znode_tree import MemorySession


class TickingClock(SystemClock):
    """Moves when it is slept on."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


@pytest.mark.parametrize("name", [f"{NAME.topic}/0/isr", "../ids", "", ".", "\x00", "a" * 250])
async def test_a_name_that_no_topic_can_have_is_no_path(tmp_path: Path, name: str) -> None:
    """Metadata of `x/0/isr` was answered with the content of a znode."""
    async with seated(tmp_path) as seat:
        view = ClusterView(seat.manager, seat.manager.settings, CLOCK)
        before = Counter(seat.coordination.reads)
        metadata, unknown = await view.describe([name, NAME.topic, NAME.topic])
        assert ([topic.name for topic in metadata.topics], unknown) == ([NAME.topic], [name])
        assert await view.partition_counts([name]) == {}
        read = seat.coordination.reads - before
        of_topic = znodes.topic(NAME.topic)
        others = [path for path in read if path != of_topic and not path.startswith(f"{of_topic}/")]
        assert others == [znodes.CONTROLLER]
        with pytest.raises(InvalidTopic):
            znodes.topic(name)


async def test_waits_beyond_the_bound_are_answered_at_once(tmp_path: Path) -> None:
    """Each held answer takes memory."""
    async with seated(tmp_path) as seat:
        view = ClusterView(seat.manager, settings(leader_waits_max=1), CLOCK)
        waits = [LeaderWait(NAME, 1_000)]
        async with asyncio.TaskGroup() as tasks:
            held = tasks.create_task(view.wait_for_leaders(waits, 60))
            await asyncio.sleep(0)
            async with asyncio.timeout(DEADLINE_S):
                await view.wait_for_leaders(waits, 60)
            assert not held.done()
            held.cancel()


async def test_a_named_successor_is_not_reported_as_the_leader_of_its_predecessors_epoch(
    tmp_path: Path,
) -> None:
    """A leader that hands over follows the one it named before that one is elected, which may be in any later
    epoch, or never: a chaos round saw two leaders in one epoch."""
    async with seated(tmp_path) as seat:
        view = ClusterView(seat.manager, seat.manager.settings, CLOCK)

        async def leader_and_epoch() -> tuple[int, int]:
            metadata, _ = await view.describe([NAME.topic])
            (topic,) = metadata.topics
            return topic.partitions[0].leader, topic.partitions[0].leader_epoch

        assert await leader_and_epoch() == (1, 5), "read, and remembered for a while"
        seat.lead(6)
        assert await leader_and_epoch() == (ME, 6)
        seat.manager.retire(seat.replica, BrokerId(3))
        assert seat.replica.leader == 3
        assert await leader_and_epoch() != (3, 6)
        seat.manager.follow(seat.replica, BrokerId(3), LeaderEpoch(7))
        assert await leader_and_epoch() == (3, 7)


async def test_a_broker_knows_without_a_reading_that_its_own_partitions_are_led(tmp_path: Path) -> None:
    """It says so only of the topic that has the id, and where an answer would name the leader too."""
    async with seated(tmp_path) as seat:
        view = ClusterView(seat.manager, seat.manager.settings, CLOCK)
        topic_id, reads = seat.replica.key.topic_id, Counter(seat.coordination.reads)

        def is_led() -> bool:
            return view.is_led(NAME, topic_id)

        seat.lead(6)
        assert is_led()
        assert not view.is_led(NAME, "f" * 32), "a topic that was created anew"
        assert not view.is_led(TopicPartition(NAME.topic, 9), topic_id), "no replica of it is here"
        seat.manager.retire(seat.replica, BrokerId(3))
        assert not is_led(), "the named successor is not elected yet"
        seat.manager.follow(seat.replica, BrokerId(3), LeaderEpoch(7))
        assert is_led()
        seat.manager.peers.live_changed({broker: LIVE[broker] for broker in LIVE if broker != 3})
        assert not is_led(), "its leader is gone"
        assert seat.coordination.reads == reads


async def test_a_leader_reports_the_replicas_that_it_leads(tmp_path: Path) -> None:
    """At the end of a reassignment, clients were answered with a new leader that was not one of the replicas:
    those had been read before, and are remembered for a while."""
    async with seated(tmp_path) as seat:
        view = ClusterView(seat.manager, seat.manager.settings, CLOCK)
        seat.lead(6)
        await view.describe([NAME.topic])
        moved = PartitionAssignment((ME, BrokerId(4)), version=1)
        seat.manager.reconfigure(seat.replica, moved, seat.replica.config)
        metadata, _ = await view.describe([NAME.topic])
        (partition,) = metadata.topics[0].partitions
        assert (partition.leader, partition.replicas) == (ME, moved.replicas)


async def test_a_partition_whose_leader_is_gone_is_reported_without_one(tmp_path: Path) -> None:
    """Clients report "has no leader" then; the leader of record has no reachable address."""
    async with seated(tmp_path) as seat:
        view = ClusterView(seat.manager, seat.manager.settings, CLOCK)

        async def leader_and_brokers() -> tuple[int, list[int]]:
            metadata, _ = await view.describe([NAME.topic])
            return metadata.topics[0].partitions[0].leader, [broker.id for broker in metadata.brokers]

        assert await leader_and_brokers() == (1, [1, 2, 3])
        seat.manager.peers.live_changed({broker: LIVE[broker] for broker in LIVE if broker != 1})
        assert await leader_and_brokers() == (NO_BROKER, [2, 3])
        seat.manager.follow(seat.replica, BrokerId(1), LeaderEpoch(7))
        assert await leader_and_brokers() == (NO_BROKER, [2, 3]), "it was heard of before it died"


async def test_the_sizes_of_a_few_named_topics_are_current(tmp_path: Path) -> None:
    """A client that saw a topic grow at another broker assigns its partitions by this one's answer."""
    clock = TickingClock()
    async with seated(tmp_path) as seat:
        view = ClusterView(seat.manager, settings(metadata_age_ms_max=60_000), clock)
        path = znodes.topic(NAME.topic)
        node = znodes.load_topic(NAME.topic, (await seat.coordination.get(path)).data)

        async def partitions(*, current_sizes: bool) -> int:
            metadata, _ = await view.describe([NAME.topic], current_sizes=current_sizes)
            return len(metadata.topics[0].partitions)

        before = await partitions(current_sizes=False)
        await seat.coordination.ensure_path(f"{path}/{before}")
        for leaf in (znodes.replicas, znodes.isr):
            data = (await seat.coordination.get(leaf(NAME.topic, 0))).data
            await seat.coordination.create(leaf(NAME.topic, before), data)
        await seat.coordination.set(path, znodes.dump_topic(replace(node, partitions=before + 1)))
        assert await partitions(current_sizes=False) == before

        seat.coordination.state = LinkState.SUSPENDED
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(partitions(current_sizes=True))
            await asyncio.sleep(0)
            assert not waiting.done(), "the link may be back in a moment"
            seat.coordination.state = LinkState.CONNECTED
        assert waiting.result() == before + 1


async def test_metadata_waits_no_longer_once_zookeeper_is_away_for_long(tmp_path: Path) -> None:
    """Clients go on with what a broker has read last."""
    clock = TickingClock()
    async with seated(tmp_path) as seat:
        view = ClusterView(seat.manager, settings(metadata_age_ms_max=60_000), clock)
        await view.describe([NAME.topic])
        seat.coordination.state = LinkState.SUSPENDED
        waits = []
        for _ in range(10):
            began = clock.now
            metadata, _ = await view.describe([NAME.topic], current_sizes=True)
            assert len(metadata.topics[0].partitions) == 1
            waits.append(clock.now - began)
    assert waits[0] >= SIZES_WAIT_S and waits[-1] == 0
    assert sum(waits) <= AWAY_S + SIZES_WAIT_S


async def test_a_deleted_topic_does_not_come_back_while_zookeeper_is_away(tmp_path: Path) -> None:
    """A group that is subscribed by a pattern rebalanced to assign its partitions."""
    async with seated(tmp_path) as seat:
        view = ClusterView(seat.manager, seat.manager.settings, CLOCK)
        (added,) = seat.tree.add_topics(1, 1)
        assert await view.partition_counts(()) == {NAME.topic: 1, added: 1}
        assert len((await view.describe(()))[0].topics) == 2
        del seat.tree.nodes[znodes.topic(added)]
        assert await view.partition_counts(()) == {NAME.topic: 1}
        assert [topic.name for topic in (await view.describe(()))[0].topics] == [NAME.topic]
        seat.coordination.state = LinkState.SUSPENDED
        assert await view.partition_counts(()) == {NAME.topic: 1}
        assert [topic.name for topic in (await view.describe(()))[0].topics] == [NAME.topic]
        seat.coordination.state = LinkState.CONNECTED


async def test_topics_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    async with seated(tmp_path) as seat:
        view = ClusterView(seat.manager, seat.manager.settings, CLOCK)
        seat.coordination.state = LinkState.SUSPENDED
        named = "^topics a, b cannot be read from ZooKeeper now: ZooKeeper cannot be reached right now$"
        for topics, said in ((["a", "b"], named), ([], named.replace(" a, b", ""))):
            with pytest.raises(LeaderNotAvailable, match=said):
                await view.partition_counts(topics)


async def test_a_topic_that_is_not_found_is_looked_for_after_a_sync(tmp_path: Path) -> None:
    """Its server may be behind the one that took the topic: clients need not ask again."""
    async with seated(tmp_path) as seat:
        view = ClusterView(seat.manager, seat.manager.settings, CLOCK)
        late = seat.tree.nodes.pop(znodes.topic(NAME.topic))
        session = seat.coordination

        class Behind(MemorySession):
            async def sync(self, path: str = "/") -> None:
                await session.sync(path)
                seat.tree.nodes.setdefault(znodes.topic(NAME.topic), late)

        seat.coordination = Behind(seat.tree, session.session_id)
        metadata, unknown = await view.describe([NAME.topic, "never"])
        assert ([topic.name for topic in metadata.topics], unknown) == ([NAME.topic], ["never"])


async def test_the_reason_for_a_missing_controller_is_reported_if_zookeeper_cannot_be_asked(
    tmp_path: Path,
) -> None:
    async with seated(tmp_path) as seat:
        view = ClusterView(seat.manager, seat.manager.settings, CLOCK)
        metadata, _ = await view.describe((), omit_topics=True)
        assert (metadata.controller, metadata.controller_unknown) == (None, "")
        seat.coordination.state = LinkState.SUSPENDED
        metadata, _ = await view.describe((), omit_topics=True)
        assert metadata.controller_unknown.startswith("broker 2 cannot ask ZooKeeper for it: ")
        seat.coordination.state = LinkState.CONNECTED


async def test_a_request_for_many_topics_leaves_room_for_elections(tmp_path: Path) -> None:
    """A thousand topics with ten partitions each were 10,000 reads at once. The time for each began when it
    was queued, so the request failed after 2 s, and the next broker began anew; elections waited behind."""
    async with seated(tmp_path) as seat:
        names = seat.tree.add_topics(10, partitions=50)
        view = ClusterView(seat.manager, seat.manager.settings, CLOCK)
        metadata, unknown = await view.describe(names)
        assert sum(len(topic.partitions) for topic in metadata.topics) == 10 * 50 and not unknown
        assert seat.coordination.most_in_flight == ZOOKEEPER_BULK_READS_IN_FLIGHT_MAX


async def test_a_request_for_one_topic_does_not_wait_for_one_that_reads_all(tmp_path: Path) -> None:
    """Behind 64 requests for 1,000 topics, one for a single topic took up to half a second: it waited for its
    turn to read, four times."""
    async with seated(tmp_path) as seat:
        names = seat.tree.add_topics(SMALL_TOPICS_MAX + 1, partitions=10)
        answered, session = asyncio.Event(), seat.coordination

        class Slow(MemorySession):
            async def get(self, path: str) -> Znode:
                if any(path == znodes.topic(name) for name in names):
                    await answered.wait()
                return await session.get(path)

        seat.coordination = Slow(seat.tree, session.session_id)
        view = ClusterView(seat.manager, seat.manager.settings, CLOCK)
        async with asyncio.TaskGroup() as tasks:
            all_of_them = tasks.create_task(view.describe(names))
            async with asyncio.timeout(DEADLINE_S):
                metadata, unknown = await view.describe([NAME.topic])
            assert [topic.name for topic in metadata.topics] == [NAME.topic] and not unknown
            answered.set()
        assert len(all_of_them.result()[0].topics) == len(names)
