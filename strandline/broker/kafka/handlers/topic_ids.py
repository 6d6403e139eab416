"""Topics that a request to a partition's broker names by their ids (KIP-516)."""

from __future__ import annotations

from typing import Protocol, TypeVar

from strandline.broker.kafka.wire.topics import Topics, named
from strandline.broker.log.handlers import Handlers
from strandline.errors import UnknownTopicId
from strandline.ids import TopicId


class Numbered(Protocol):
    """What a message says about one partition."""

    @property
    def partition(self) -> int: ...


P = TypeVar("P", bound=Numbered)


def with_names(topics: Topics[P], log: Handlers) -> Topics[P]:
    """The topics with the names of those that are known here; the others are `unknown`."""
    return named(
        topics, lambda topic: log.name_of(topic.topic_id, (asked.partition for asked in topic.partitions))
    )


def unknown_id(topic_id: TopicId) -> UnknownTopicId:
    """The refusal of an id that no topic known here has."""
    return UnknownTopicId(f"no topic with id {topic_id} is known here")
