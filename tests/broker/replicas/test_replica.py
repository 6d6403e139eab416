"""Reads of one replica, and the shared facts that decisions rest on."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.adapters.system.files import SYSTEM_FILES
from strandline.adapters.system.memory_files import MemoryFiles
from strandline.adapters.zookeeper import znodes
from strandline.broker.core.replication.effects import WriteIsr
from strandline.broker.core.replication.leader_partition import LeaderPartition
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.broker.membership.registration import SessionRegistration
from strandline.broker.storage.state_files.data_folder import DataFolder
from strandline.errors import StorageFailed
from strandline.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from strandline.records import decode
from strandline.vocabulary.metadata import Endpoint, IsrMember
from tests.broker.support.replicas import ASSIGNED, CLOCK, LIVE, open_replica, settings, write
from tests.znode_tree import ZnodeTree


def test_a_read_takes_the_watermark_once() -> None:
    """CORRECTNESS H8: it moves while the disk is read, and the answer is of one moment all the same."""
    files = MemoryFiles()
    replica = open_replica(files=files)
    write(replica, 1, "a", "b")
    replica.raise_watermark(Offset(1))

    def move(operation: str, _: Path) -> int | None:
        if operation == "read":
            replica.raise_watermark(Offset(2))
        return None

    files.fault = move
    assert [record.value for record in decode(replica.read(0, 1 << 20))] == [b"a"]
    assert [record.value for record in decode(replica.read(0, 1 << 20))] == [b"a", b"b"]


def test_only_records_that_a_lossy_leader_lacks_are_cut_below_the_watermark() -> None:
    """CORRECTNESS T11: only an unclean election since the last record here excuses it; the loss is exact."""
    replica = open_replica()
    write(replica, 5, "a", "b", "c")
    replica.raise_watermark(Offset(3))
    replica.learn_loss(LeaderEpoch(5))
    assert replica.cut_at(Offset(1)).refused
    with pytest.raises(StorageFailed, match="this replica keeps them and stops"):
        replica.truncate(Offset(1))
    replica.learn_loss(LeaderEpoch(6))
    cut = replica.cut_at(Offset(1))
    assert (cut.refused, cut.committed) == (False, 2)
    replica.truncate(Offset(1))
    assert replica.high_watermark == replica.watermark_known == replica.log.log_end_offset == 1
    assert replica.counts.lost_records == 2


def test_a_log_that_is_cut_or_begins_anew_is_announced() -> None:
    """CORRECTNESS K1: a fetch session of a follower tells its client."""
    replica, seen = open_replica(), list[tuple[int, int]]()
    write(replica, 5, "a", "b", "c")
    replica.listen(lambda: seen.append((replica.log.log_start_offset, replica.high_watermark)))
    replica.raise_watermark(Offset(2))
    replica.truncate(Offset(2))
    replica.restart_at(Offset(7))
    assert seen == [(0, 2), (0, 2), (7, 7)]


def test_a_member_without_a_known_position_holds_the_watermark_back() -> None:
    """CORRECTNESS H4: the least LEO over an empty set is not the leader's own."""
    partition: LeaderPartition[str] = LeaderPartition(
        me=ASSIGNED[0],
        epoch=LeaderEpoch(1),
        log_end_offset=Offset(0),
        high_watermark=Offset(0),
        assignment=PartitionAssignment(ASSIGNED[:1]),
        members=tuple(IsrMember(b, LIVE[b].epoch) for b in ASSIGNED[:2]),
        version=0,
        live=LIVE,
        min_insync=1,
        keep_in_sync_s=1.0,
        close_s=60,
        queue_entries_max=10,
        now=0.0,
    )
    partition.appended(Offset(5), 0.0)
    (write_isr,) = partition.step(0.0)
    assert isinstance(write_isr, WriteIsr)
    assert write_isr.left == (2,)
    assert partition.high_watermark == 0


async def test_a_snapshot_of_live_brokers_is_replaced_never_changed(tmp_path: Path) -> None:
    """CORRECTNESS H4: a decision sees one snapshot, whole."""
    tree = ZnodeTree()
    session = tree.open_session()
    await session.ensure_path(znodes.BROKER_IDS)
    boot = tmp_path / "boot"
    boot.write_text("this one")
    folder = DataFolder(tmp_path / "data", BrokerId(1), boot, SYSTEM_FILES)
    try:
        registration = SessionRegistration(session, folder, settings(), CLOCK, Endpoint(1, "h", 1))
        await registration.register()
        first = await registration.read_live()
        data = znodes.dump_registration(LIVE[BrokerId(2)])
        await session.create(znodes.broker(BrokerId(2)), data, ephemeral=True)
        second = await registration.read_live()
    finally:
        folder.close()
    assert (list(first), sorted(second)) == ([1], [1, 2])
    assert first[BrokerId(1)].epoch == registration.own.epoch != BrokerEpoch(-1)
