"""Subscriptions and assignments as Kafka's clients write them, by kafka-python's encoder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from strandline.ids import TopicPartition


def kafka_subscription(
    version: int,
    topics: Sequence[str],
    owned: Iterable[TopicPartition],
    generation: int,
    *,
    user_data: bytes | None = None,
    rack: str | None = None,
) -> bytes:
    """A ConsumerProtocolSubscription; a version writes the fields that it has."""
    kind = ConsumerProtocolSubscription.TopicPartition
    claims = [kind(topic=topic, partitions=numbers) for topic, numbers in by_topic(owned)]
    data: bytes = ConsumerProtocolSubscription(
        version=version,
        topics=list(topics),
        user_data=user_data,
        owned_partitions=claims,
        generation_id=generation,
        rack_id=rack,
    ).encode()
    return data


def kafka_assignment(version: int, assigned: Iterable[TopicPartition]) -> bytes:
    """A ConsumerProtocolAssignment."""
    data: bytes = ConsumerProtocolAssignment(version, by_topic(assigned), b"").encode()
    return data


def by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    """Each topic with its partitions."""
    return [
        (topic, [name.partition for name in names])
        for topic, names in groupby(sorted(partitions), key=lambda name: name.topic)
    ]
