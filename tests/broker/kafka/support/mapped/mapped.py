"""How the messages of one API, as clients write and read them, are the values of the broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from strandline.broker.kafka.wire.apis import ApiWire
from strandline.broker.kafka.wire.topics import OfTopic, Topics
from tests.broker.kafka.support.kio_codec import Values


@dataclass(frozen=True)
class Mapped:
    """`request`: (values, version) to what the broker reads; `answer`: to what it writes. `fixed` has the
    fields of answers that are no choice of the broker, by name or by path."""

    wire: ApiWire[Any, Any]
    request: Callable[[Values, int], Any]
    answer: Callable[[Values, int], Any]
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def versions(self) -> range:
        return range(self.wire.first, self.wire.last + 1)


def by_topic(
    topics: list[Values], make: Callable[[Values], Any], name: str = "name", partitions: str = "partitions"
) -> Topics[Any]:
    return tuple(OfTopic(topic[name], tuple(map(make, topic[partitions]))) for topic in topics)


def numbers_by_topic(topics: list[Values] | None, name: str, partitions: str) -> Topics[int] | None:
    """Where a message has nothing of the partitions but their numbers."""
    if topics is None:
        return None
    return tuple(OfTopic(topic[name], tuple(topic[partitions])) for topic in topics)
