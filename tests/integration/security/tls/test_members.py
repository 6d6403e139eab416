"""Members of a cluster that know each other by certificates: who may follow, and who is noticed as dead."""

from __future__ import annotations

import asyncio

import pytest

from strandline import Admin, Producer
from strandline.adapters.codecs.log import METADATA
from strandline.adapters.codecs.replication import REPLICA_FETCH
from strandline.adapters.system_host import system_host
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.connect import connect
from strandline.config.client import ClientSettings
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.errors import ClusterAuthorizationFailed
from strandline.ids import BrokerEpoch, BrokerId
from strandline.local.cluster import LocalCluster
from strandline.vocabulary.log import MetadataQuery
from strandline.vocabulary.replication import FollowerMessage, Hello
from tests.conftest import ClusterFactory
from tests.integration.security.support.certified import certified, showing
from tests.integration.support.harness import FAULT_SETTINGS
from tests.waiting import eventually

ANSWER_S_MAX = 20.0
LONG_SESSION_MS = 120_000
NOTICED_S_MAX = 45.0
"""Far less than a session of ZooKeeper takes to end, and far more than a probe."""


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    settings = {**FAULT_SETTINGS, "zookeeper_session_timeout_ms": LONG_SESSION_MS, "session_margin_ms": 300}
    made = await make_module_cluster(brokers=3, secure=True, broker_settings=settings)
    async with Admin(made.bootstrap, **made.client_settings) as admin:
        await admin.create_topic("tides", replication_factor=3, config={"min.insync.replicas": "2"})
    return made


async def broker_epoch(cluster: LocalCluster, broker: int) -> BrokerEpoch:
    """The present life of a broker."""
    session = await connect(ZooKeeperSettings(**cluster.zookeeper_settings))
    try:
        return BrokerEpoch((await session.get(znodes.broker(broker))).czxid)
    finally:
        await session.close()


@pytest.mark.parametrize("name", ["alice", "admin", "broker-1", "controller-1"])
async def test_a_follower_shows_the_certificate_of_the_broker_that_it_names(
    cluster: LocalCluster, name: str
) -> None:
    """A5: neither a client, nor its super user, nor another member is broker 2, which follows meanwhile."""
    certified(cluster, "alice")
    async with Admin(cluster.bootstrap, **cluster.client_settings) as admin:
        (topic,) = await admin.describe_topics(["tides"])
        (before,) = topic.partitions
    transport = system_host(ClientSettings(**showing(cluster, name))).transport(None)
    try:
        address = cluster.address(1)
        known = await transport.call(address, METADATA, MetadataQuery(None), timeout_s=ANSWER_S_MAX)
        epoch = await broker_epoch(cluster, 2)
        stream = await transport.open(address, REPLICA_FETCH, timeout_s=ANSWER_S_MAX)
        hello = Hello(BrokerId(2), epoch, BrokerId(1), known.cluster.cluster_id)
        await stream.write(FollowerMessage(hello, (), (), (), 0))
        async with asyncio.timeout(ANSWER_S_MAX):
            with pytest.raises(ClusterAuthorizationFailed):
                await stream.read()
    finally:
        await transport.close()
    async with Admin(cluster.bootstrap, **cluster.client_settings) as admin:
        (topic,) = await admin.describe_topics(["tides"])
    assert sorted(topic.partitions[0].isr) == sorted(before.isr)


async def test_a_killed_leader_is_noticed_by_probes_under_tls(cluster: LocalCluster) -> None:
    """X12: another broker leads long before the session of the dead one ends."""
    settings = cluster.client_settings
    async with (
        Admin(cluster.bootstrap, **settings) as admin,
        Producer(cluster.bootstrap, **settings) as producer,
    ):
        await producer.send_and_wait("tides", b"before")
        leader = (await admin.describe_topics(["tides"]))[0].partitions[0].leader
        await cluster.kill_broker(leader)

        async def moved() -> bool:
            now = (await admin.describe_topics(["tides"]))[0].partitions[0].leader
            return now not in (leader, -1)

        await eventually(moved, deadline_s=NOTICED_S_MAX)
        await producer.send_and_wait("tides", b"after")
    await cluster.start_broker(leader)
