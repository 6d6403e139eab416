"""The task that compacts a broker's logs: what goes wrong with one costs neither the log nor the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.replica import Replica
from strandline.broker.replicas.upkeep.compaction_task import compact_logs
from strandline.config.limits import KIB, MIB
from strandline.ids import Offset, PartitionId, PartitionKey, TopicPartition
from strandline.records import encode_batch
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.replicas.test_manager import life
from tests.broker.support.replicas import CLOCK, KEY, NAME
from tests.waiting import eventually

OTHER = TopicPartition("others", 1), KEY._replace(partition=PartitionId(1))


def overwritten(
    manager: ReplicaManager,
    name: TopicPartition,
    key: PartitionKey,
    *,
    keys: int = 3,
    segment_bytes: int = KIB,
) -> Replica:
    """A replica whose keys were written again and again, all of it committed and on the disk."""
    config = TopicConfig(cleanup_policy="compact", segment_bytes=segment_bytes)
    replica = manager.create(name, key, config)
    replica.log.appending.begin_epoch(1)
    data = encode_batch([(b"%d" % number, b"x" * 50, (), CLOCK.wall_ms()) for number in range(keys)])
    for _ in range(50):
        replica.log.appending.as_leader(data, 1, now_ms=CLOCK.wall_ms())
    replica.log.flush()
    replica.raise_watermark(Offset(replica.log.log_end_offset))
    return replica


@asynccontextmanager
async def compacting(manager: ReplicaManager) -> AsyncIterator[asyncio.Task[None]]:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(compact_logs(manager))
        yield task
        task.cancel()


async def test_a_follower_and_every_leader_compact_their_logs(tmp_path: Path) -> None:
    """No leader is asked; segments become fewer, and the active one stays."""
    with life(tmp_path, 1, compaction_check_ms=50) as manager:
        replica = overwritten(manager, NAME, KEY)
        before = replica.log.segment_count
        async with compacting(manager):
            await eventually(lambda: replica.log.size_bytes < 8 * KIB)
        assert before > 10
        assert replica.log.failed is None


async def test_a_damaged_segment_ends_the_compaction_of_its_log_alone(tmp_path: Path) -> None:
    """E15: it is left as it is, for recovery and for readers to find; the next log is compacted."""
    with life(tmp_path, 1, compaction_check_ms=50) as manager:
        bad = overwritten(manager, NAME, KEY)
        good = overwritten(manager, *OTHER)
        first = min(bad.log.directory.glob("*.log"))
        damaged = bytearray(first.read_bytes())
        damaged[100] ^= 0xFF
        first.write_bytes(damaged)
        size = bad.log.size_bytes
        async with compacting(manager) as task:
            await eventually(lambda: good.log.size_bytes < 8 * KIB)
            assert not task.done()
        assert (bad.log.failed, bad.log.size_bytes) == (None, size)
        assert first.read_bytes() == damaged
        assert not list(bad.log.directory.glob("*.cleaned"))


async def test_a_topic_is_deleted_in_the_middle_of_its_compaction(tmp_path: Path) -> None:
    """The rule of `broker/storage/compaction/rewrite.py`: it is cancelled, and the next log is compacted."""
    with life(tmp_path, 1, compaction_check_ms=50) as manager:
        gone = overwritten(manager, NAME, KEY, keys=5_000, segment_bytes=8 * MIB)
        good = overwritten(manager, *OTHER)
        async with compacting(manager) as task:
            await eventually(lambda: list(gone.log.directory.glob("*.cleaned")))
            aside = manager.delete(gone)
            await eventually(lambda: good.log.size_bytes < 8 * KIB)
            assert not task.done()
        assert not list(aside.glob("*.swap"))


async def test_the_task_ends_in_the_middle_of_a_compaction(tmp_path: Path) -> None:
    """A clean close leaves a log that needs no recovery, at any stage of the compaction."""
    with life(tmp_path, 1, compaction_check_ms=50) as manager:
        replica = overwritten(manager, NAME, KEY, keys=5_000, segment_bytes=8 * MIB)
        end = replica.log.log_end_offset
        async with compacting(manager):
            await eventually(lambda: list(replica.log.directory.glob("*.cleaned")))
    with life(tmp_path, 2) as manager:
        log = manager.named(*NAME).log
        assert (log.scanned_bytes, log.log_end_offset, log.failed) == (0, end, None)
        assert not list(log.directory.glob("*.cleaned"))
