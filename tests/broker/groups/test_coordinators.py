"""The coordinator partitions of one broker come and go with its leaderships of `__consumer_offsets`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from strandline.adapters.system.files import SYSTEM_FILES
from strandline.adapters.zookeeper import znodes
from strandline.broker.core.groups.requests import Commit
from strandline.broker.core.groups.state.offsets import SeenTopics
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.broker.groups.coordinators import Coordinators
from strandline.broker.groups.partition import GroupPartition
from strandline.broker.metadata.existing_partitions import ExistingPartitions
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.replica import Replica
from strandline.broker.storage.state_files.data_folder import DataFolder
from strandline.errors import CoordinatorLoading, NotCoordinator
from strandline.ids import (
    OFFSETS_TOPIC,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionId,
    PartitionKey,
    TopicId,
    TopicPartition,
)
from strandline.vocabulary.configs.groups import KnownGroupConfigs
from strandline.vocabulary.groups import CommittedOffset, OffsetCommit, OffsetFetch
from strandline.vocabulary.metadata import IsrMember, PartitionState
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.groups.live import refusal
from tests.broker.support.replicas import CLOCK, HOST, Recorded, settings
from tests.waiting import eventually
from tests.znode_tree import MemorySession, ZnodeTree

ME = BrokerId(1)
CONFIG = TopicConfig(min_insync_replicas=1)
FIRST, ANOTHER = TopicId("1" * 32), TopicId("2" * 32)


class LookedAt(MemorySession):
    """Counts how often children were listed."""

    looks: Counter[str]

    async def children(self, path: str) -> list[str]:
        found = await super().children(path)
        self.looks[path] += 1
        return found


class Session:
    """The ZooKeeper session of a broker that follows no other; fulfils `session_port.Session`."""

    def __init__(self, coordination: LookedAt, tasks: asyncio.TaskGroup) -> None:
        self.coordination = coordination
        self.recorder = Recorded()
        self._tasks = tasks

    def exercise(self, leadership: Leadership) -> None:
        self._tasks.create_task(leadership.run())

    def vacant(self, replica: Replica) -> None: ...

    def resign(self, replica: Replica, epoch: LeaderEpoch) -> None: ...

    def soon(self, callback: Callable[[], None]) -> None: ...

    def probe(self, broker: BrokerId) -> None: ...

    def peers_changed(self) -> None: ...

    def follow(self, replica: Replica) -> None: ...

    def unfollow(self, replica: Replica) -> None: ...

    def follow_again(self, replica: Replica) -> None: ...


@dataclass(slots=True)
class Broker:
    manager: ReplicaManager
    coordinators: Coordinators
    coordination: LookedAt

    def lead(self, topic: str, number: int, epoch: int, *, topic_id: TopicId = FIRST) -> Replica:
        """Elected for a replica of its own, alone."""
        name, key = TopicPartition(topic, number), PartitionKey(topic_id, PartitionId(number))
        replica = self.manager.create(name, key, CONFIG)
        self.manager.reconfigure(replica, PartitionAssignment((ME,)), CONFIG)
        state = PartitionState(ME, LeaderEpoch(epoch), (IsrMember(ME, BrokerEpoch(1)),))
        self.manager.lead(replica, state, 0)
        return replica

    async def serving(self, number: int) -> GroupPartition:
        partition = self.coordinators.get(number)
        assert partition is not None
        await eventually(lambda: partition.active)
        return partition


@asynccontextmanager
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    boot = tmp_path / "boot"
    boot.write_text("this one")
    folder = DataFolder(tmp_path / "data", ME, boot, SYSTEM_FILES)
    given = settings(data_dir=folder.path, reconcile_ms=50)
    manager = ReplicaManager(given, folder, HOST)
    manager.load()
    folder.begin_life(BrokerEpoch(1))
    coordination = LookedAt(ZnodeTree(), 1)
    existing = ExistingPartitions(lambda: coordination, 60, CLOCK)
    coordinators = Coordinators(
        manager, given, lambda _: None, lambda: True, existing.now, KnownGroupConfigs()
    )
    manager.watchers.append(coordinators)
    coordination.looks = Counter()
    await coordination.ensure_path(znodes.TOPICS)
    try:
        async with asyncio.TaskGroup() as tasks:
            manager.session = Session(coordination, tasks)
            running = tasks.create_task(coordinators.run())
            yield Broker(manager, coordinators, coordination)
            manager.end_session()
            running.cancel()
    finally:
        manager.close(clean=True)
        folder.close()


async def commit(partition: GroupPartition, group: str, *topics: str) -> None:
    offsets = {TopicPartition(topic, 0): CommittedOffset(5) for topic in topics}
    request = OffsetCommit(group, "", -1, offsets)
    results = await partition.ask(Commit(request))
    assert not any(results.values()), results


async def committed(partition: GroupPartition, group: str) -> set[str]:
    """The topics that the group has offsets of."""
    request = OffsetFetch(group)
    found = await partition.ask(request)
    return {name.topic for name in found}


async def test_only_leaders_of_the_offsets_topic_coordinate(tmp_path: Path) -> None:
    async with broker(tmp_path) as found:
        found.lead("orders", 0, 1)
        found.lead(OFFSETS_TOPIC, 3, 2)
        assert [partition.number for partition in found.coordinators] == [3]
        assert found.coordinators.get(0) is None
        await found.serving(3)


async def test_a_leadership_that_ends_takes_its_groups_along_and_the_next_one_reads_them(
    tmp_path: Path,
) -> None:
    """A coordinator is bound to the epoch: the old one serves no request again, the new one has what was
    committed."""
    async with broker(tmp_path) as found:
        replica = found.lead(OFFSETS_TOPIC, 0, 1)
        first = await found.serving(0)
        await commit(first, "g", "orders")
        found.manager.step_down(replica, None)
        assert found.coordinators.get(0) is None
        assert isinstance(await refusal(committed(first, "g")), NotCoordinator)
        found.lead(OFFSETS_TOPIC, 0, 2)
        loading = found.coordinators.get(0)
        assert loading is not None and loading is not first
        assert isinstance(await refusal(committed(loading, "g")), CoordinatorLoading)
        second = await found.serving(0)
        assert await committed(second, "g") == {"orders"}
        assert isinstance(await refusal(committed(first, "g")), NotCoordinator)


async def test_the_end_of_a_session_ends_all_coordinators(tmp_path: Path) -> None:
    """CORRECTNESS E13: what a session entitled to ends with it."""
    async with broker(tmp_path) as found:
        for number in range(3):
            found.lead(OFFSETS_TOPIC, number, 1 + number)
        partitions = [await found.serving(number) for number in range(3)]
        found.manager.end_session()
        assert list(found.coordinators) == []
        for partition in partitions:
            assert isinstance(await refusal(committed(partition, "g")), NotCoordinator)


async def test_a_recreated_topic_has_groups_of_its_own(tmp_path: Path) -> None:
    """KIP-516: what the topic of that name held before is not what this one holds."""
    async with broker(tmp_path) as found:
        found.lead(OFFSETS_TOPIC, 0, 1)
        old = await found.serving(0)
        await commit(old, "g", "orders")
        found.lead(OFFSETS_TOPIC, 0, 2, topic_id=ANOTHER)
        new = await found.serving(0)
        assert found.coordinators.topic_id == ANOTHER
        assert await committed(new, "g") == set()
        assert isinstance(await refusal(committed(old, "g")), NotCoordinator)


async def test_the_offsets_of_a_topic_go_with_it_and_no_others(tmp_path: Path) -> None:
    """For another topic of that name they would point anywhere; a topic that never was loses nothing."""
    async with broker(tmp_path) as found:
        found.lead(OFFSETS_TOPIC, 0, 1)
        partition = await found.serving(0)
        await found.coordination.create(znodes.topic("short-lived"))
        await commit(partition, "g", "short-lived", "never-was")
        before = found.coordination.looks[znodes.TOPICS]
        await eventually(lambda: found.coordination.looks[znodes.TOPICS] > before + 1)
        await found.coordination.delete(znodes.topic("short-lived"))

        async def forgotten() -> bool:
            return await committed(partition, "g") == {"never-was"}

        await eventually(forgotten)
        partition.leadership.step_down(None)
        found.lead(OFFSETS_TOPIC, 0, 2)
        again = await found.serving(0)
        assert await committed(again, "g") == {"never-was"}


async def test_a_topic_that_goes_while_the_groups_are_read_takes_its_offsets(tmp_path: Path) -> None:
    async with broker(tmp_path) as found:
        replica = found.lead(OFFSETS_TOPIC, 0, 1)
        await commit(await found.serving(0), "g", "gone", "stays")
        found.manager.step_down(replica, None)
        found.lead(OFFSETS_TOPIC, 0, 2)
        loading = found.coordinators.get(0)
        assert loading is not None and not loading.active
        loading.follow_topics(SeenTopics(0, {"gone"}))
        partition = await found.serving(0)

        async def forgotten() -> bool:
            return await committed(partition, "g") == {"stays"}

        await eventually(forgotten)
