"""CreateTopics, DeleteTopics and CreatePartitions."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.admin.configs import GivenConfig
from strandline.broker.kafka.wire.admin.topic_changes import (
    CreatedConfig,
    CreatedTopic,
    CreatePartitionsAnswer,
    CreatePartitionsRequest,
    CreateTopicsAnswer,
    CreateTopicsRequest,
    DeletedTopic,
    DeleteTopicsAnswer,
    DeleteTopicsRequest,
    GivenReplicas,
    GrownTopic,
    TopicGrowth,
    UnwantedTopic,
    WantedTopic,
)
from strandline.broker.kafka.wire.apis import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS
from tests.broker.kafka.support.kio_codec import NO_ID, Values
from tests.broker.kafka.support.mapped.mapped import Mapped

# --- CreateTopics -----------------------------------------------------------------------------


def create_request(asked: Values, version: int) -> CreateTopicsRequest:
    topics = tuple(map(wanted, asked["topics"]))
    return CreateTopicsRequest(topics, asked["timeout_ms"], asked.get("validate_only", False))


def wanted(t: Values) -> WantedTopic:
    return WantedTopic(
        t["name"],
        t["num_partitions"],
        t["replication_factor"],
        tuple(GivenReplicas(a["partition_index"], tuple(a["broker_ids"])) for a in t["assignments"]),
        tuple(GivenConfig(c["name"], c["value"]) for c in t["configs"]),
    )


def create_answer(found: Values, version: int) -> CreateTopicsAnswer:
    return CreateTopicsAnswer(tuple(map(created, found["topics"])))


def created(t: Values) -> CreatedTopic:
    configs = t.get("configs")
    return CreatedTopic(
        t["name"],
        t["error_code"],
        t.get("error_message"),
        t.get("topic_id", NO_ID),
        t.get("num_partitions", -1),
        t.get("replication_factor", -1),
        None if configs is None else tuple(map(config, configs)),
    )


def config(c: Values) -> CreatedConfig:
    return CreatedConfig(c["name"], c["value"], c["read_only"], c["config_source"], c["is_sensitive"])


# --- DeleteTopics -----------------------------------------------------------------------------


def delete_request(asked: Values, version: int) -> DeleteTopicsRequest:
    if version >= 6:
        topics = tuple(UnwantedTopic(t["name"], t["topic_id"]) for t in asked["topics"])
    else:
        topics = tuple(UnwantedTopic(name) for name in asked["topic_names"])
    return DeleteTopicsRequest(topics, asked["timeout_ms"])


def delete_answer(found: Values, version: int) -> DeleteTopicsAnswer:
    return DeleteTopicsAnswer(
        tuple(
            DeletedTopic(t["name"], t.get("topic_id", NO_ID), t["error_code"], t.get("error_message"))
            for t in found["responses"]
        )
    )


# --- CreatePartitions -------------------------------------------------------------------------


def grow_request(asked: Values, version: int) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        tuple(map(growth, asked["topics"])), asked["timeout_ms"], asked["validate_only"]
    )


def growth(t: Values) -> TopicGrowth:
    given = t["assignments"]
    assignments = None if given is None else tuple(tuple(a["broker_ids"]) for a in given)
    return TopicGrowth(t["name"], t["count"], assignments)


def grow_answer(found: Values, version: int) -> CreatePartitionsAnswer:
    return CreatePartitionsAnswer(
        tuple(GrownTopic(t["name"], t["error_code"], t["error_message"]) for t in found["results"])
    )


MAPPED: Final = (
    Mapped(CREATE_TOPICS, create_request, create_answer, {"topic_config_error_code": 0}),
    Mapped(DELETE_TOPICS, delete_request, delete_answer),
    Mapped(CREATE_PARTITIONS, grow_request, grow_answer),
)
