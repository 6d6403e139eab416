"""Kafka's config names are taken where their values are true here, and refused with a reason otherwise."""

from __future__ import annotations

import pytest

from strandline.broker.kafka.configs.given import topic_config
from strandline.broker.kafka.configs.topic_names import (
    BY_NAME,
    FIXED,
    IGNORED,
    OWN,
    FixedConfig,
    IgnoredConfig,
)
from strandline.errors import InvalidConfig, InvalidRequest
from strandline.vocabulary.topic_config import TopicConfig


def test_the_table_has_each_config_of_strandline_once() -> None:
    assert {each.name for each in OWN} == {
        field.alias or name for name, field in TopicConfig.model_fields.items()
    }
    assert len(BY_NAME) == len(OWN) + len(FIXED) + len(IGNORED)


def test_what_is_strandlines_is_passed_on_and_what_is_true_is_left_out() -> None:
    """As Kafka Streams and Connect create their topics."""
    given = {
        "cleanup.policy": "compact, delete",
        "segment.bytes": " 52428800",
        "unclean.leader.election.enable": "TRUE",
        "message.timestamp.type": "LogAppendTime",
        "segment.index.bytes": "52428800",
        "compression.type": "zstd",
        "message.timestamp.difference.max.ms": "9223372036854775807",
        "leader.replication.throttled.replicas": "",
        "preallocate": "TRUE",
        "segment.jitter.ms": "60000",
        "local.retention.ms": "1000",
        "errors.deadletterqueue.group.enable": "true",
    }
    assert topic_config(list(given.items())) == {
        "cleanup.policy": "compact,delete",
        "compression.type": "zstd",
        "message.timestamp.type": "LogAppendTime",
        "segment.bytes": "52428800",
        "unclean.leader.election.enable": "true",
    }


def test_a_new_topic_that_names_a_config_twice_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"retention\.ms stands more than once"):
        topic_config([("retention.ms", "1"), ("segment.ms", "7"), ("retention.ms", "2")])


@pytest.mark.parametrize("known", [*FIXED, *IGNORED], ids=lambda each: each.name)
def test_what_clients_read_they_may_set(known: FixedConfig | IgnoredConfig) -> None:
    assert topic_config([(known.name, known.value)]) == {}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("message.timestamp.difference.max.ms", "1000", "Removed from Kafka"),
        ("remote.storage.enable", "true", "no tiered storage"),
        ("follower.replication.throttled.replicas", "*", "by a reassignment"),
        ("segment.index.bytes", "ten", "no whole number"),
        ("segment.index.bytes", "3000000000", "no whole number"),
        ("segment.index.bytes", "9" * 1_000, "no whole number"),
        ("retention.ms", str(2**63), f"'{2**63}' is no whole number .* to {2**63 - 1}$"),
        ("retention.ms", "inf", "no whole number"),
        ("preallocate", "perhaps", "true or false"),
        ("max.compaction.lag.ms", "1.5", "no whole number"),
        ("retention", "1", "unknown topic config"),
        ("retention.ms", None, "has no value"),
    ],
)
def test_another_value_is_refused_with_the_reason(name: str, value: str | None, reason: str) -> None:
    with pytest.raises(InvalidConfig, match=reason):
        topic_config([(name, value)])
