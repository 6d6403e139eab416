"""A broker's logs after its machine lost the power: which of them count, over several lives (E2, E3, E15)."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.replicas.log_lives import lives_counted
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.replica import Replica
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.replicas import KEY, NAME, life, write

NEVER = TopicConfig()


class Unreadable:
    """A read of files with this suffix fails."""

    def __init__(self, suffix: str) -> None:
        self.suffix = suffix

    def __call__(self, operation: str, path: Path) -> int | None:
        if operation == "read" and path.name.endswith(self.suffix):
            raise OSError(errno.EIO, "as the test wants it", str(path))
        return None


async def created(manager: ReplicaManager) -> Replica:
    """The replica, on the medium, with records of which the first is synced."""
    replica = manager.create(NAME, KEY, NEVER)
    await manager.anchoring.anchor(replica)
    write(replica, 1, "synced")
    replica.log.flush()
    for number in range(20):
        write(replica, 1, f"{number}".ljust(100, "."))
    return replica


def counted(manager: ReplicaManager) -> set[int]:
    return set(lives_counted(manager.folder, manager.named(*NAME).log))


async def test_a_log_with_a_hole_after_a_loss_of_power_is_unsure_and_not_damaged() -> None:
    """CORRECTNESS E2, E3: its partition would wait for an operator, though all of its replicas are back."""
    files = MemoryFiles()
    with life(files, 1) as manager:
        await created(manager)
    files = files.after_power_loss(lambda n: n, lambda n: [1] if n > 2 else [])
    with life(files, 2) as manager:
        log = manager.named(*NAME).log
        assert (log.corrupt, log.failed) == (None, None)
        assert 1 <= log.log_end_offset < 21
        assert counted(manager) == {2}


@pytest.mark.parametrize("suffix", [".log", "log.json", "partition.json"])
async def test_a_log_that_could_not_be_read_after_a_loss_of_power_stays_unsure(suffix: str) -> None:
    """CORRECTNESS E2: the disk returns an error at the first start after the loss, and none at the second."""
    files = MemoryFiles()
    with life(files, 1) as manager:
        await created(manager)
    files = files.after_power_loss(lambda n: 0)
    files.fault = Unreadable(suffix)
    with life(files, 2) as manager:
        assert all(replica.log.failed is not None for replica in manager.all())
    files = files.after_crash()
    with life(files, 3) as manager:
        assert manager.named(*NAME).log.log_end_offset == 1
        assert 1 not in counted(manager)
    with life(files.after_crash(), 4) as manager:
        assert counted(manager) == {3, 4}


async def test_a_log_that_is_opened_again_after_a_loss_of_power_is_unsure() -> None:
    """CORRECTNESS E2: the disk returns an error at the start. The replica is closed, and started again in the
    same life, when the disk has recovered."""
    files = MemoryFiles()
    with life(files, 1) as manager:
        await created(manager)
    files = files.after_power_loss(lambda n: n, lambda n: [1] if n > 2 else [])
    files.fault = Unreadable(".log")
    with life(files, 2) as manager:
        (replica,) = manager.all()
        unread = replica.log
        assert unread.failed is not None
        manager.close_replica(replica)
        files.fault = None
        manager.reopen(replica)
        assert (replica.log.failed, replica.log.corrupt) == (None, None)
        assert counted(manager) == {2}
    with life(files.after_crash(), 3) as manager:
        assert counted(manager) == {3}
