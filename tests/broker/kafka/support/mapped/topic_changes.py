"""CreateTopics."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.admin.topic_changes import (
    CreatedConfig,
    CreatedTopic,
    CreateTopicsAnswer,
    CreateTopicsRequest,
    GivenConfig,
    GivenReplicas,
    WantedTopic,
)
from strandline.broker.kafka.wire.apis import CREATE_TOPICS
from tests.broker.kafka.support.kio_codec import NO_ID, Values
from tests.broker.kafka.support.mapped.mapped import Mapped


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


MAPPED: Final = (Mapped(CREATE_TOPICS, create_request, create_answer, {"topic_config_error_code": 0}),)
