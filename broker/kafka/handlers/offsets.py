"""Answers ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import KafkaCode, code_of, list_offsets_code
from strandline.broker.kafka.wire.offsets import (
    EpochEndsAnswer,
    EpochEndsRequest,
    ListOffsetsAnswer,
    ListOffsetsRequest,
    OffsetAtTime,
    PartitionEpochEnd,
)
from strandline.broker.kafka.wire.topics import by_topic, each_partition
from strandline.broker.log.handlers import Handlers
from strandline.ids import TopicPartition
from strandline.vocabulary.log import EARLIEST, EpochQuery, ListedOffset, OffsetQuery


class OffsetsApi:
    """Both, for all connections of one broker."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    async def list_offsets(self, request: ListOffsetsRequest, call: Call) -> ListOffsetsAnswer:
        """Times below -2 are newer inventions of Kafka (the largest timestamp, tiered storage); they get
        UNSUPPORTED_VERSION."""
        wanted = list(each_partition(request.topics))
        served = [
            (TopicPartition(topic, asked.partition), asked)
            for topic, asked in wanted
            if asked.timestamp_ms >= EARLIEST
        ]
        queries = [OffsetQuery(name, asked.timestamp_ms) for name, asked in served]
        known_epochs = {name: asked.leader_epoch for name, asked in served}
        listed = iter(await self._handlers.list_offsets(queries, known_epochs))
        return ListOffsetsAnswer(
            by_topic(
                (
                    topic,
                    _partition(next(listed), call.version)
                    if asked.timestamp_ms >= EARLIEST
                    else OffsetAtTime(asked.partition, int(KafkaCode.UNSUPPORTED_VERSION)),
                )
                for topic, asked in wanted
            )
        )

    async def epoch_ends(self, request: EpochEndsRequest, call: Call) -> EpochEndsAnswer:
        """Clients ask after a change of leader, to learn whether records that they read are gone."""
        queries = [
            EpochQuery(TopicPartition(topic, asked.partition), asked.epoch, asked.current_epoch)
            for topic, asked in each_partition(request.topics)
        ]
        ends = await self._handlers.epoch_ends(queries)
        return EpochEndsAnswer(
            by_topic(
                (
                    end.name.topic,
                    PartitionEpochEnd(end.name.partition, code_of(end.error), end.epoch, end.end_offset),
                )
                for end in ends
            )
        )


def _partition(listed: ListedOffset, version: int) -> OffsetAtTime:
    return OffsetAtTime(
        listed.name.partition,
        list_offsets_code(listed.error, version),
        listed.timestamp_ms,
        listed.offset,
        listed.leader_epoch,
    )
