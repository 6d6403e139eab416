"""strandline's own clients log in to a running cluster by name and password."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any, Final

import pytest

from strandline import Admin, Consumer, Producer, TopicPartition
from strandline.errors import (
    AuthenticationFailed,
    IllegalSaslState,
    StrandlineError,
    TopicAuthorizationFailed,
)
from strandline.local.cluster import LocalCluster
from strandline.security.acls import AclBinding, PatternType, Permission, ResourcePattern
from strandline.security.login.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from strandline.security.principal import Principal
from strandline.security.rights import CREATE_TOPIC
from tests.conftest import ClusterFactory
from tests.strandline.cli.support.cli_process import strandline
from tests.waiting import eventually

MECHANISMS: Final = [SCRAM_SHA_512, SCRAM_SHA_256]
PASSWORD: Final = "wonderland-1"
SECONDS: Final = 20.0
SETTINGS: Final = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_enabled_mechanisms": ",".join(MECHANISMS),
    "connections_max_reauth_ms": 1_000,
    "authorizer": "acl",
    "super_users": "User:root",
}


async def add_user(cluster: LocalCluster, name: str, file: Path) -> None:
    options = [part for mechanism in MECHANISMS for part in ("--mechanism", mechanism)]
    line = ["user", "bootstrap", name, "--zookeeper", cluster.zookeeper, "--password-file", str(file)]
    ended = await strandline(*line, *options)
    assert ended.status == 0, ended.err


def client(name: str = "root", mechanism: str = SCRAM_SHA_512, password: str = PASSWORD) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": name,
        "sasl_password": password,
    }


@pytest.fixture(scope="module")
async def cluster(
    make_module_cluster: ClusterFactory, tmp_path_factory: pytest.TempPathFactory
) -> LocalCluster:
    made = await make_module_cluster(brokers=2, broker_settings=SETTINGS, controller_settings=SETTINGS)
    file = tmp_path_factory.mktemp("passwords") / "password"
    file.write_text(f"{PASSWORD}\n")
    for name in ("root", "alice", "broker-1"):
        await add_user(made, name, file)

    async def known() -> bool:
        try:
            for address in made.bootstrap.split(","):
                async with Admin(address, **client()) as admin:
                    await admin.list_topics()
                    await admin.describe_cluster()
        except StrandlineError:
            return False
        return True

    await eventually(known, what="root can log in everywhere")
    return made


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_client_logs_in_everywhere(cluster: LocalCluster, mechanism: str) -> None:
    """A11: at the controller and at both brokers, and the thread of a group's heartbeats too."""
    topic, settings = f"tides-{mechanism}", client(mechanism=mechanism)
    async with Admin(cluster.bootstrap, **settings) as admin:
        await admin.create_topic(topic, partitions=4, replication_factor=2)
    async with Producer(cluster.bootstrap, **settings) as producer:
        for partition in range(4):
            await producer.send_and_wait(topic, b"high", partition=partition)
    async with Consumer(cluster.bootstrap, group_id=topic, offset_reset="earliest", **settings) as consumer:
        consumer.subscribe([topic])
        async with asyncio.timeout(SECONDS):
            read = [await consumer.getone() for _ in range(4)]
    assert sorted(record.partition for record in read) == [0, 1, 2, 3]


@pytest.mark.parametrize("name, password", [("root", "guess"), ("nobody", PASSWORD), ("broker-1", PASSWORD)])
async def test_a_refused_login_is_final(cluster: LocalCluster, name: str, password: str) -> None:
    """A10, A3: a wrong password, a user who does not exist, and one with the name of a broker."""
    for address in cluster.bootstrap.split(","):
        async with Admin(address, **client(name, password=password)) as admin:
            with pytest.raises(AuthenticationFailed, match="the name or the password is wrong") as failed:
                await admin.list_topics()
            assert not failed.value.retriable
    with pytest.raises(AuthenticationFailed, match="the name or the password is wrong"):
        async with Producer(cluster.bootstrap, **client(name, password=password)):
            pass


async def test_a_call_without_a_login_is_refused(cluster: LocalCluster) -> None:
    """A11"""
    async with Admin(cluster.bootstrap) as admin:
        with pytest.raises(IllegalSaslState, match="log in first"):
            await admin.list_topics()


async def test_acls_decide_by_the_name_of_the_login(cluster: LocalCluster) -> None:
    """A11"""
    pattern = ResourcePattern(CREATE_TOPIC.of, "alices", PatternType.LITERAL)
    allowed = AclBinding(pattern, Principal("alice"), "*", CREATE_TOPIC.operation, Permission.ALLOW)
    async with (
        Admin(cluster.bootstrap, **client()) as root,
        Admin(cluster.bootstrap, **client("alice")) as alice,
    ):
        with pytest.raises(TopicAuthorizationFailed, match=r"User:alice from .* has no right"):
            await alice.create_topic("alices", partitions=1, replication_factor=1)
        await root.create_acls([allowed])
        with pytest.raises(TopicAuthorizationFailed, match=r"User:alice from .* has no right"):
            await alice.create_topic("roots", partitions=1, replication_factor=1)
        await alice.create_topic("alices", partitions=1, replication_factor=1, wait=False)


# --- logins that end ------------------------------------------------------------------------------

ENDED: Final = "the login of a stream to"


def ended_streams(caplog: pytest.LogCaptureFixture) -> int:
    return sum(ENDED in message for message in caplog.messages)


async def test_a_producer_goes_on_while_its_logins_end(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A11: no record is lost or written twice, and no error is seen."""
    caplog.set_level(logging.INFO, "strandline.client.broker_stream")
    async with Admin(cluster.bootstrap, **client()) as admin:
        await admin.create_topic("long-produce", partitions=1, replication_factor=2)
        offsets = []
        async with Producer(cluster.bootstrap, **client()) as producer:
            async with asyncio.timeout(SECONDS):
                while ended_streams(caplog) < 2:
                    offsets.append((await producer.send_and_wait("long-produce", b"high")).offset)
        assert offsets == list(range(len(offsets)))


async def test_a_consumer_goes_on_while_its_logins_end(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A11"""
    caplog.set_level(logging.INFO, "strandline.client.broker_stream")
    name = TopicPartition("long-fetch", 0)
    async with Admin(cluster.bootstrap, **client()) as admin:
        await admin.create_topic(name.topic, partitions=1, replication_factor=1)
    async with Consumer(cluster.bootstrap, offset_reset="earliest", **client()) as consumer:
        consumer.assign([name])
        async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(consumer.getone())
            await eventually(lambda: ended_streams(caplog) >= 2, what="two logins of the stream end")
            async with Producer(cluster.bootstrap, **client()) as producer:
                await producer.send_and_wait(name.topic, b"high")
        assert waiting.result().value == b"high"
