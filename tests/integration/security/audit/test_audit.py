"""The audit logs of a running cluster: who came, what was denied and what was changed (A15)."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.errors import KafkaError, TopicAuthorizationFailedError

from strandline import Admin
from strandline.errors import TopicAuthorizationFailed
from strandline.local.cluster import LocalCluster
from strandline.security.acls import PatternType
from strandline.security.login.mechanisms import SCRAM_SHA_512
from strandline.security.rights import CREATE_TOPIC, DELETE_TOPIC, WRITE_TOPIC
from tests.conftest import ClusterFactory
from tests.integration.security.logins.support.users import add_users
from tests.integration.security.support.bindings import binding
from tests.integration.security.support.certified import certified
from tests.waiting import eventually

SECRET, WRONG, VALUE = "correct-horse-battery", "another-password", b"value-of-a-record"
SETTINGS = {
    "kafka_security_protocol": "SASL_SSL",
    "sasl_enabled_mechanisms": SCRAM_SHA_512,
}
Line = dict[str, Any]


@pytest.fixture(scope="module")
async def cluster(
    make_module_cluster: ClusterFactory, tmp_path_factory: pytest.TempPathFactory
) -> LocalCluster:
    """With alice, who has a password and may write to `tides`."""
    made = await make_module_cluster(brokers=1, secure=True, kafka=True, broker_settings=SETTINGS)
    await add_users(
        made, tmp_path_factory.mktemp("alice"), "alice", password=SECRET, mechanisms=[SCRAM_SHA_512]
    )
    async with Admin(made.bootstrap, **made.client_settings) as admin:
        await admin.create_topic("tides")
        await admin.create_acls([binding(WRITE_TOPIC, "tides")])
    await eventually(lambda: writes(made, "tides"), what="alice may write")
    return made


def of_alice(cluster: LocalCluster, password: str = SECRET) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.kafka_bootstrap,
        "security_protocol": "SASL_SSL",
        "ssl_context": ssl.create_default_context(cafile=cluster.client_settings["ssl_cafile"]),
        "sasl_mechanism": SCRAM_SHA_512,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
    }


async def writes(cluster: LocalCluster, topic: str) -> bool:
    producer = AIOKafkaProducer(enable_idempotence=False, **of_alice(cluster))
    try:
        await producer.start()
        await producer.send_and_wait(topic, VALUE)
    except KafkaError:
        return False
    finally:
        await producer.stop()
    return True


def audit_files(cluster: LocalCluster) -> list[Path]:
    return sorted((cluster.directory / "logs").glob("*.audit"))


def lines(cluster: LocalCluster, member: str, **wanted: object) -> list[Line]:
    """The lines of a member with these fields."""
    text = (cluster.directory / "logs" / f"{member}.audit").read_text()
    found = [json.loads(line) for line in text.splitlines()]
    return [line for line in found if all(line.get(name) == value for name, value in wanted.items())]


async def test_a_login_is_written_and_a_refused_one_with_its_reason(cluster: LocalCluster) -> None:
    """A15, A10"""
    (first, *_) = lines(cluster, "broker-1", event="login", principal="User:alice")
    assert (first["allowed"], first["mechanism"], first["address"]) == (True, SCRAM_SHA_512, "127.0.0.1")
    assert first["call"] == "Kafka SaslAuthenticate" and first["request_id"] > 0
    client = AIOKafkaProducer(**of_alice(cluster, WRONG))
    with pytest.raises(KafkaError):
        await client.start()
    await client.stop()
    (refused, *_) = lines(cluster, "broker-1", event="login", allowed=False)
    assert (refused["reason"], refused["user"]) == ("wrong password", "alice")
    assert lines(cluster, "broker-1", event="login", principal="User:admin", mechanism="SSL")


async def test_a_denial_is_written_once_on_both_ports(cluster: LocalCluster) -> None:
    """A15: the first use of a topic too, with the ACL that allows it."""
    async with Admin(cluster.bootstrap, **cluster.client_settings) as admin:
        await admin.create_topic("secret")
    async with AIOKafkaProducer(enable_idempotence=False, **of_alice(cluster)) as producer:
        for _ in range(3):
            with pytest.raises(TopicAuthorizationFailedError):
                await producer.send_and_wait("secret", VALUE)
    denied = lines(cluster, "broker-1", event="access", allowed=False, principal="User:alice")
    assert [line for line in denied if line["resource"] == "secret" and "count" not in line]
    assert len(denied) <= 2 and {line["by"] for line in denied} == {"default"}
    (used,) = lines(cluster, "broker-1", event="access", allowed=True, principal="User:alice")
    assert (used["operation"], used["resource"], used["call"]) == ("WRITE", "tides", "Kafka Produce")
    assert used["by"] == "ALLOW User:alice from * WRITE on TOPIC LITERAL tides"

    bob = certified(cluster, "bob")
    with pytest.raises(TopicAuthorizationFailed):
        async with Admin(cluster.bootstrap, **bob) as of_bob:
            await of_bob.describe_topics(["secret"])
    (of_grpc, *_) = lines(cluster, "broker-1", event="access", allowed=False, principal="User:bob")
    assert of_grpc["resource"] == "secret" and of_grpc["call"] == "Log.Metadata"
    assert of_grpc["mechanism"] == "SSL"


async def test_nothing_secret_is_written_and_only_the_owner_reads_it(cluster: LocalCluster) -> None:
    """A15, A12"""
    files = audit_files(cluster)
    assert [file.stem for file in files] == ["broker-1", "controller-1"]
    for file in files:
        assert file.stat().st_mode & 0o777 == 0o600
        text = file.read_bytes()
        for secret in (SECRET.encode(), WRONG.encode(), VALUE):
            assert secret not in text


async def test_a_change_names_its_asker_and_its_arguments(cluster: LocalCluster) -> None:
    """A15, A17: through a Kafka port, the client and not the broker that passes it on."""
    async with Admin(cluster.bootstrap, **cluster.client_settings) as admin:
        rights = (CREATE_TOPIC, DELETE_TOPIC)
        await admin.create_acls([binding(each, "alice-", kind=PatternType.PREFIXED) for each in rights])
        await admin.alter_topic("tides", set={"retention.ms": "86400000"})
    client = AIOKafkaAdminClient(**of_alice(cluster))
    await client.start()
    try:

        async def created() -> bool:
            answer = await client.create_topics([NewTopic("alice-1", 2, 1)])
            return bool(answer.topic_errors[0][1] == 0)

        await eventually(created, what="the broker knows that alice may create it")
        await client.delete_records({KafkaPartition("alice-1", 0): RecordsToDelete(0)})
    finally:
        await client.close()
    (new,) = lines(cluster, "controller-1", event="change", resource="alice-1")
    assert (new["principal"], new["mechanism"], new["address"]) == ("User:alice", SCRAM_SHA_512, "127.0.0.1")
    assert new["call"] == "Kafka CreateTopics" and new["connection"].startswith("kafka:")
    assert new["arguments"] == {"config": {}, "partitions": 2, "replication_factor": 1}
    assert new["by"] == "ALLOW User:alice from * CREATE on TOPIC PREFIXED alice-"
    (records,) = lines(cluster, "broker-1", event="change", resource="alice-1")
    assert records["operation"] == "DELETE" and records["arguments"] == {"partition": 0, "records_before": 0}
    (altered,) = lines(cluster, "controller-1", event="change", operation="ALTER_CONFIGS")
    assert altered["arguments"]["set"] == {"retention.ms": "86400000"}
    assert (altered["principal"], altered["by"], altered["call"]) == (
        "User:admin",
        "super",
        "Admin.AlterTopic",
    )
    acls = [line["arguments"] for line in lines(cluster, "controller-1", event="change", operation="ALTER")]
    assert {"create_acl": "ALLOW User:alice from * CREATE on TOPIC PREFIXED alice-"} in acls


async def test_a_change_has_its_line_though_its_caller_leaves(cluster: LocalCluster) -> None:
    """A15: whenever that is."""
    topics = [f"hasty-{number}" for number in range(24)]
    async with Admin(cluster.bootstrap, **cluster.client_settings) as admin:
        await admin.create_topic("patient")
        for number, topic in enumerate(topics):
            with suppress(TimeoutError):
                async with asyncio.timeout(0.001 * number):
                    await admin.create_topic(topic)
        await admin.create_topic("last")
        made = {each.name for each in await admin.describe_topics()} & set(topics)

    def missing() -> set[str]:
        return made - {line["resource"] for line in lines(cluster, "controller-1", event="change")}

    await eventually(lambda: not missing(), what="each topic that was made has its line")
    assert made
