"""Rights of callers whose certificates name them, in a cluster whose brokers follow each other by theirs."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError

from strandline import Admin, Consumer, Producer, TopicPartition
from strandline.errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    GroupIdNotFound,
    TopicAuthorizationFailed,
)
from strandline.local.cluster import LocalCluster
from strandline.security.acls import AclBinding, AclFilter
from strandline.security.principal import Principal
from strandline.security.rights import READ_GROUP, READ_TOPIC, WRITE_TOPIC
from tests.conftest import ClusterFactory
from tests.integration.security.support.bindings import binding
from tests.integration.security.support.certified import certified
from tests.waiting import DEADLINE_S, eventually

ENFORCED = {
    "authorizer": "acl",
    "super_users": "User:admin",
    "ssl_principal_mapping_rules": "RULE:^CN=(.*)$/$1/,DEFAULT",
}
TOPIC, GROUP = "tides", "harbour"


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    return await make_module_cluster(
        brokers=2, secure=True, kafka=True, broker_settings=ENFORCED, controller_settings=ENFORCED
    )


def acls(name: str) -> list[AclBinding]:
    needed = ((READ_TOPIC, TOPIC), (WRITE_TOPIC, TOPIC), (READ_GROUP, GROUP))
    return [binding(right, on, principal=Principal(name)) for right, on in needed]


async def write(cluster: LocalCluster, settings: dict[str, Any], topic: str) -> bool:
    """Raises TopicAuthorizationFailed."""
    async with Producer(cluster.bootstrap, **settings) as producer:
        await (await producer.send(topic, b"value"))
    return True


async def known(cluster: LocalCluster, settings: dict[str, Any]) -> bool:
    """Whether each broker knows the client's rights."""
    for broker in cluster.broker_ids:
        async with Admin(cluster.address(broker), **settings) as asking:
            try:
                await asking.describe_topics([TOPIC])
                await asking.describe_group(GROUP)
            except (TopicAuthorizationFailed, GroupAuthorizationFailed):
                return False
            except GroupIdNotFound:
                pass
    return True


async def test_a_certificate_gives_the_rights_of_its_principal(cluster: LocalCluster) -> None:
    """CORRECTNESS A3, A4, A5: all replicas have to follow before a record counts, so brokers pass by their
    principals. Alice uses her topic over both protocols, and nothing else, until her rights are revoked."""
    alice = certified(cluster, "alice")
    async with Admin(cluster.bootstrap, **cluster.client_settings) as admin:
        for topic in (TOPIC, "secret"):
            await admin.create_topic(topic, replication_factor=2, config={"min.insync.replicas": "2"})
        await admin.create_acls(acls("alice"))
        await eventually(lambda: known(cluster, alice), what="each broker knows what alice may do")
        assert await write(cluster, alice, TOPIC)
        async with Consumer(cluster.bootstrap, group_id=GROUP, offset_reset="earliest", **alice) as consumer:
            consumer.subscribe([TOPIC])
            assert (await anext(aiter(consumer))).value == b"value"
        for topic in ("secret", "missing"):
            with pytest.raises(TopicAuthorizationFailed, match="User:alice"):
                await write(cluster, alice, topic)
        async with Admin(cluster.bootstrap, **alice) as of_alice:
            with pytest.raises(ClusterAuthorizationFailed, match="User:alice"):
                await of_alice.describe_acls()
        await kafka_client(cluster, alice)
        await revoked(cluster, admin, alice)


async def kafka_client(cluster: LocalCluster, alice: dict[str, Any]) -> None:
    context = ssl.create_default_context(cafile=alice["ssl_cafile"])
    context.load_cert_chain(alice["ssl_certfile"], alice["ssl_keyfile"])
    producer = AIOKafkaProducer(
        bootstrap_servers=cluster.kafka_bootstrap, security_protocol="SSL", ssl_context=context
    )
    async with producer:
        await producer.send_and_wait(TOPIC, b"by Kafka's protocol")
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_and_wait("secret", b"value")


async def revoked(cluster: LocalCluster, admin: Admin, alice: dict[str, Any]) -> None:
    """A consumer that waits for records is refused though no record comes."""
    async with Consumer(cluster.bootstrap, offset_reset="earliest", **alice) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        records = aiter(consumer)
        for _ in range(2):
            await anext(records)
        await admin.delete_acls([AclFilter()])
        with pytest.raises(TopicAuthorizationFailed):
            async with asyncio.timeout(DEADLINE_S):
                await anext(records)
