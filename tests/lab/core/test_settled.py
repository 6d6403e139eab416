"""What a cluster lacks after the faults of a round or a run."""

from __future__ import annotations

from strandline.client.admin.topics import PartitionDescription, TopicDescription
from strandline.ids import TopicId, TopicPartition
from strandline.vocabulary.admin import OngoingReassignment
from strandline_lab.core.settled import first_missing


def topic(name: str, *partitions: PartitionDescription) -> TopicDescription:
    return TopicDescription(name, TopicId(name), {}, partitions)


def partition(
    number: int, leader: int = 1, isr: tuple[int, ...] = (1, 2), watermark: int | None = 10
) -> PartitionDescription:
    return PartitionDescription(number, leader, 0, (1, 2), isr, watermark, 10)


def test_each_partition_needs_a_leader_that_answers_and_all_replicas_in_sync() -> None:
    assert first_missing([topic("a", partition(0)), topic("b", partition(0))]) == ""
    assert first_missing([topic("a", partition(0), partition(1, -1))]) == "a-1 has no leader"
    assert "in sync [2]" in first_missing([topic("a", partition(0, 2, (2,)))])
    unanswered = topic("a", partition(0, watermark=None))
    assert first_missing([unanswered]) == "the leader of a-0 does not answer"


def test_what_partitions_lack_comes_before_what_is_under_way() -> None:
    moving = OngoingReassignment(TopicPartition("b", 0), (1, 2), (2, 3), (1, 2), -1, False)
    assert first_missing([topic("b", partition(0))], [moving]) == "b-0 is being reassigned"
    assert first_missing([topic("b", partition(0, -1))], [moving]) == "b-0 has no leader"
