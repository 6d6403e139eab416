"""The replicas of one broker over lives and sessions: watermarks kept, roles dropped."""

from __future__ import annotations

import asyncio
import errno
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from strandline.adapters.system.files import SYSTEM_FILES
from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.broker.core.replication.replica_states import ReplicaState
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.replica import Replica
from strandline.broker.replicas.upkeep.retention import flush_aged
from strandline.broker.storage.state_files.checkpoint import Checkpoint
from strandline.broker.storage.state_files.data_folder import DataFolder
from strandline.errors import StorageFailed
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionId, TopicPartition
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.replicas import ASSIGNED, HOST, KEY, NAME, settings, write
from tests.waiting import eventually

OTHER = TopicPartition("others", 1), KEY._replace(partition=PartitionId(1))


@contextmanager
def life(
    tmp_path: Path, epoch: int, *, clean: bool = True, loads: bool = True, **given: int
) -> Iterator[ReplicaManager]:
    """One life of broker 1 on this folder. Without `loads` it ends before it has a session."""
    boot = tmp_path / "boot"
    boot.write_text("this one")
    folder = DataFolder(tmp_path / "data", BrokerId(1), boot, SYSTEM_FILES)
    manager = ReplicaManager(settings(data_dir=folder.path, **given), folder, HOST)
    try:
        if loads:
            manager.load()
            folder.begin_life(BrokerEpoch(epoch))
        yield manager
        manager.close(clean=clean)
    finally:
        folder.close()


def created(manager: ReplicaManager, config: TopicConfig | None = None) -> Replica:
    """The one replica, with two records, both committed."""
    config = config or TopicConfig()
    replica = manager.create(NAME, KEY, config)
    manager.reconfigure(replica, PartitionAssignment(ASSIGNED), config)
    write(replica, 1, "a", "b")
    replica.raise_watermark(Offset(2))
    return replica


def test_assignments_are_compared_within_one_session_only(tmp_path: Path) -> None:
    """CORRECTNESS E8: what comes in late is passed over; but another session may be of a ZooKeeper that was
    set back, whose versions are lower."""
    with life(tmp_path, 1) as manager:
        replica = created(manager)
        manager.reconfigure(replica, PartitionAssignment(ASSIGNED[:2], 7), replica.config)
        manager.reconfigure(replica, PartitionAssignment(ASSIGNED, 6), replica.config)
        assert replica.assigned == ASSIGNED[:2]
        manager.end_session()
        assert replica.assigned == ()
        manager.reconfigure(replica, PartitionAssignment(ASSIGNED, 6), replica.config)
        assert replica.assigned == ASSIGNED


def test_watermarks_outlive_the_process(tmp_path: Path) -> None:
    """CORRECTNESS H7: written at a clean close, read before anything is truncated."""
    with life(tmp_path, 1) as manager:
        created(manager)
    with life(tmp_path, 2) as manager:
        assert manager.named(*NAME).high_watermark == 2


def test_the_watermark_of_a_replica_that_is_not_there_today_is_kept(tmp_path: Path) -> None:
    """CORRECTNESS H7: a folder on a disk that is not mounted, and comes back."""
    with life(tmp_path, 1) as manager:
        directory = created(manager).log.directory
        manager.create(*OTHER, TopicConfig())
    aside = directory.rename(tmp_path / "aside")
    with life(tmp_path, 2) as manager:
        assert manager.get(KEY) is None
    aside.rename(directory)
    with life(tmp_path, 3) as manager:
        assert manager.named(*NAME).high_watermark == 2


def test_a_watermark_is_never_beyond_the_log(tmp_path: Path) -> None:
    """CORRECTNESS H7, E2: records that a loss of power took are no longer committed here."""
    with life(tmp_path, 1) as manager:
        replica = created(manager)
        directory = replica.log.directory
    for segment in directory.glob("*.log"):
        segment.unlink()
    with life(tmp_path, 2) as manager:
        found = manager.named(*NAME)
        assert found.high_watermark == found.log.log_end_offset == 0


def crashed(tmp_path: Path) -> Path:
    """What a crash at this moment leaves on the disk, for another life."""
    later = tmp_path / "later"
    shutil.copytree(tmp_path / "data", later / "data")
    return later


def lose_records(tmp_path: Path) -> None:
    """A life that ends with two committed records that were not synced, and a loss of both."""
    with life(tmp_path, 1, clean=False) as manager:
        directory = created(manager).log.directory
    for segment in directory.glob("*.log"):
        segment.unlink()


def test_a_watermark_of_before_a_loss_says_nothing_about_what_comes_after_it(tmp_path: Path) -> None:
    """CORRECTNESS H7, T11: the log was cut by a loss of power, grew under a new leader, and its broker
    crashed before the next checkpoint. It took uncommitted records for committed (seed 1000166)."""
    lose_records(tmp_path)
    with life(tmp_path, 2) as manager:
        write(manager.named(*NAME), 2, "x", "y", "z")
        later = crashed(tmp_path)
    for folder in (later, tmp_path):  # after the crash, and after a clean end
        with life(folder, 3) as manager:
            again = manager.named(*NAME)
            assert (again.high_watermark, again.log.log_end_offset, again.watermark_known) == (0, 3, 2)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_watermark_of_before_an_unclean_truncation_is_not_read_again(
    tmp_path: Path, *, restarts: bool
) -> None:
    """CORRECTNESS H7, T11: the broker crashes before the next checkpoint, its log has grown by then."""
    with life(tmp_path, 1) as manager:
        created(manager)
    with life(tmp_path, 2) as manager:
        replica = manager.named(*NAME)
        replica.learn_loss(LeaderEpoch(2))
        if restarts:
            replica.restart_at(Offset(0))
        else:
            replica.truncate(Offset(0))
        write(replica, 2, "x", "y", "z")
        later = crashed(tmp_path)
    with life(later, 3) as manager:
        assert manager.named(*NAME).high_watermark == 0


def test_a_log_whose_watermark_cannot_be_lowered_takes_no_records(tmp_path: Path) -> None:
    """CORRECTNESS H7, E14: after a crash its new records would be taken for committed."""
    lose_records(tmp_path)
    (tmp_path / "data" / "watermarks.partial").mkdir()
    with life(tmp_path, 2) as manager:
        replica = manager.named(*NAME)
        with pytest.raises(StorageFailed, match=r"watermarks\.partial"):
            write(replica, 2, "x")
        assert not replica.whole


def test_a_watermark_that_is_lowered_while_an_older_one_is_written_stays_lower() -> None:
    """CORRECTNESS H7: a log is truncated just as the watermarks go to the disk, in a thread."""
    files = MemoryFiles()
    path = Path("/data/watermarks")
    checkpoint = Checkpoint(path, files=files)
    reached, go_on = threading.Event(), threading.Event()

    def slow(operation: str, _: Path) -> int | None:
        if operation == "sync" and not reached.is_set():
            reached.set()
            assert go_on.wait(10)
        return None

    files.fault = slow
    writing = threading.Thread(target=checkpoint.write, args=({"log": 5, "other": 1},))
    writing.start()
    assert reached.wait(10)
    lowering = threading.Thread(target=checkpoint.lower, args=({"log": 3, "other": 2, "new": 7},))
    lowering.start()
    go_on.set()
    writing.join(10)
    lowering.join(10)
    again = Checkpoint(path, files=files)
    assert (again.get("log"), again.get("other"), again.get("new")) == (3, 1, None)


def test_a_replica_deleted_while_a_checkpoint_is_written_does_not_harm_it() -> None:
    """CORRECTNESS H7: a topic is deleted just as the watermarks go to the disk, in a thread."""
    files = MemoryFiles()
    path = Path("/data/watermarks")
    checkpoint = Checkpoint(path, files=files)
    checkpoint.write({"gone": 1})
    reached, go_on = threading.Event(), threading.Event()

    def slow(operation: str, _: Path) -> int | None:
        if operation == "sync" and not reached.is_set():
            reached.set()
            assert go_on.wait(10)
        return None

    files.fault = slow
    writing = threading.Thread(target=checkpoint.write, args=({"kept": 5},))
    writing.start()
    assert reached.wait(10)
    checkpoint.forget("gone")  # never waits: it is the event loop that does this
    assert checkpoint.get("gone") is None
    go_on.set()
    writing.join(10)
    assert checkpoint.get("gone") is None
    checkpoint.write({"kept": 6})
    again = Checkpoint(path, files=files)
    assert (again.get("kept"), again.get("gone")) == (6, None)


def test_a_replica_that_is_assigned_again_begins_empty() -> None:
    """CORRECTNESS H7: a replica that was deleted, and is assigned here again, is empty, with a crash at any
    point."""
    files = MemoryFiles()
    path = Path("/data/watermarks")
    checkpoint = Checkpoint(path, files=files)
    checkpoint.write({"back": 7, "kept": 5})
    checkpoint.forget("back")
    checkpoint.begin("back")
    again = Checkpoint(path, files=files)
    assert (again.get("back"), again.get("kept")) == (None, 5)
    checkpoint.write({"back": 2})
    assert checkpoint.get("back") == 2


def test_a_deleted_folder_that_cannot_be_removed_does_not_keep_the_broker_from_starting() -> None:
    """A crash left it; the other replicas are opened, and the next start tries it again."""
    files, path, boot = MemoryFiles(), Path("/data/1"), Path("/boot")
    before = ReplicaManager(settings(data_dir=path), DataFolder(path, BrokerId(1), boot, files), HOST)
    created(before)
    aside = before.delete(before.create(*OTHER, TopicConfig()))
    after = files.after_crash()

    def stuck(operation: str, path: Path) -> int | None:
        if operation == "remove_directory":
            raise OSError(errno.EIO, "as the test wants it", str(path))
        return None

    after.fault = stuck
    manager = ReplicaManager(settings(data_dir=path), DataFolder(path, BrokerId(1), boot, after), HOST)
    with capture_logs() as logs:
        manager.load()
    assert manager.named(*NAME).log.log_end_offset == 2
    assert [entry["path"] for entry in logs if "folder stays" in entry["event"]] == [str(aside)]
    again = after.after_crash()
    ReplicaManager(settings(data_dir=path), DataFolder(path, BrokerId(1), boot, again), HOST).load()
    assert aside.name not in again.directories(path)


async def test_the_end_of_a_session_ends_every_role(tmp_path: Path) -> None:
    """CORRECTNESS E13: lead nothing, believe in no leader; the epoch known stays."""
    with life(tmp_path, 1) as manager:
        replica = created(manager)
        manager.follow(replica, BrokerId(2), LeaderEpoch(3))
        manager.end_session()
        assert (replica.leader, replica.leader_epoch) == (NO_BROKER, 3)
        assert replica.state is ReplicaState.FOLLOWER
        manager.follow(replica, BrokerId(3), LeaderEpoch(2))  # E6: a stale command
        assert (replica.leader, replica.leader_epoch) == (NO_BROKER, 3)


async def test_a_flush_that_fails_costs_one_replica_not_the_broker(tmp_path: Path) -> None:
    """CORRECTNESS E14: the task that flushes continues with the others."""
    config = TopicConfig(flush_ms=0)
    with life(tmp_path, 1, clean=False, flush_check_ms=10) as manager:
        bad = created(manager, config)
        for path in bad.log.directory.iterdir():
            path.unlink()
        bad.log.directory.rmdir()  # its epoch file cannot be opened for the sync
        good = manager.create(*OTHER, config)
        write(good, 1, "c")
        async with asyncio.TaskGroup() as tasks:
            flushing = tasks.create_task(flush_aged(manager))
            await eventually(lambda: bad.log.failed is not None and good.log.unflushed_records == 0)
            write(good, 1, "d")
            await eventually(lambda: good.log.unflushed_records == 0)
            assert not flushing.done()
            flushing.cancel()


@pytest.mark.parametrize("leader", [2, 3])
def test_an_older_epoch_is_never_followed(tmp_path: Path, leader: int) -> None:
    """CORRECTNESS E6, T5: commands may come late and in any order."""
    with life(tmp_path, 1) as manager:
        replica = created(manager)
        manager.follow(replica, BrokerId(2), LeaderEpoch(5))
        manager.follow(replica, BrokerId(leader), LeaderEpoch(4))
        assert (replica.leader, replica.leader_epoch) == (2, 5)


# --- closed replicas ----------------------------------------------------------------------------------


def test_a_closed_replica_keeps_its_watermark_and_its_log_over_a_life(tmp_path: Path) -> None:
    """CORRECTNESS H7, E2: it is closed as in a clean shutdown, even if the broker crashes later."""
    with life(tmp_path, 1, clean=False) as manager:
        replica = created(manager)
        manager.close_replica(replica)
        assert (list(manager), manager.all(), manager.closed(KEY)) == ([], [replica], replica)
    with life(tmp_path, 2) as manager:
        found = manager.named(*NAME)
        assert (found.high_watermark, found.log.log_end_offset) == (2, 2)


def test_a_replica_that_is_opened_again_continues_where_it_was(tmp_path: Path) -> None:
    with life(tmp_path, 1) as manager:
        replica = created(manager)
        manager.follow(replica, BrokerId(2), LeaderEpoch(3))
        manager.close_replica(replica)
        manager.reopen(replica)
        assert (manager.get(KEY), manager.closed(KEY)) == (replica, None)
        assert (replica.leader, replica.leader_epoch) == (NO_BROKER, 3)
        assert (replica.high_watermark, replica.log.log_end_offset) == (2, 2)
        write(replica, 3, "c")


def test_a_log_that_cannot_be_deleted_is_not_marked_as_closed_cleanly(tmp_path: Path) -> None:
    """CORRECTNESS E2: it was closed to be removed, so nothing of it was synced."""
    with life(tmp_path, 1) as manager:
        replica = created(manager)
        directory = replica.log.directory
        aside = directory.rename(tmp_path / "aside")  # the folder cannot be moved where it is not
        with pytest.raises(OSError, match=directory.name):
            manager.delete(replica)
        aside.rename(directory)
        assert manager.closed(KEY) is replica
    with life(tmp_path, 2) as manager:
        assert not manager.folder.clean
        assert manager.named(*NAME).log.log_end_offset == 2


def test_a_stop_before_the_logs_are_open_does_not_hide_an_earlier_crash(tmp_path: Path) -> None:
    """CORRECTNESS E2: ZooKeeper was away, so nothing was loaded, and nothing was recovered."""
    with life(tmp_path, 1, clean=False) as manager:
        created(manager)
    with life(tmp_path, 2, loads=False):
        pass
    with life(tmp_path, 2) as manager:
        assert not manager.folder.clean
