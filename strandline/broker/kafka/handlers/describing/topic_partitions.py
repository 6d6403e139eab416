"""Answers DescribeTopicPartitions: Metadata's facts about topics, in answers of a bounded size (KIP-966)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from strandline.broker.kafka.call import Call
from strandline.broker.kafka.wire.admin.topic_partitions import (
    Cursor,
    DescribeTopicPartitionsAnswer,
    DescribeTopicPartitionsRequest,
)
from strandline.broker.kafka.wire.metadata import MetadataAnswer, MetadataRequest, TopicFacts, TopicWanted
from strandline.errors import ErrorCode, LeaderNotAvailable
from strandline.ports import Caller
from strandline.security.access import Access
from strandline.security.rights import DESCRIBE_TOPIC

PARTITIONS_MAX: Final = 2_000
"""Partitions in one answer: Kafka's default of `max.request.partition.size.limit`."""

Metadata = Callable[[MetadataRequest, Call], Awaitable[MetadataAnswer]]
Counts = Callable[[Sequence[str], Caller], Awaitable[Mapping[str, int]]]


class Span(NamedTuple):
    """Partitions of a topic, from `first` up to `end`, which is not one of them."""

    topic: str
    first: int
    end: int


def page(
    sizes: Iterable[tuple[str, int]], cursor: Cursor | None, limit: int
) -> tuple[list[Span], Cursor | None]:
    """What one answer has of these topics, which are in the order of their names, and where the next one
    begins. A topic without partitions has a place too: the answer says why."""
    spans, left = list[Span](), limit
    for topic, size in sizes:
        first = cursor.partition if cursor is not None and cursor.topic == topic else 0
        if left == 0:
            return spans, Cursor(topic, first)
        end = max(first, min(size, first + left))
        spans.append(Span(topic, first, end))
        left -= end - first
        if end < size:
            return spans, Cursor(topic, end)
    return spans, None


class TopicPartitionsApi:
    """This API, for all connections of one broker."""

    def __init__(self, metadata: Metadata, counts: Counts, access: Access) -> None:
        """`metadata` answers Metadata. `counts` gives the partition counts of these topics, or of all that
        the caller may see; it raises LeaderNotAvailable."""
        self._metadata = metadata
        self._counts = counts
        self._access = access

    async def describe(
        self, request: DescribeTopicPartitionsRequest, call: Call
    ) -> DescribeTopicPartitionsAnswer:
        """Raises LeaderNotAvailable if all topics are asked for and this broker does not know them."""
        named, cursor = set(request.topics), request.cursor
        if cursor is not None and (cursor.partition < 0 or (named and cursor.topic not in named)):
            wrong = int(ErrorCode.INVALID_REQUEST)
            return DescribeTopicPartitionsAnswer(tuple([TopicFacts(name, wrong) for name in sorted(named)]))
        counts = await self._sizes(named, call.caller)
        begin = "" if cursor is None else cursor.topic
        sizes = [(name, counts.get(name, 0)) for name in sorted(named or counts) if name >= begin]
        spans, following = page(sizes, cursor, max(1, min(request.limit, PARTITIONS_MAX)))
        wanted = MetadataRequest(
            tuple([TopicWanted(span.topic) for span in spans]), auto_create=False, topic_operations=True
        )
        found = (await self._metadata(wanted, call)).topics
        topics = [
            topic._replace(partitions=topic.partitions[span.first : span.end])
            for topic, span in zip(found, spans, strict=True)
        ]
        return DescribeTopicPartitionsAnswer(tuple(topics), following)

    async def _sizes(self, named: set[str], caller: Caller) -> Mapping[str, int]:
        """Partition counts. A named topic that is not known, or that the caller may not see, has none: its
        place in the answer says why."""
        if not named:
            return await self._counts((), caller)
        visible = [name for name in named if self._access.refusal(caller, DESCRIBE_TOPIC, name) is None]
        try:
            return await self._counts(visible, caller) if visible else {}
        except LeaderNotAvailable:
            return {}
