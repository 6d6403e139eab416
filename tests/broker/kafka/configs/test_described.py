"""Configs as Kafka clients read them: values in force, and where they come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strandline.broker.kafka.configs.broker_names import broker_configs
from strandline.broker.kafka.configs.described import topic_configs
from strandline.broker.kafka.configs.kinds import Kind, canonical
from strandline.broker.kafka.configs.topic_names import OWN, REMOVED
from strandline.broker.kafka.wire.admin.configs import (
    BROKER_FILE,
    DEFAULT_VALUE,
    TOPIC_OWN,
    DescribedConfig,
    Synonym,
)
from strandline.broker.metadata.topic_outlines import TopicOutline
from strandline.config.services.broker import BrokerSettings
from strandline.ids import TopicId
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.topic_config import TopicConfig


def described(replication_factor: int = 3, **config: str) -> dict[str, DescribedConfig]:
    given = {name.replace("_", "."): value for name, value in config.items()}
    outline = TopicOutline("t", TopicId("i"), 1, replication_factor, given)
    return {each.name: each for each in topic_configs(outline)}


def of_broker(**settings: Any) -> dict[str, DescribedConfig]:
    own = Endpoint(7, "h", 1, kafka=("kafka.example", 9094))
    given = BrokerSettings(broker_id=7, data_dir=Path("/data"), **settings)
    return {each.name: each for each in broker_configs(given, own)}


def test_an_own_value_stands_before_the_default() -> None:
    found = described(retention_bytes="5")["retention.bytes"]
    default = Synonym("log.retention.bytes", "-1", DEFAULT_VALUE)
    assert (found.value, found.source) == ("5", TOPIC_OWN)
    assert found.synonyms == (Synonym("retention.bytes", "5", TOPIC_OWN), default)
    unset = described()["retention.bytes"]
    assert (unset.value, unset.source, unset.synonyms) == ("-1", DEFAULT_VALUE, (default,))


@pytest.mark.parametrize("name", ["retention.ms", "segment.ms", "flush.ms"])
def test_a_default_that_kafka_has_in_hours_is_no_synonym(name: str) -> None:
    """Its broker's config in milliseconds is not set. The value in force is shown nevertheless."""
    own: dict[str, Any] = {name: "5"}
    found, unset = described(**own)[name], described()[name]
    assert (found.value, found.source) == ("5", TOPIC_OWN)
    assert found.synonyms == (Synonym(name, "5", TOPIC_OWN),)
    assert unset.value and (unset.source, unset.synonyms) == (DEFAULT_VALUE, ())


def test_defaults_are_a_topics_config() -> None:
    """A client that sets what it read changes nothing. It may set all, and is shown no name that Kafka has
    removed."""
    shown = described(1)
    assert not any(each.read_only for each in shown.values()) and not REMOVED & shown.keys()
    own = {each.name: shown[each.name].value for each in OWN}
    parsed = TopicConfig.parse({name: value for name, value in own.items() if value is not None})
    expected = TopicConfig(min_insync_replicas=1)
    assert parsed.model_dump() == expected.model_dump()


@pytest.mark.parametrize(("replicas", "bound"), [(1, "1"), (2, "1"), (3, "2"), (5, "2")])
def test_the_default_bound_on_replicas_in_sync_is_that_of_the_topic(replicas: int, bound: str) -> None:
    """CORRECTNESS I11."""
    assert described(replicas)["min.insync.replicas"].value == bound


def test_values_are_of_their_types_and_documented() -> None:
    for each in [*described().values(), *of_broker().values()]:
        assert each.value is not None
        assert canonical(each.name, Kind(each.kind), each.value) == each.value and each.documentation, (
            each.name
        )


def test_a_brokers_settings_say_whether_they_were_given() -> None:
    found = of_broker(num_partitions=5, kafka_auto_create_topics=False)
    assert (found["num.partitions"].value, found["num.partitions"].source) == ("5", BROKER_FILE)
    assert found["default.replication.factor"].source == DEFAULT_VALUE
    assert found["auto.create.topics.enable"].value == "false"
    assert found["advertised.listeners"].value == "PLAINTEXT://kafka.example:9094"
    assert found["log.dirs"].value == "/data"
    assert found["sasl.enabled.mechanisms"].value == ""
    assert all(each.read_only and each.synonyms[0].value == each.value for each in found.values())


def test_a_broker_says_how_clients_log_in() -> None:
    """Clients that show or test logins ask for these names."""
    found = of_broker(
        kafka_port=0,
        kafka_security_protocol="SASL_PLAINTEXT",
        sasl_enabled_mechanisms="SCRAM-SHA-512,SCRAM-SHA-256",
        connections_max_reauth_ms=5_000,
    )
    assert found["advertised.listeners"].value == "SASL_PLAINTEXT://kafka.example:9094"
    assert found["sasl.enabled.mechanisms"].value == "SCRAM-SHA-512,SCRAM-SHA-256"
    assert found["connections.max.reauth.ms"].value == "5000"
