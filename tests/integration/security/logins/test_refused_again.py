"""strandline's own clients are refused by a running cluster that let them in before."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any, Final

import pytest

from strandline import Admin, Consumer, Producer, TopicPartition
from strandline.errors import AuthenticationFailed
from strandline.local.cluster import LocalCluster
from strandline.security.login.mechanisms import SCRAM_SHA_512
from tests.conftest import ClusterFactory
from tests.integration.security.logins.support.users import PASSWORD, client, with_password_file, with_users
from tests.waiting import eventually

SECONDS: Final = 20.0
REAUTH_MS: Final = 1_000
SETTINGS: Final = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_enabled_mechanisms": SCRAM_SHA_512,
    "connections_max_reauth_ms": REAUTH_MS,
}
NAME: Final = TopicPartition("tides", 0)
NEXT_PASSWORD: Final = "wonderland-2"


@pytest.fixture(scope="module")
async def cluster(
    make_module_cluster: ClusterFactory, tmp_path_factory: pytest.TempPathFactory
) -> LocalCluster:
    made = await make_module_cluster(brokers=1, broker_settings=SETTINGS, controller_settings=SETTINGS)
    await with_users(made, tmp_path_factory.mktemp("users"))
    async with Admin(made.bootstrap, **client()) as root:
        await root.create_topic(NAME.topic, partitions=1, replication_factor=1)
    return made


def with_file(name: str, file: Path) -> dict[str, Any]:
    """The settings of a client whose password is in a file."""
    file.write_text(f"{PASSWORD}\n")
    file.chmod(0o600)
    return with_password_file(client(name), file)


async def add_user(cluster: LocalCluster, name: str, password: str = PASSWORD) -> None:
    async with Admin(cluster.bootstrap, **client()) as root:
        await root.set_user(name, password)


async def can_log_in(cluster: LocalCluster, name: str) -> None:
    async def known() -> bool:
        try:
            async with Admin(cluster.bootstrap, **client(name)) as admin:
                await admin.list_topics()
        except AuthenticationFailed:
            return False
        return True

    await eventually(known, what=f"{name} can log in")


async def test_clients_go_on_once_they_have_the_new_password(
    cluster: LocalCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The password is replaced at the user first, and at the clients once each was refused."""
    caplog.set_level(logging.WARNING, "strandline.adapters.rpc.logins.refusals")
    await add_user(cluster, "alice")
    await can_log_in(cluster, "alice")
    file = tmp_path / "password"
    settings = with_file("alice", file)
    async with (
        Producer(cluster.bootstrap, **settings) as producer,
        Consumer(cluster.bootstrap, offset_reset="earliest", **settings) as consumer,
    ):
        consumer.assign([NAME])
        await producer.send_and_wait(NAME.topic, b"first", partition=0)
        assert (await consumer.getone()).value == b"first"
        await add_user(cluster, "alice", NEXT_PASSWORD)

        async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(consumer.getone())
            await eventually(lambda: len(caplog.records) >= 1, what="the consumer is refused")
            sending = tasks.create_task(producer.send_and_wait(NAME.topic, b"second", partition=0))
            await eventually(lambda: len(caplog.records) >= 2, what="the producer is refused")
            assert not sending.done()
            file.write_text(f"{NEXT_PASSWORD}\n")
        assert reading.result().value == b"second"


async def test_a_client_ends_when_its_time_is_over(cluster: LocalCluster, tmp_path: Path) -> None:
    await add_user(cluster, "bob")
    await can_log_in(cluster, "bob")
    settings = with_file("bob", tmp_path / "password")
    consumer = Consumer(cluster.bootstrap, authentication_retry_ms=REAUTH_MS, **settings)
    await consumer.start()
    consumer.assign([NAME])
    await consumer.seek_to_end(NAME)
    await add_user(cluster, "bob", NEXT_PASSWORD)
    async with asyncio.timeout(SECONDS):
        with pytest.raises(AuthenticationFailed, match="the name or the password is wrong"):
            await consumer.getone()
    with pytest.raises(AuthenticationFailed):
        await consumer.stop()
