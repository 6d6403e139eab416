"""The shape that most requests and answers about partitions share: partitions by topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from strandline.broker.kafka.wire.table.rows import NEVER, STRING, Array, Kind, Row, Struct, row
from strandline.ids import TopicPartition

P = TypeVar("P")
Q = TypeVar("Q")


class OfTopic(NamedTuple, Generic[P]):
    """What a message says about partitions of one topic."""

    name: str
    partitions: tuple[P, ...]


Topics = tuple[OfTopic[P], ...]


def partitions_by_topic(
    partition: Kind, *, topic: str = "name", partitions: str = "partitions", large: bool = False
) -> Array:
    """An array of topics, each with an array of partitions. The names are Kafka's."""
    numbers = row(partitions, Array(partition, large=large), "partitions")
    return Array(Struct(OfTopic, STRING(topic, "name"), numbers))


def topics(partition: Kind, name: str = "topics", *, nullable: int = NEVER, **names: Any) -> Row:
    """The field with partitions by topic, which most messages about partitions have."""
    return row(name, partitions_by_topic(partition, **names), "topics", nullable=nullable)


def each_partition(topics: Topics[P]) -> Iterator[tuple[str, P]]:
    """Pairs of topic name and partition, in the order of the message."""
    return ((topic.name, partition) for topic in topics for partition in topic.partitions)


def names_of(topics: Topics[int]) -> Iterator[TopicPartition]:
    """The partitions that a message names by their numbers alone, in its order."""
    return (TopicPartition(topic, number) for topic, number in each_partition(topics))


def by_topic(pairs: Iterable[tuple[str, Q]]) -> Topics[Q]:
    """Neighbours of one topic become one entry; the order stays."""
    found: list[tuple[str, list[Q]]] = []
    for name, partition in pairs:
        if not found or found[-1][0] != name:
            found.append((name, []))
        found[-1][1].append(partition)
    return tuple([OfTopic(name, tuple(partitions)) for name, partitions in found])
