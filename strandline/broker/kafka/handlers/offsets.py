"""Answers ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from typing import Final

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
from strandline.vocabulary.log import EARLIEST, MAX_TIMESTAMP, EpochQuery, ListedOffset, OffsetQuery

EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
TIERED_SINCE: Final = {EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""Times of tiered storage, and the versions that brought them. The local log is the whole one here: it begins
where the log does, and no offset is the last one of another tier, or the next one to go there."""


class OffsetsApi:
    """Both, for all connections of one broker."""

    def __init__(self, log: Handlers) -> None:
        self._log = log

    async def list_offsets(self, request: ListOffsetsRequest, call: Call) -> ListOffsetsAnswer:
        """A time that the version does not have gets UNSUPPORTED_VERSION. So does -3 for a log whose latest
        record was compacted away: the log does not know then which record has the latest time."""
        wanted = list(each_partition(request.topics))
        served = [
            (TopicPartition(topic, asked.partition), asked)
            for topic, asked in wanted
            if _is_served(asked, call.version)
        ]
        queries = [
            OffsetQuery(name, EARLIEST if asked.timestamp_ms in TIERED_SINCE else asked.timestamp_ms)
            for name, asked in served
        ]
        known_epochs = {name: asked.leader_epoch for name, asked in served}
        listed = iter(await self._log.list_offsets(queries, call.caller, known_epochs))
        return ListOffsetsAnswer(
            by_topic(
                (
                    topic,
                    _partition(next(listed), asked, call.version)
                    if _is_served(asked, call.version)
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


def _is_served(asked: PartitionTime, version: int) -> bool:
    time = asked.timestamp_ms
    return time >= MAX_TIMESTAMP or (time in TIERED_SINCE and version >= TIERED_SINCE[time])


def _partition(listed: ListedOffset, asked: PartitionTime, version: int) -> OffsetAtTime:
    code = list_offsets_code(listed.error, version)
    if asked.timestamp_ms == MAX_TIMESTAMP and code == ErrorCode.INVALID_REQUEST:
        code = int(KafkaCode.UNSUPPORTED_VERSION)
    if asked.timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return OffsetAtTime(listed.name.partition, code)
    return OffsetAtTime(listed.name.partition, code, listed.timestamp_ms, listed.offset, listed.leader_epoch)
