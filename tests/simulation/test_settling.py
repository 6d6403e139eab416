"""What a run waits for after the faults, and what an operator does about it (E2, E3)."""

from __future__ import annotations

from strandline.client.admin.topics import PartitionDescription, TopicDescription
from strandline.ids import TopicId, TopicPartition
from strandline_lab.simulation.settling import unsynced_without_leader
from strandline_lab.simulation.stage import SYNCED


def topic(name: str, *partitions: PartitionDescription, synced: bool = False) -> TopicDescription:
    return TopicDescription(name, TopicId(name), SYNCED if synced else {}, partitions)


def partition(number: int, leader: int = 1, isr: tuple[int, ...] = (1, 2)) -> PartitionDescription:
    return PartitionDescription(number, leader, 0, (1, 2), isr, 10, 10)


def test_an_operator_elects_only_where_records_count_before_they_are_synced() -> None:
    """A topic that syncs each record heals by itself, or the run has a problem."""
    topics = [topic("a", partition(0, -1), partition(1)), topic("b", partition(0, -1), synced=True)]
    assert unsynced_without_leader(topics) == [TopicPartition("a", 0)]
