"""Answers ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from collections import Counter
from typing import Final

from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import KafkaCode, code_of, list_offsets_code
from strandline.broker.kafka.wire.fetch import ISOLATION_LEVELS, READ_COMMITTED
from strandline.broker.kafka.wire.offsets import (
    DEBUGGING,
    EpochEndsAnswer,
    EpochEndsRequest,
    ListOffsetsAnswer,
    ListOffsetsRequest,
    OffsetAtTime,
    PartitionEpochEnd,
    PartitionTime,
)
from strandline.broker.kafka.wire.topics import answering, by_topic, each_partition
from strandline.broker.log.handlers import Handlers
from strandline.errors import ErrorCode
from strandline.ids import NO_EPOCH, TopicPartition
from strandline.vocabulary.log import EARLIEST, MAX_TIMESTAMP, EpochQuery, ListedOffset, OffsetQuery

MAX_TIMESTAMP_SINCE: Final = 7
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
TIERED_SINCE: Final = {EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""Times of tiered storage, and the versions that brought them. The local log is the whole one here: it begins
where the log does, and no offset is the last one of another tier, or the next one to go there."""
TIMES_SINCE: Final = {MAX_TIMESTAMP: MAX_TIMESTAMP_SINCE, **TIERED_SINCE}


class OffsetsApi:
    """Both, for all connections of one broker."""

    def __init__(self, log: Handlers) -> None:
        self._log = log

    async def list_offsets(self, request: ListOffsetsRequest, call: Call) -> ListOffsetsAnswer:
        """A time that the version does not have gets UNSUPPORTED_VERSION. So does -3 for a log whose latest
        record was compacted away: the log does not know then which record has the latest time. As from Kafka,
        a partition that is named twice is refused, and has one answer."""
        named = [
            (TopicPartition(topic, asked.partition), asked) for topic, asked in each_partition(request.topics)
        ]
        times, wanted = Counter(name for name, _ in named), dict(named)
        refused = {
            name: code
            for name, asked in wanted.items()
            if (code := _refusal(asked, request.isolation_level, times[name], call.version))
        }
        served = {name: asked for name, asked in wanted.items() if name not in refused}
        stable = request.isolation_level == READ_COMMITTED
        queries = [
            OffsetQuery(
                name, EARLIEST if asked.timestamp_ms in TIERED_SINCE else asked.timestamp_ms, stable=stable
            )
            for name, asked in served.items()
        ]
        known_epochs = {name: asked.leader_epoch for name, asked in served.items()}
        listed = await self._log.list_offsets(
            queries, call.caller, known_epochs, from_follower=request.replica == DEBUGGING
        )
        found = {each.name: _partition(each, served[each.name], call.version) for each in listed}
        found |= {name: OffsetAtTime(name.partition, code) for name, code in refused.items()}
        return ListOffsetsAnswer(by_topic((name.topic, found[name]) for name in wanted))

    async def epoch_ends(self, request: EpochEndsRequest, call: Call) -> EpochEndsAnswer:
        """Clients ask after a change of leader, to learn whether records that they read are gone."""
        queries = [
            EpochQuery(TopicPartition(topic, asked.partition), asked.epoch, asked.current_epoch)
            for topic, asked in each_partition(request.topics)
        ]
        ends = await self._log.epoch_ends(queries, call.caller)
        each = (
            PartitionEpochEnd(end.name.partition, code_of(end.error), end.epoch, end.end_offset)
            for end in ends
        )
        return EpochEndsAnswer(answering(request.topics, each))


def _refusal(asked: PartitionTime, isolation_level: int, times: int, version: int) -> int:
    """The error of a partition that is not looked up; 0 for one that is. `times`: how often it is named."""
    if isolation_level not in ISOLATION_LEVELS:
        return int(ErrorCode.UNKNOWN_SERVER_ERROR)
    if times > 1:
        return int(ErrorCode.INVALID_REQUEST)
    return 0 if _is_served(asked, version) else int(KafkaCode.UNSUPPORTED_VERSION)


def _is_served(asked: PartitionTime, version: int) -> bool:
    time = asked.timestamp_ms
    return time >= EARLIEST_PENDING_UPLOAD and version >= TIMES_SINCE.get(time, 0)


def _partition(listed: ListedOffset, asked: PartitionTime, version: int) -> OffsetAtTime:
    code = list_offsets_code(listed.error, version)
    if asked.timestamp_ms == MAX_TIMESTAMP and code == ErrorCode.INVALID_REQUEST:
        code = int(KafkaCode.UNSUPPORTED_VERSION)
    if asked.timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return OffsetAtTime(listed.name.partition, code)
    epoch = NO_EPOCH if listed.offset < 0 else listed.leader_epoch
    return OffsetAtTime(listed.name.partition, code, listed.timestamp_ms, listed.offset, epoch)
