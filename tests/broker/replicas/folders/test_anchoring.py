"""New replicas of a broker begin together: at the cost of one (CORRECTNESS E18)."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.replicas.log_lives import lives_counted
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.replica import Replica
from strandline.ids import PartitionId, PartitionKey, TopicId, TopicPartition
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.replicas import life

REPLICAS: Final = 100


class Disk:
    """Counts the operations, and lets one kind of them fail."""

    def __init__(self, files: MemoryFiles) -> None:
        self.done: Counter[str] = Counter()
        self.broken = ""
        files.fault = self._fault

    def _fault(self, operation: str, path: Path) -> int | None:
        self.done[operation] += 1
        if operation == self.broken:
            raise OSError(errno.EIO, "as the test wants it", str(path))
        return None


def created(manager: ReplicaManager, number: int) -> Replica:
    key = PartitionKey(TopicId("0" * 32), PartitionId(number))
    return manager.create(TopicPartition("many", number), key, TopicConfig())


async def anchor(manager: ReplicaManager, *replicas: Replica) -> None:
    async with asyncio.TaskGroup() as tasks:
        for replica in replicas:
            tasks.create_task(manager.anchoring.anchor(replica))


def test_a_new_replica_costs_one_file_and_reads_nothing() -> None:
    files = MemoryFiles()
    with life(files, 1) as manager:
        disk = Disk(files)
        replica = created(manager, 0)
        assert disk.done == {"open": 1, "create": 1, "append": 1}
        disk.done.clear()
        replica.log.appending.begin_epoch(1)
        assert disk.done == {"open": 1, "create": 1, "append": 1}
        disk.done.clear()
        replica.log.appending.begin_epoch(2)
        assert disk.done["rename"] == 1, "a reader sees the old epochs or the new ones"


async def test_many_new_replicas_share_two_syncs_and_survive_a_loss_of_power() -> None:
    """CORRECTNESS E2, E18: they count for the life in which they began, and for later ones."""
    files = MemoryFiles()
    with life(files, 1):
        pass
    files = files.after_crash()
    with life(files, 2) as manager:
        replicas = [created(manager, number) for number in range(REPLICAS)]
        disk = Disk(files)
        await anchor(manager, *replicas)
        assert all(replica.log.provenance.anchored for replica in replicas)
        assert (disk.done["sync_all"], disk.done["sync"], disk.done["sync_directory"]) == (2, 0, 0)
    files = files.after_power_loss(lambda _: 0)
    with life(files, 3) as manager:
        assert len(manager.all()) == REPLICAS
        assert all(replica.whole for replica in manager)
        assert all(lives_counted(manager.folder, replica.log) == {2, 3} for replica in manager)


@pytest.mark.parametrize("survivors", [0, 1, 1 << 20])
async def test_new_replicas_count_for_no_life_before_they_are_anchored(survivors: int) -> None:
    """CORRECTNESS E18: with any part of their folders that a loss of power leaves."""
    files = MemoryFiles()
    with life(files, 2) as manager:
        for number in range(REPLICAS):
            created(manager, number)
    files = files.after_power_loss(lambda n: min(n, survivors))
    with life(files, 3) as manager:
        for number in range(REPLICAS):
            replica = created(manager, number)
            assert lives_counted(manager.folder, replica.log) == {3}
            assert replica.whole


async def test_a_failed_sync_fails_the_replicas_that_waited_for_it() -> None:
    """CORRECTNESS E3, E14: those that are anchored stay, and those that come later begin."""
    files = MemoryFiles()
    with life(files, 1) as manager:
        before = created(manager, 0)
        await anchor(manager, before)
        group = [created(manager, number) for number in range(1, REPLICAS)]
        disk = Disk(files)
        disk.broken = "sync_all"
        await anchor(manager, *group)
        assert all(replica.log.failed is not None for replica in group)
        assert not any(replica.log.provenance.anchored for replica in group)
        disk.broken = ""
        later = created(manager, REPLICAS)
        await anchor(manager, later)
        assert (before.log.failed, later.log.failed) == (None, None)
        assert later.log.provenance.anchored


async def test_a_replica_of_a_group_that_was_given_up_is_anchored_by_the_next() -> None:
    files = MemoryFiles()
    with life(files, 1) as manager:
        first, other = created(manager, 0), created(manager, 1)
        async with asyncio.TaskGroup() as tasks:
            cancelled = tasks.create_task(manager.anchoring.anchor(first))
            tasks.create_task(manager.anchoring.anchor(other))
            await asyncio.sleep(0)
            cancelled.cancel()
        assert other.log.provenance.anchored
        assert not first.log.provenance.anchored
