"""Unmodified Kafka clients log in to a running cluster by token."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError
from confluent_kafka import KafkaException, Producer
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider as PythonTokenProvider

from strandline import Admin
from strandline.cli.shell.clock import now
from strandline.local.cluster import LocalCluster
from strandline.security.acls import (
    AclBinding,
    Operation,
    Permission,
    ResourcePattern,
    ResourceType,
)
from strandline.security.login.mechanisms import OAUTHBEARER
from strandline.security.login.tokens import LEEWAY_S
from strandline.security.principal import Principal
from tests.conftest import ClusterFactory
from tests.issuer import AUDIENCE, ISSUER, Issuer
from tests.tls_files import TestAuthority

SECONDS = 20.0
COUNTS_S = 4.0
"""How long a token of the renewals counts: with the leeway, it may have ended before."""
TOKENS = 4
"""Of renewals: this many last longer than one of them counts."""


@dataclass(frozen=True)
class Stage:
    cluster: LocalCluster
    issuer: Issuer
    cafile: Path

    def token(self, valid_s: float = 600.0, **claims: Any) -> str:
        return self.issuer.token(now().timestamp() + valid_s, algorithm="ES256", **claims)

    def of_librdkafka(
        self, valid_s: float = 600.0, renewed_s: float = 600.0, **claims: Any
    ) -> dict[str, Any]:
        """The client renews its token before `renewed_s` have passed."""

        def give(_: str) -> tuple[str, float]:
            return self.token(valid_s, **claims), now().timestamp() + renewed_s

        return {
            "bootstrap.servers": self.cluster.kafka_bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.cafile),
            "sasl.mechanisms": OAUTHBEARER,
            "oauth_cb": give,
        }

    def of_python(self, provider: type) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.cluster.kafka_bootstrap,
            "security_protocol": "SASL_SSL",
            "ssl_context": ssl.create_default_context(cafile=str(self.cafile)),
            "sasl_mechanism": OAUTHBEARER,
            "sasl_oauth_token_provider": provider(self),
        }


class Provider(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
    """Of aiokafka."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def token(self) -> str:
        return self._stage.token()


class Strangers(Provider):
    """Its tokens are of another issuer."""

    async def token(self) -> str:
        return Issuer().token(now().timestamp() + 600, algorithm="ES256")


class PythonProvider(PythonTokenProvider):  # type: ignore[misc]  # the library has no types
    """Of kafka-python."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def token(self) -> str:
        return self._stage.token()


@pytest.fixture(scope="module")
async def stage(make_module_cluster: ClusterFactory, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """alice may do everything with the topic `tides`."""
    folder = tmp_path_factory.mktemp("issuer")
    issuer, authority = Issuer(), TestAuthority(folder)
    pair = authority.issue("broker", "127.0.0.1", "localhost")
    (folder / "keys.json").write_bytes(issuer.jwks)
    secure = {"authorizer": "acl", "super_users": "User:ANONYMOUS"}
    settings = {
        **secure,
        "kafka_security_protocol": "SASL_SSL",
        "sasl_enabled_mechanisms": OAUTHBEARER,
        "sasl_oauthbearer_jwks_file": str(folder / "keys.json"),
        "sasl_oauthbearer_expected_issuer": ISSUER,
        "sasl_oauthbearer_expected_audience": AUDIENCE,
        "ssl_cafile": str(authority.cafile),
        "ssl_certfile": str(pair.certfile),
        "ssl_keyfile": str(pair.keyfile),
    }
    cluster = await make_module_cluster(
        brokers=2, broker_settings=settings, controller_settings=secure, kafka=True
    )
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic("tides", replication_factor=2)
        of_alice = [(ResourceType.TOPIC, "tides"), (ResourceType.GROUP, "harbour")]
        await admin.create_acls(
            [
                AclBinding(
                    ResourcePattern(of, name), Principal("alice"), "*", Operation.ALL, Permission.ALLOW
                )
                for of, name in of_alice
            ]
        )
    return Stage(cluster, issuer, authority.cafile)


def written(settings: dict[str, Any], go_on: Callable[[], bool] = lambda: False) -> list[str]:
    """Writes a record, and more while it shall go on: the outcome of each, and errors of the client."""
    outcomes: list[str] = []
    producer = Producer({**settings, "error_cb": lambda error: outcomes.append(str(error))})
    while True:
        producer.produce("tides", b"high water", on_delivery=lambda error, _: outcomes.append(str(error)))
        producer.flush(SECONDS)
        producer.poll(0.1)
        if not go_on():
            return outcomes


async def test_librdkafka_is_the_user_of_its_token(stage: Stage) -> None:
    """A16: what the name may do decides."""
    assert await asyncio.to_thread(written, stage.of_librdkafka()) == ["None"]
    (refused,) = await asyncio.to_thread(written, stage.of_librdkafka(sub="bob"))
    assert "TOPIC_AUTHORIZATION_FAILED" in refused


async def test_librdkafka_renews_its_login_with_its_token(stage: Stage) -> None:
    """A11: no record is lost, and no error is seen, while tokens count for four seconds."""
    settings = stage.of_librdkafka(COUNTS_S - LEEWAY_S, COUNTS_S / 2)
    give, asked = settings["oauth_cb"], []

    def counted(config: str) -> tuple[str, float]:
        asked.append(config)
        return give(config)  # type: ignore[no-any-return]  # as `of_librdkafka` made it

    async with asyncio.timeout(SECONDS):
        outcomes = await asyncio.to_thread(
            written, {**settings, "oauth_cb": counted}, lambda: len(asked) < TOKENS
        )
    assert set(outcomes) == {"None"}


async def test_aiokafka_writes_and_reads(stage: Stage) -> None:
    """A16"""
    async with AIOKafkaProducer(**stage.of_python(Provider)) as producer:
        await producer.send_and_wait("tides", b"low water")
    consumer = AIOKafkaConsumer(
        "tides", group_id="harbour", auto_offset_reset="earliest", **stage.of_python(Provider)
    )
    async with consumer, asyncio.timeout(SECONDS):
        assert (await consumer.getone()).value is not None


async def test_kafka_python_writes(stage: Stage) -> None:
    """A16"""

    def write() -> int:
        producer = KafkaProducer(**stage.of_python(PythonProvider))
        try:
            return int(producer.send("tides", b"low water").get(SECONDS).offset)
        finally:
            producer.close()

    assert await asyncio.to_thread(write) >= 0


async def test_a_token_of_others_is_refused(stage: Stage) -> None:
    """A16"""
    client = AIOKafkaProducer(**stage.of_python(Strangers))
    with pytest.raises(KafkaError):
        await client.start()
    await client.stop()

    def fail(**claims: Any) -> str:
        seen: list[str] = []
        settings = stage.of_librdkafka(**claims)
        producer = Producer({**settings, "error_cb": lambda error: seen.append(error.name())})
        with pytest.raises(KafkaException):
            producer.list_topics(timeout=2)
        producer.poll(1)
        return seen[0]

    of_others: tuple[dict[str, Any], ...] = ({"aud": "waves"}, {"valid_s": -1.0 - LEEWAY_S})
    async with asyncio.TaskGroup() as tasks:
        failing = [tasks.create_task(asyncio.to_thread(fail, **claims)) for claims in of_others]
    assert [each.result() for each in failing] == ["_AUTHENTICATION"] * len(of_others)
