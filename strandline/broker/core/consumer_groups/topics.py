"""Topics as a group sees them: what it subscribes to is assigned by these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import NamedTuple

from strandline.ids import PartitionId, PartitionKey, TopicId


class Topic(NamedTuple):
    """A topic at one moment."""

    topic_id: TopicId
    partitions: int


Topics = Mapping[str, Topic]
"""By name. A name without an entry is that of no topic."""


def partitions_of(topic: Topic) -> Iterator[PartitionKey]:
    """Its partitions in order."""
    return (PartitionKey(topic.topic_id, PartitionId(number)) for number in range(topic.partitions))


def topics_hash(topics: Topics) -> int:
    """A number of 64 bits, with a sign, that differs when any of these topics is made, deleted, made anew or
    grows. It is in the group's record: a coordinator that takes over sees what changed meanwhile."""
    digest = blake2b(digest_size=8)
    for name, topic in sorted(topics.items()):
        digest.update(f"{name}\0{topic.topic_id}\0{topic.partitions}\0".encode())
    return int.from_bytes(digest.digest(), signed=True)
