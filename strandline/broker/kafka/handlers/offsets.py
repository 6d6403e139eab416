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
    PartitionTime,
)
from strandline.broker.kafka.wire.topics import by_topic, each_partition
from strandline.broker.log.handlers import Handlers
from strandline.errors import ErrorCode
from strandline.ids import TopicPartition
from strandline.vocabulary.log import MAX_TIMESTAMP, EpochQuery, ListedOffset, OffsetQuery


class OffsetsApi:
    """Both, for all connections of one broker."""

    def __init__(self, log: Handlers) -> None:
        self._log = log

    async def list_offsets(self, request: ListOffsetsRequest, call: Call) -> ListOffsetsAnswer:
        """Times below -3 are of Kafka's tiered storage; they get UNSUPPORTED_VERSION. So does -3 for a log
        whose latest record was compacted away: the log does not know then which record has the latest time.
        """
        wanted = list(each_partition(request.topics))
        served = [
            (TopicPartition(topic, asked.partition), asked)
            for topic, asked in wanted
            if asked.timestamp_ms >= MAX_TIMESTAMP
        ]
        queries = [OffsetQuery(name, asked.timestamp_ms) for name, asked in served]
        known_epochs = {name: asked.leader_epoch for name, asked in served}
        listed = iter(await self._log.list_offsets(queries, call.caller, known_epochs))
        return ListOffsetsAnswer(
            by_topic(
                (
                    topic,
                    _partition(next(listed), asked, call.version)
                    if asked.timestamp_ms >= MAX_TIMESTAMP
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
        ends = await self._log.epoch_ends(queries, call.caller)
        return EpochEndsAnswer(
            by_topic(
                (
                    end.name.topic,
                    PartitionEpochEnd(end.name.partition, code_of(end.error), end.epoch, end.end_offset),
                )
                for end in ends
            )
        )


def _partition(listed: ListedOffset, asked: PartitionTime, version: int) -> OffsetAtTime:
    code = list_offsets_code(listed.error, version)
    if asked.timestamp_ms == MAX_TIMESTAMP and code == ErrorCode.INVALID_REQUEST:
        code = int(KafkaCode.UNSUPPORTED_VERSION)
    return OffsetAtTime(listed.name.partition, code, listed.timestamp_ms, listed.offset, listed.leader_epoch)
