"""A judge that is wrong about where a log ends finds losses that never were, or misses one (E1, H3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline import TopicPartition
from strandline.broker.storage.log import PartitionLog
from strandline.records import encode_values
from strandline.simulation.cluster import Cluster
from strandline.simulation.engine.disks import Disk
from strandline.simulation.engine.world import World
from strandline.vocabulary.topic_config import TopicConfig
from strandline_lab.simulation.judging.log_ends import LogEnds
from tests.broker.storage.support.disk import ManualClock

NAME = TopicPartition("topic", 0)
FOLDER = Path("/data/0/topic-0-1f")
SMALL = TopicConfig(segment_bytes=1024)


class Replica:
    """The replica of broker 0, and where a judge believes its log to end."""

    def __init__(self, cluster: Cluster) -> None:
        self.disk: Disk = cluster.broker_machines[0].disk
        self._ends = LogEnds(cluster)
        self.log = PartitionLog.open(FOLDER, SMALL, clock=ManualClock(), clean=True, files=self.disk.files)
        self.log.appending.begin_epoch(1)

    def append(self, *sizes: int) -> None:
        """Batches of one record each, of these sizes."""
        for size in sizes:
            self.log.appending.as_leader(
                encode_values([b"." * size], 1_000), self.log.epochs.latest, now_ms=1_000_000
            )

    @property
    def judged_end(self) -> int:
        return self._ends.end(0, NAME)


@pytest.fixture
def replica() -> Iterator[Replica]:
    with World(1) as world:
        yield Replica(Cluster(world))


def test_a_log_is_read_on_in_its_segments(replica: Replica) -> None:
    assert replica.judged_end == 0
    for _ in range(20):
        replica.append(100)
        assert replica.judged_end == replica.log.log_end_offset


@pytest.mark.parametrize("later", [(50, 60, 70, 80), (40, 40), (300,)])
def test_a_truncated_log_that_has_grown_since_is_read_anew(replica: Replica, later: tuple[int, ...]) -> None:
    replica.append(10, 40, 40)
    assert replica.judged_end == 3
    replica.log.cutting.truncate_to(1)
    replica.log.appending.begin_epoch(2)
    replica.append(*later)
    assert replica.judged_end == replica.log.log_end_offset == 1 + len(later)


def test_a_batch_of_which_a_loss_of_power_left_zeros_does_not_count(replica: Replica) -> None:
    replica.append(10, 10)
    path = FOLDER / "00000000000000000000.log"
    whole = len(replica.disk.files.content(path))
    replica.append(40)
    replica.disk.files.overwrite(path, whole, bytes(24))
    assert replica.judged_end == 2


def test_a_disk_with_faults_is_read_as_well(replica: Replica) -> None:
    replica.append(10)
    replica.disk.error_rate = 1.0
    assert replica.judged_end == 1
