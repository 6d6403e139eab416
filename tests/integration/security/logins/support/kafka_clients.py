"""Settings with which Kafka clients log in without encryption, and whether a login succeeds."""

from __future__ import annotations

from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from strandline.local.cluster import LocalCluster
from strandline.security.login.mechanisms import SCRAM_SHA_512
from tests.integration.security.logins.support.users import PASSWORD


def of_librdkafka(
    cluster: LocalCluster, mechanism: str, user: str = "alice", password: str = PASSWORD
) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.kafka_bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def of_python(
    cluster: LocalCluster, mechanism: str, user: str = "alice", password: str = PASSWORD
) -> dict[str, Any]:
    """Of aiokafka and kafka-python."""
    return {
        "bootstrap_servers": cluster.kafka_bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


async def logs_in(
    cluster: LocalCluster, user: str, password: str, mechanism: str = SCRAM_SHA_512, **other: Any
) -> bool:
    """Whether a client connects, with `other` settings besides."""
    client = AIOKafkaProducer(**{**of_python(cluster, mechanism, user, password), **other})
    try:
        await client.start()
    except KafkaError:
        return False
    finally:
        await client.stop()
    return True
