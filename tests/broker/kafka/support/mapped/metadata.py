"""Metadata."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.apis import METADATA
from strandline.broker.kafka.wire.metadata import (
    OPERATIONS_UNKNOWN,
    BrokerAddress,
    MetadataAnswer,
    MetadataRequest,
    PartitionFacts,
    TopicFacts,
    TopicWanted,
)
from tests.broker.kafka.support.kio_codec import NO_ID, Values
from tests.broker.kafka.support.mapped.mapped import Mapped


def request(asked: Values, version: int) -> MetadataRequest:
    topics = asked["topics"]
    if version == 0 and not topics:
        topics = None  # empty meant all, before there was null
    wanted = None
    if topics is not None:
        wanted = tuple(TopicWanted(each["name"], each.get("topic_id", NO_ID)) for each in topics)
    return MetadataRequest(
        wanted,
        asked.get("allow_auto_topic_creation", True),
        asked.get("include_cluster_authorized_operations", False),
        asked.get("include_topic_authorized_operations", False),
    )


def answer(found: Values, version: int) -> MetadataAnswer:
    return MetadataAnswer(
        tuple(BrokerAddress(b["node_id"], b["host"], b["port"], b.get("rack")) for b in found["brokers"]),
        found.get("cluster_id"),
        found.get("controller_id", -1),
        tuple(map(topic, found["topics"])),
        found.get("cluster_authorized_operations", OPERATIONS_UNKNOWN),
    )


def topic(t: Values) -> TopicFacts:
    partitions = tuple(map(partition, t["partitions"]))
    return TopicFacts(
        t["name"],
        t["error_code"],
        t.get("topic_id", NO_ID),
        t.get("is_internal", False),
        partitions,
        t.get("topic_authorized_operations", OPERATIONS_UNKNOWN),
    )


def partition(p: Values) -> PartitionFacts:
    return PartitionFacts(
        p["partition_index"],
        p["error_code"],
        p["leader_id"],
        p.get("leader_epoch", -1),
        tuple(p["replica_nodes"]),
        tuple(p["isr_nodes"]),
        tuple(p.get("offline_replicas", ())),
    )


MAPPED: Final = (Mapped(METADATA, request, answer),)
