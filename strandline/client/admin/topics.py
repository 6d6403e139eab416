"""What `Admin` says about a topic: its partitions, how far their replicas are, and what is wrong."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from strandline.errors import InvalidConfig
from strandline.ids import NO_BROKER, NO_EPOCH, TopicId, TopicPartition
from strandline.vocabulary.log import DescribedReplicas, ListedOffset, ReplicaProgress
from strandline.vocabulary.metadata import PartitionMetadata, TopicMetadata
from strandline.vocabulary.topic_config import TopicConfig


class Condition(Enum):
    """What may be wrong with a partition. A replica counts as in sync if its broker is alive too."""

    UNDER_REPLICATED = "under_replicated"
    """Fewer replicas are in sync than are assigned. As in Kafka, replicas that a reassignment adds are not
    missed."""
    LEADERLESS = "leaderless"
    """No broker leads it: it can be neither read nor written."""
    BELOW_MIN_ISR = "below_min_isr"
    """Fewer replicas are in sync than `min.insync.replicas`: acks=all is refused."""
    AT_MIN_ISR = "at_min_isr"
    """Exactly `min.insync.replicas` are in sync: one more gone, and acks=all is refused."""


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """`high_watermark` and `log_end_offset` are None while the leader cannot be asked."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    high_watermark: int | None
    log_end_offset: int | None
    conditions: frozenset[Condition] = frozenset()
    size_bytes: int | None = None
    """The leader's log. None as `progress`."""
    progress: tuple[ReplicaProgress, ...] | None = None
    """How far each replica is. None if it was not asked for, or while the leader cannot be asked."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """`config` has only what differs from the defaults."""

    name: str
    topic_id: TopicId
    config: Mapping[str, str]
    partitions: tuple[PartitionDescription, ...]


def described(
    topic: TopicMetadata,
    alive: Collection[int],
    answers: Mapping[TopicPartition, object],
) -> TopicDescription:
    """A topic, from its metadata, the brokers that are alive, and what leaders said: a `DescribedReplicas` or
    a `ListedOffset` of each partition. Other values are errors: that leader could not be asked. What leaders
    of other epochs said is left out, as it may be about another topic of this name."""

    def describe(of: PartitionMetadata) -> PartitionDescription:
        answer = answers.get(TopicPartition(topic.name, of.partition))
        if is_of_another_epoch(answer, of):
            answer = None
        replicas = answer if isinstance(answer, DescribedReplicas) else None
        ends = replicas or (answer if isinstance(answer, ListedOffset) else None)
        return PartitionDescription(
            of.partition,
            of.leader,
            of.leader_epoch,
            of.replicas,
            of.isr,
            None if ends is None else ends.high_watermark,
            None if ends is None else ends.log_end_offset,
            conditions(of, topic.config, alive, replicas),
            None if replicas is None else replicas.size_bytes,
            None if replicas is None else replicas.replicas,
        )

    return TopicDescription(topic.name, topic.topic_id, topic.config, tuple(map(describe, topic.partitions)))


def is_of_another_epoch(answer: object, partition: PartitionMetadata) -> bool:
    """True for the answer of a leader that the metadata does not know yet, or no longer."""
    if not isinstance(answer, DescribedReplicas | ListedOffset):
        return False
    return answer.leader_epoch not in (NO_EPOCH, partition.leader_epoch)


def conditions(
    partition: PartitionMetadata,
    config: Mapping[str, str],
    alive: Collection[int],
    replicas: DescribedReplicas | None,
) -> frozenset[Condition]:
    """What is wrong with a partition. Without the leader's answer the bound comes from the topic's config,
    and replicas that a reassignment adds count as assigned."""
    in_sync = sum(broker in alive for broker in partition.isr)
    assigned = len(partition.replicas)
    if replicas is not None:
        assigned -= sum(each.adding for each in replicas.replicas)
    bound = _min_insync(config, assigned) if replicas is None else replicas.min_insync
    found = {
        Condition.UNDER_REPLICATED: in_sync < assigned,
        Condition.LEADERLESS: partition.leader == NO_BROKER,
        Condition.BELOW_MIN_ISR: in_sync < bound,
        Condition.AT_MIN_ISR: in_sync == bound,
    }
    return frozenset(condition for condition, holds in found.items() if holds)


def _min_insync(config: Mapping[str, str], replication_factor: int) -> int:
    try:
        return TopicConfig.parse(config).min_insync(replication_factor)
    except InvalidConfig:  # written by a later version
        return TopicConfig().min_insync(replication_factor)
