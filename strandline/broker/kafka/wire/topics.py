"""The shape that most requests and answers about partitions share: partitions by topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

from strandline.broker.kafka.wire.fields import Reader, Steps, Writer
from strandline.ids import TopicPartition

P = TypeVar("P")
Q = TypeVar("Q")

TOPIC_BYTES_MIN: Final = 2


class OfTopic(NamedTuple, Generic[P]):
    """What a message says about partitions of one topic."""

    name: str
    partitions: tuple[P, ...]


Topics = tuple[OfTopic[P], ...]


def read_topics(reader: Reader, read_partition: Callable[[Reader], P], *, bytes_min: int) -> Topics[P]:
    """An array of topics, each with an array of partitions of at least `bytes_min` bytes."""

    def read_one(reader: Reader) -> P:
        found = read_partition(reader)
        reader.tags()
        return found

    def read_topic(reader: Reader) -> OfTopic[P]:
        topic = OfTopic(reader.string(), reader.array(read_one, bytes_min=bytes_min))
        reader.tags()
        return topic

    return reader.array(read_topic, bytes_min=TOPIC_BYTES_MIN)


def read_topic_numbers(reader: Reader) -> OfTopic[int]:
    """One topic, with numbers of its partitions: an element of an array."""
    topic = OfTopic(reader.string(), reader.array(Reader.int32, bytes_min=4))
    reader.tags()
    return topic


def write_topics(writer: Writer, topics: Topics[P], write_partition: Callable[[P], None]) -> None:
    def write_one(partition: P) -> None:
        write_partition(partition)
        writer.tags()

    def write_topic(topic: OfTopic[P]) -> None:
        writer.string(topic.name)
        writer.array(topic.partitions, write_one)
        writer.tags()

    writer.array(topics, write_topic)


def write_many_topics(writer: Writer, topics: Topics[P], write_partition: Callable[[P], None]) -> Steps:
    """Topics whose partitions only memory bounds."""

    def write_one(partition: P) -> None:
        write_partition(partition)
        writer.tags()

    writer.length(len(topics))
    for topic in topics:
        writer.string(topic.name)
        yield from writer.large_array(topic.partitions, write_one)
        writer.tags()


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
