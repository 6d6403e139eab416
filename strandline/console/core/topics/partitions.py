"""The partitions of a topic as its page shows them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from strandline.client.admin.topics import Condition, conditions
from strandline.console.core.topics.rates import Described
from strandline.console.core.words import bytes_, counted, duration
from strandline.ids import NO_BROKER, TopicPartition
from strandline.vocabulary.log import DescribedReplicas, ReplicaProgress, known
from strandline.vocabulary.log_position import is_foreign
from strandline.vocabulary.metadata import PartitionMetadata, TopicMetadata

BEHIND_MS_MIN: Final = 1_000
"""A replica in sync is behind by less all the time: the time is not shown."""


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """One replica. `words` say what it does; `kind` is good, warn, bad or quiet."""

    broker: int
    kind: str
    words: str


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition. Offsets and size are None while its leader cannot be asked."""

    partition: int
    leader: int | None
    epoch: int
    preferred: int | None
    isr: tuple[int, ...]
    start: int | None
    high_watermark: int | None
    end: int | None
    size_bytes: int | None
    conditions: tuple[Condition, ...]
    replicas: tuple[ReplicaRow, ...]
    moves: bool
    """Whether a reassignment adds or removes a replica of it."""

    @property
    def records(self) -> int | None:
        """Offsets that are committed; compaction may have removed records from among them."""
        if self.start is None or self.high_watermark is None:
            return None
        return max(0, self.high_watermark - self.start)


def partition_rows(
    topic: TopicMetadata,
    partitions: Sequence[PartitionMetadata],
    alive: Collection[int],
    described: Described,
) -> list[PartitionRow]:
    """These partitions of a topic, with what their leaders said of it, and not of another one of its name."""
    return [
        _row(topic, each, alive, described.get(TopicPartition(topic.name, each.partition)))
        for each in partitions
    ]


def _row(
    topic: TopicMetadata, of: PartitionMetadata, alive: Collection[int], answer: DescribedReplicas | None
) -> PartitionRow:
    if answer is not None and is_foreign(topic.topic_id, answer.topic_id):
        answer = None
    found = conditions(of, topic.config, alive, answer)
    said = answer or DescribedReplicas(TopicPartition(topic.name, of.partition))
    if answer is None:
        replicas = tuple(_unasked(broker, of, alive) for broker in of.replicas)
    else:
        replicas = tuple(_replica(each, of.leader, alive) for each in answer.replicas)
    return PartitionRow(
        of.partition,
        None if of.leader == NO_BROKER else of.leader,
        of.leader_epoch,
        of.replicas[0] if of.replicas else None,
        of.isr,
        known(said.log_start_offset),
        known(said.high_watermark),
        known(said.log_end_offset),
        known(said.size_bytes),
        tuple(each for each in Condition if each in found),
        replicas,
        any(each.adding or each.removing for each in said.replicas),
    )


def _unasked(broker: int, of: PartitionMetadata, alive: Collection[int]) -> ReplicaRow:
    if broker not in alive:
        return ReplicaRow(broker, "bad", "not alive")
    return ReplicaRow(broker, "quiet", "in sync" if broker in of.isr else "not in sync")


def _replica(replica: ReplicaProgress, leader: int, alive: Collection[int]) -> ReplicaRow:
    words = [_state(replica, leader, alive)]
    if replica.lag > 0:
        words.append(f"{counted(replica.lag, 'offset')} behind")
    if replica.lag_bytes > 0:
        words.append(bytes_(replica.lag_bytes))
    if replica.lag_ms >= BEHIND_MS_MIN:
        words.append(f"for {duration(replica.lag_ms)}")
    if replica.adding and replica.ms_left > 0:
        words.append(f"{duration(replica.ms_left)} left")
    return ReplicaRow(replica.broker, _kind(replica, alive), ", ".join(words))


def _state(replica: ReplicaProgress, leader: int, alive: Collection[int]) -> str:
    if replica.broker not in alive:
        return "not alive"
    if replica.broker == leader:
        return "leads"
    if replica.adding and not replica.in_sync:
        return "is added"
    state = "in sync" if replica.in_sync else "catching up" if replica.fetching else "not fetching"
    return f"{state}, is removed" if replica.removing else state


def _kind(replica: ReplicaProgress, alive: Collection[int]) -> str:
    if replica.broker not in alive or not (replica.in_sync or replica.fetching):
        return "bad"
    return "good" if replica.in_sync else "warn"
