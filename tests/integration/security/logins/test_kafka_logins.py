"""Unmodified Kafka clients log in to a running cluster by name and password."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from kafka import KafkaProducer

from strandline.local.cluster import LocalCluster
from strandline.security.login.mechanisms import PLAIN, SCRAM_SHA_256, SCRAM_SHA_512
from tests.conftest import ClusterFactory
from tests.integration.kafka.support.kcat import kcat, needs_kcat
from tests.integration.security.logins.support.kafka_clients import logs_in, of_librdkafka, of_python
from tests.integration.security.logins.support.users import MECHANISMS, PASSWORD, add_users
from tests.tls_files import TestAuthority
from tests.waiting import eventually

SETTINGS = {
    "kafka_security_protocol": "SASL_PLAINTEXT",
    "sasl_enabled_mechanisms": ",".join(MECHANISMS),
    "connections_max_reauth_ms": 3_000,
}
SECONDS = 20.0
EACH = pytest.mark.parametrize("mechanism", MECHANISMS)


async def with_alice(cluster: LocalCluster, directory: Path, **of_port: Any) -> LocalCluster:
    """The cluster, once alice has a password for both mechanisms, and each broker knows it."""
    await add_users(cluster, directory, "alice")

    async def known() -> bool:
        for address in cluster.kafka_bootstrap.split(","):
            if not await logs_in(cluster, "alice", PASSWORD, **{**of_port, "bootstrap_servers": address}):
                return False
        return True

    await eventually(known, what="alice can log in")
    return cluster


@pytest.fixture(scope="module")
async def cluster(
    make_module_cluster: ClusterFactory, tmp_path_factory: pytest.TempPathFactory
) -> LocalCluster:
    made = await make_module_cluster(brokers=2, broker_settings=SETTINGS, kafka=True)
    return await with_alice(made, tmp_path_factory.mktemp("alice"))


@EACH
async def test_librdkafka_writes_and_reads(cluster: LocalCluster, mechanism: str) -> None:
    """A11"""
    topic = f"librdkafka-{mechanism}"

    def exchange() -> bytes:
        producer = Producer({**of_librdkafka(cluster, mechanism), "enable.idempotence": True})
        producer.produce(topic, b"written")
        assert producer.flush(SECONDS) == 0
        consumer = Consumer(
            {**of_librdkafka(cluster, mechanism), "group.id": topic, "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([topic])
        try:
            message = consumer.poll(SECONDS)
            assert message is not None and message.error() is None
            return message.value() or b""
        finally:
            consumer.close()

    assert await asyncio.to_thread(exchange) == b"written"


@EACH
async def test_aiokafka_writes_and_reads(cluster: LocalCluster, mechanism: str) -> None:
    """A11"""
    topic = f"aiokafka-{mechanism}"
    async with AIOKafkaProducer(**of_python(cluster, mechanism)) as producer:
        await producer.send_and_wait(topic, b"written")
    consumer = AIOKafkaConsumer(
        topic, group_id=topic, auto_offset_reset="earliest", **of_python(cluster, mechanism)
    )
    async with consumer:
        async with asyncio.timeout(SECONDS):
            assert (await consumer.getone()).value == b"written"


@EACH
async def test_kafka_python_writes(cluster: LocalCluster, mechanism: str) -> None:
    """A11"""

    def write() -> int:
        producer = KafkaProducer(**of_python(cluster, mechanism))
        try:
            return int(producer.send(f"kafka-python-{mechanism}", b"written").get(SECONDS).offset)
        finally:
            producer.close()

    assert await asyncio.to_thread(write) == 0


async def test_librdkafka_renews_its_login(cluster: LocalCluster) -> None:
    """A11: no record is lost, and no error is seen, while logins end every three seconds."""

    def write() -> list[str]:
        errors: list[str] = []

        def delivered(error: object, _: object) -> None:
            if error is not None:
                errors.append(str(error))

        settings = of_librdkafka(cluster, SCRAM_SHA_512)
        producer = Producer({**settings, "error_cb": lambda error: errors.append(str(error))})
        for number in range(40):
            producer.produce("renewed", b"%d" % number, on_delivery=delivered)
            producer.poll(0.2)
        assert producer.flush(SECONDS) == 0
        return errors

    assert await asyncio.to_thread(write) == []


async def test_a_wrong_password_ends_the_attempt(cluster: LocalCluster) -> None:
    """A10"""

    def fail() -> str:
        seen: list[str] = []
        settings = of_librdkafka(cluster, SCRAM_SHA_256, password="guess")
        producer = Producer({**settings, "error_cb": lambda error: seen.append(error.name())})
        with pytest.raises(KafkaException):
            producer.list_topics(timeout=2)
        producer.poll(1)
        return seen[0]

    assert await asyncio.to_thread(fail) == "_AUTHENTICATION"


async def encrypted(make_cluster: ClusterFactory, tmp_path: Path) -> tuple[LocalCluster, TestAuthority]:
    """A cluster whose Kafka port wants a login on an encrypted connection, and who vouches for it."""
    authority = TestAuthority(tmp_path)
    pair = authority.issue("broker", "127.0.0.1", "localhost")
    settings = {
        "kafka_security_protocol": "SASL_SSL",
        "sasl_enabled_mechanisms": ",".join([*MECHANISMS, PLAIN]),
        "ssl_cafile": str(authority.cafile),
        "ssl_certfile": str(pair.certfile),
        "ssl_keyfile": str(pair.keyfile),
    }
    made = await make_cluster(brokers=1, broker_settings=settings, kafka=True)
    return await with_alice(made, tmp_path, **of_port(authority)), authority


def of_port(authority: TestAuthority) -> dict[str, Any]:
    """What Python clients of that port set."""
    trusted = ssl.create_default_context(cafile=str(authority.cafile))
    return {"security_protocol": "SASL_SSL", "ssl_context": trusted}


@pytest.mark.parametrize("mechanism", [*MECHANISMS, PLAIN])
async def test_logins_on_an_encrypted_port(
    make_cluster: ClusterFactory, tmp_path: Path, mechanism: str
) -> None:
    """A11: a password takes the place of a client's certificate."""
    cluster, authority = await encrypted(make_cluster, tmp_path)
    of_client = {**of_python(cluster, mechanism), **of_port(authority)}
    async with AIOKafkaProducer(**of_client) as producer:
        assert (await producer.send_and_wait("encrypted", b"written")).offset == 0

    def write() -> list[str]:
        errors: list[str] = []
        of_c = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(authority.cafile)}
        other = Producer({**of_librdkafka(cluster, mechanism), **of_c})
        other.produce("encrypted", b"written", on_delivery=lambda error, _: errors.append(str(error)))
        other.flush(SECONDS)
        return errors

    assert await asyncio.to_thread(write) == ["None"]


@needs_kcat
async def test_kcat_logs_in_on_an_encrypted_port(make_cluster: ClusterFactory, tmp_path: Path) -> None:
    """A11."""
    cluster, authority = await encrypted(make_cluster, tmp_path)
    file = tmp_path / "kcat.conf"
    of_kcat = {
        **of_librdkafka(cluster, PLAIN),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": authority.cafile,
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in of_kcat.items()))
    file.chmod(0o600)
    assert "1 brokers" in await kcat("-F", str(file), "-L")
