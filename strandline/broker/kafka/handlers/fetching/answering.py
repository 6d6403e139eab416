"""What was read, as the answer to a Fetch request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import fetch_code
from strandline.broker.kafka.handlers.leader_hints import LeaderHints
from strandline.broker.kafka.wire.fetch import (
    ENDPOINTS_SINCE,
    READ_COMMITTED,
    FetchAnswer,
    FetchedPartition,
    FetchRequest,
    PartitionPosition,
)
from strandline.broker.kafka.wire.metadata import BrokerAddress
from strandline.broker.kafka.wire.topics import OfTopic, answering
from strandline.errors import UnknownTopicId
from strandline.ids import TopicPartition
from strandline.vocabulary.log import Fetched, FetchPartition


def positions(request: FetchRequest) -> list[FetchPartition]:
    """What is asked for, of topics that are known here."""
    return [
        position_of(topic, asked)
        for topic in request.topics
        if not topic.unknown
        for asked in topic.partitions
    ]


def position_of(topic: OfTopic[PartitionPosition], asked: PartitionPosition) -> FetchPartition:
    return FetchPartition(
        TopicPartition(topic.name, asked.partition),
        asked.offset,
        asked.leader_epoch,
        asked.bytes_max,
        topic.topic_id,
    )


def not_known(topic: OfTopic[PartitionPosition], partition: int) -> Fetched:
    """The refusal of an id that no topic known here has."""
    return Fetched(
        TopicPartition("", partition), UnknownTopicId(f"no topic with id {topic.topic_id} is known here")
    )


class FetchAnswers:
    """Makes the answers of one broker."""

    def __init__(self, hints: LeaderHints) -> None:
        self._hints = hints

    def of(self, request: FetchRequest, call: Call, found: Iterable[Fetched]) -> FetchAnswer:
        """`found`: what was read at `positions`, in their order."""
        endpoints: dict[int, BrokerAddress] = {}
        each = (self.partition(fetched, request, call, endpoints) for fetched in _whole(request, found))
        topics = answering(request.topics, each)
        return FetchAnswer(topics, 0, tuple(endpoints.values()))

    def partition(
        self, fetched: Fetched, request: FetchRequest, call: Call, endpoints: dict[int, BrokerAddress]
    ) -> FetchedPartition:
        """One partition of an answer; the address of the leader that it names goes to `endpoints`. Without
        transactions, every committed record is stable.

        A high watermark that is not known may stand still for days, below min.insync.replicas. Clients that
        read to the end would wait for as long: they get the one that is known here, as from Kafka.
        """
        watermark = max(fetched.high_watermark, fetched.standing_watermark)
        code = fetch_code(fetched.error, call.version)
        hint = self._hints.of(fetched.name, code, call.caller.listener) if code else None
        if hint is not None and call.version >= ENDPOINTS_SINCE:
            endpoints[hint[0].broker] = hint[1]
        return FetchedPartition(
            fetched.name.partition,
            code,
            watermark,
            watermark,
            fetched.log_start_offset,
            fetched.records,
            None if hint is None else hint[0],
            () if request.isolation_level == READ_COMMITTED else None,
        )


def _whole(request: FetchRequest, found: Iterable[Fetched]) -> Iterator[Fetched]:
    """One for each partition of the request."""
    read = iter(found)
    for topic in request.topics:
        for asked in topic.partitions:
            yield not_known(topic, asked.partition) if topic.unknown else next(read)
