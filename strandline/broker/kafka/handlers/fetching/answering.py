"""What was read, as the answer to a Fetch request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from strandline.broker.core.fetch_sessions.session import key_of
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import KafkaCode, fetch_code
from strandline.broker.kafka.handlers.fetching.preferred import PreferredReplicas
from strandline.broker.kafka.handlers.leader_hints import LeaderHints
from strandline.broker.kafka.handlers.topic_ids import unknown_id
from strandline.broker.kafka.wire.fetch import (
    ENDPOINTS_SINCE,
    READ_COMMITTED,
    AbortedTransaction,
    FetchAnswer,
    FetchedPartition,
    FetchRequest,
    PartitionPosition,
)
from strandline.broker.kafka.wire.metadata import BrokerAddress
from strandline.broker.kafka.wire.topics import OfTopic, Topics
from strandline.errors import ErrorCode, UnknownServerError
from strandline.ids import NO_BROKER, BrokerId, TopicPartition
from strandline.vocabulary.log import Fetched, FetchPartition

NOT_THERE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
"""Beside these, Kafka's brokers have an empty list of transactions, and null beside other errors."""

Elsewhere = Mapping[TopicPartition, BrokerId]
"""The followers to which an answer sends its client, by the partitions that it is to read there."""


def positions_of(request: FetchRequest, topics: Topics[PartitionPosition]) -> list[FetchPartition]:
    """The positions of a request, whose topics have names by now, but for those that are not known here. A
    client that names its rack reads from followers too. Of a partition that is named twice, the last one
    counts, as in Kafka."""
    positions = [
        FetchPartition(
            TopicPartition(topic.name, asked.partition),
            asked.offset,
            asked.leader_epoch,
            asked.bytes_max,
            topic.topic_id,
            from_follower=bool(request.rack),
            stable=is_stable(request),
        )
        for topic in topics
        for asked in topic.partitions
    ]
    last = {key_of(position): position for position in positions}
    return positions if len(last) == len(positions) else list(last.values())


def is_unknown(position: FetchPartition) -> bool:
    """True for the id of a topic that is not known here."""
    return bool(position.topic_id) and not position.name.topic


def is_unread(position: FetchPartition) -> bool:
    """True for a position at which nothing can be read: see `unread`."""
    return is_unknown(position) or position.bytes_max < 0


def unread(position: FetchPartition) -> Fetched:
    """The refusal of a topic that is not known here; of a negative number of bytes, by Kafka's code."""
    if is_unknown(position):
        return Fetched(position.name, unknown_id(position.topic_id))
    return Fetched(position.name, UnknownServerError(f"{position.bytes_max} bytes at most"))


class FetchAnswers:
    """Makes the answers of one broker."""

    def __init__(self, hints: LeaderHints, preferred: PreferredReplicas) -> None:
        self._hints = hints
        self._preferred = preferred

    def elsewhere(self, positions: Iterable[FetchPartition], request: FetchRequest, call: Call) -> Elsewhere:
        """Of the partitions of these positions, those that the client is to read at a follower."""
        if not request.rack:
            return {}
        to = call.caller.listener
        found = {each.name: self._preferred.of(each.name, request.rack, to) for each in positions}
        return {name: broker for name, broker in found.items() if broker != NO_BROKER}

    def of(
        self,
        found: Iterable[tuple[FetchPartition, Fetched]],
        request: FetchRequest,
        call: Call,
        session_id: int,
        elsewhere: Elsewhere,
    ) -> FetchAnswer:
        """What was read at each position, in this order; neighbours of one topic are together."""
        endpoints: dict[int, BrokerAddress] = {}
        topics: list[tuple[FetchPartition, list[FetchedPartition]]] = []
        for position, fetched in found:
            if not topics or not _same_topic(topics[-1][0], position):
                topics.append((position, []))
            topics[-1][1].append(self._partition(fetched, request, call, endpoints, elsewhere))
        each = [OfTopic(first.name.topic, tuple(found), first.topic_id) for first, found in topics]
        return FetchAnswer(tuple(each), session_id=session_id, endpoints=tuple(endpoints.values()))

    def _partition(
        self,
        fetched: Fetched,
        request: FetchRequest,
        call: Call,
        endpoints: dict[int, BrokerAddress],
        elsewhere: Elsewhere,
    ) -> FetchedPartition:
        """One partition of an answer; the address of the leader that it names goes to `endpoints`.

        A high watermark that is not known may stand still for days, below min.insync.replicas. Clients that
        read to the end would wait for as long: they get the one that is known here, as from Kafka.
        """
        watermark = max(fetched.high_watermark, fetched.standing_watermark)
        code = fetch_code(fetched.error, call.version)
        if code == ErrorCode.UNKNOWN_TOPIC_ID and fetched.name.topic and request.session_id:
            code = int(KafkaCode.INCONSISTENT_TOPIC_ID)  # as Kafka: the session knew the topic
        hint = self._hints.of(fetched.name, code, call.caller.listener) if code else None
        if hint is not None and call.version >= ENDPOINTS_SINCE:
            endpoints[hint[0].broker] = hint[1]
        return FetchedPartition(
            fetched.name.partition,
            code,
            watermark,
            watermark if fetched.stable_offset < 0 else fetched.stable_offset,
            fetched.log_start_offset,
            fetched.records,
            None if hint is None else hint[0],
            _aborted(fetched, request, code),
            NO_BROKER if code else elsewhere.get(fetched.name, NO_BROKER),
        )


def _aborted(fetched: Fetched, request: FetchRequest, code: int) -> Sequence[AbortedTransaction] | None:
    if fetched.aborted:
        return [AbortedTransaction(*each) for each in fetched.aborted]
    return () if is_stable(request) or code in NOT_THERE else None


def is_stable(request: FetchRequest) -> bool:
    """Whether the client asks for records of transactions that ended well."""
    return request.isolation_level == READ_COMMITTED


def _same_topic(one: FetchPartition, other: FetchPartition) -> bool:
    return one.topic_id == other.topic_id and one.name.topic == other.name.topic
