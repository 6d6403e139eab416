"""ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.apis import LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from strandline.broker.kafka.wire.offsets import (
    EpochEndsAnswer,
    EpochEndsRequest,
    ListOffsetsAnswer,
    ListOffsetsRequest,
    OffsetAtTime,
    PartitionEpoch,
    PartitionEpochEnd,
    PartitionTime,
)
from tests.broker.kafka.support.kio_codec import Values
from tests.broker.kafka.support.mapped.mapped import Mapped, by_topic


def list_request(asked: Values, version: int) -> ListOffsetsRequest:
    def time(p: Values) -> PartitionTime:
        return PartitionTime(p["partition_index"], p.get("current_leader_epoch", -1), p["timestamp"])

    return ListOffsetsRequest(by_topic(asked["topics"], time))


def list_answer(found: Values, version: int) -> ListOffsetsAnswer:
    def offset(p: Values) -> OffsetAtTime:
        return OffsetAtTime(
            p["partition_index"], p["error_code"], p["timestamp"], p["offset"], p.get("leader_epoch", -1)
        )

    return ListOffsetsAnswer(by_topic(found["topics"], offset))


def ends_request(asked: Values, version: int) -> EpochEndsRequest:
    def epoch(p: Values) -> PartitionEpoch:
        return PartitionEpoch(p["partition"], p["current_leader_epoch"], p["leader_epoch"])

    return EpochEndsRequest(by_topic(asked["topics"], epoch, name="topic"))


def ends_answer(found: Values, version: int) -> EpochEndsAnswer:
    def end(p: Values) -> PartitionEpochEnd:
        return PartitionEpochEnd(p["partition"], p["error_code"], p["leader_epoch"], p["end_offset"])

    return EpochEndsAnswer(by_topic(found["topics"], end, name="topic"))


MAPPED: Final = (
    Mapped(LIST_OFFSETS, list_request, list_answer),
    Mapped(OFFSET_FOR_LEADER_EPOCH, ends_request, ends_answer),
)
