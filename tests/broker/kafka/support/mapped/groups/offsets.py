"""OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

from typing import Any, Final

from strandline.broker.kafka.wire.apis import OFFSET_COMMIT, OFFSET_DELETE, OFFSET_FETCH
from strandline.broker.kafka.wire.groups.offsets import (
    GroupWanted,
    OffsetCommitAnswer,
    OffsetCommitRequest,
    OffsetDeleteAnswer,
    OffsetDeleteRequest,
    OffsetFetchAnswer,
    OffsetFetchRequest,
    OffsetsOfGroup,
    OffsetToCommit,
    PartitionOffset,
    PartitionResult,
)
from strandline.broker.kafka.wire.topics import OfTopic, Topics
from tests.broker.kafka.support.kio_codec import SHORT_TEXT, Values
from tests.broker.kafka.support.mapped.mapped import Mapped, by_topic


def commit_request(asked: Values, version: int) -> OffsetCommitRequest:
    def offset(p: Values) -> OffsetToCommit:
        epoch = p.get("committed_leader_epoch", -1)
        return OffsetToCommit(p["partition_index"], p["committed_offset"], epoch, p["committed_metadata"])

    return OffsetCommitRequest(
        asked["group_id"],
        asked["generation_id_or_member_epoch"],
        asked["member_id"],
        by_topic(asked["topics"], offset),
        asked.get("group_instance_id"),
    )


def commit_answer(found: Values, version: int) -> OffsetCommitAnswer:
    return OffsetCommitAnswer(by_topic(found["topics"], result))


def result(p: Values) -> PartitionResult:
    return PartitionResult(p["partition_index"], p["error_code"])


def numbers(topics: list[Values] | None) -> Topics[int] | None:
    if topics is None:
        return None
    return tuple(OfTopic(topic["name"], tuple(topic["partition_indexes"])) for topic in topics)


def fetch_request(asked: Values, version: int) -> OffsetFetchRequest:
    groups = asked["groups"] if version >= 8 else [asked]
    return OffsetFetchRequest(tuple(GroupWanted(g["group_id"], numbers(g["topics"])) for g in groups))


def fetch_answer(found: Values, version: int) -> OffsetFetchAnswer:
    def offset(p: Values) -> PartitionOffset:
        epoch = p.get("committed_leader_epoch", -1)
        return PartitionOffset(
            p["partition_index"], p["committed_offset"], epoch, p["metadata"], p["error_code"]
        )

    groups = found["groups"] if version >= 8 else [found]
    return OffsetFetchAnswer(
        tuple(
            OffsetsOfGroup(g.get("group_id", ""), by_topic(g["topics"], offset), g.get("error_code", 0))
            for g in groups
        )
    )


def delete_request(asked: Values, version: int) -> OffsetDeleteRequest:
    def number(p: Values) -> Any:
        return p["partition_index"]

    return OffsetDeleteRequest(asked["group_id"], by_topic(asked["topics"], number))


def delete_answer(found: Values, version: int) -> OffsetDeleteAnswer:
    return OffsetDeleteAnswer(found["error_code"], by_topic(found["topics"], result))


MAPPED: Final = (
    Mapped(OFFSET_COMMIT, commit_request, commit_answer),
    Mapped(OFFSET_FETCH, fetch_request, fetch_answer, {"metadata": SHORT_TEXT}),
    Mapped(OFFSET_DELETE, delete_request, delete_answer),
)
