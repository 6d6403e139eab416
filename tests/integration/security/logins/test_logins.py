"""strandline's own clients log in to a running cluster by name and password."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import Final

import pytest

from strandline import Admin, Consumer, Producer, TopicPartition
from strandline.adapters.codecs.admin import DESCRIBE_CLUSTER
from strandline.adapters.system_host import system_host
from strandline.config.client import ClientSettings
from strandline.errors import (
    AuthenticationFailed,
    BrokerNotAvailable,
    IllegalSaslState,
    NotController,
    TopicAuthorizationFailed,
)
from strandline.local.cluster import LocalCluster
from strandline.security.rights import CREATE_TOPIC
from strandline.vocabulary.admin import ClusterDescription
from tests.conftest import ClusterFactory
from tests.integration.security.logins.support.users import MECHANISMS, PASSWORD, client, with_users
from tests.integration.security.support.bindings import binding
from tests.waiting import eventually

SECONDS: Final = 20.0
SAID_S_MAX: Final = 8.0
"""A client knows that it is refused before a request times out, which takes ten seconds."""
SETTINGS: Final = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_enabled_mechanisms": ",".join(MECHANISMS),
    "connections_max_reauth_ms": 1_000,
    "authorizer": "acl",
    "super_users": "User:root",
}


@pytest.fixture(scope="module")
async def cluster(
    make_module_cluster: ClusterFactory, tmp_path_factory: pytest.TempPathFactory
) -> LocalCluster:
    made = await make_module_cluster(
        brokers=2, controllers=2, broker_settings=SETTINGS, controller_settings=SETTINGS
    )
    return await with_users(made, tmp_path_factory.mktemp("users"), "alice", "broker-1")


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
        async with Admin(address, **client(name, password=password)) as admin, asyncio.timeout(SAID_S_MAX):
            with pytest.raises(AuthenticationFailed, match="the name or the password is wrong") as failed:
                await admin.list_topics()
            assert not failed.value.retriable
    with pytest.raises(AuthenticationFailed, match="the name or the password is wrong"):
        async with (
            asyncio.timeout(SAID_S_MAX),
            Producer(cluster.bootstrap, **client(name, password=password)),
        ):
            pass


async def test_a_call_without_a_login_is_refused(cluster: LocalCluster) -> None:
    """A11"""
    async with Admin(cluster.bootstrap) as admin, asyncio.timeout(SAID_S_MAX):
        with pytest.raises(IllegalSaslState, match="log in first"):
            await admin.list_topics()


async def test_a_controller_that_is_not_active_knows_the_users_too(cluster: LocalCluster) -> None:
    """A11: callers log in there, and hear which controller is active."""
    transport = system_host(ClientSettings(**client())).transport(None)

    async def answers() -> set[type]:
        found: set[type] = set()
        for number in cluster.controller_ids:
            address = cluster.controller_address(number)
            try:
                answer = await transport.call(address, DESCRIBE_CLUSTER, None, timeout_s=SECONDS)
                found.add(type(answer))
            except (NotController, AuthenticationFailed, BrokerNotAvailable) as error:
                found.add(type(error))
        return found

    wanted = {ClusterDescription, NotController}

    async def both_know() -> bool:
        return await answers() == wanted

    await eventually(both_know, what="both controllers know root")
    await transport.close()


async def test_acls_decide_by_the_name_of_the_login(cluster: LocalCluster) -> None:
    """A11"""
    async with (
        Admin(cluster.bootstrap, **client()) as root,
        Admin(cluster.bootstrap, **client("alice")) as alice,
    ):
        with pytest.raises(TopicAuthorizationFailed, match=r"User:alice from .* has no right"):
            await alice.create_topic("alices", partitions=1, replication_factor=1)
        await root.create_acls([binding(CREATE_TOPIC, "alices")])
        with pytest.raises(TopicAuthorizationFailed, match=r"User:alice from .* has no right"):
            await alice.create_topic("roots", partitions=1, replication_factor=1)
        await alice.create_topic("alices", partitions=1, replication_factor=1, wait=False)


# --- logins that end ------------------------------------------------------------------------------

ENDED: Final = "the login of a stream to"


def ended_streams(caplog: pytest.LogCaptureFixture) -> int:
    return sum(ENDED in message for message in caplog.messages)


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_producer_goes_on_while_its_logins_end(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture, idempotent: bool
) -> None:
    """A11: no record is lost or written twice, and no error is seen, though many are in flight."""
    caplog.set_level(logging.INFO, "strandline.client.broker_stream")
    topic = f"long-produce-{idempotent}"
    settings = {"batch_bytes": 1_024, "enable_idempotence": idempotent, **client()}
    async with Admin(cluster.bootstrap, **client()) as admin:
        await admin.create_topic(topic, partitions=1, replication_factor=2)
    sent = []
    async with Producer(cluster.bootstrap, **settings) as producer:
        async with asyncio.timeout(SECONDS):
            while ended_streams(caplog) < 2:
                sent += [await producer.send(topic, b"high" * 64, partition=0) for _ in range(20)]
                await sent[-10]
        await producer.flush()
    offsets = [(await each).offset for each in sent]
    assert sorted(offsets) == list(range(len(offsets)))


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


async def test_a_reader_of_state_changes_goes_on_while_its_logins_end(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A11: no answer leaves after the end, and the next stream begins where this one was."""
    caplog.set_level(logging.INFO, "strandline.client.admin.state_changes")
    created: list[str] = []
    seen: set[str] = set()
    async with Admin(cluster.bootstrap, **client()) as admin:

        async def follow() -> None:
            async with aclosing(admin.state_changes(follow=True)) as events:
                async for event in events:
                    seen.add(event.topic)

        async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as tasks:
            following = tasks.create_task(follow())
            while sum(ENDED in message for message in caplog.messages) < 2:
                created.append(f"followed-{len(created)}")
                await admin.create_topic(created[-1])
            await eventually(lambda: seen.issuperset(created), what="each creation is seen")
            following.cancel()
