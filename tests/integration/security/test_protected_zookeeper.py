"""A cluster whose znodes are for its identity alone (CORRECTNESS Z2)."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from strandline import Admin
from strandline.adapters.zookeeper.connect import connect
from strandline.adapters.zookeeper.security.user_znodes import user_path
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.errors import SettingsError
from strandline.local.cluster import LocalCluster
from strandline.local.layout import Layout
from strandline.local.secure.zookeeper_identity import ZooKeeperIdentity
from strandline.local.zookeeper_process import four_letter_word
from tests.conftest import ClusterFactory
from tests.integration.security.support.certified import certified
from tests.integration.support.harness import FAULT_SETTINGS, Harness, Topic
from tests.integration.support.lives import judged
from tests.integration.support.workload import workload
from tests.strandline.cli.support.cli_process import strandline
from tests.strangers import every_znode, open_to_strangers
from tests.tls_files import Files

pytestmark = pytest.mark.slow


@pytest.fixture
def identity(tmp_path: Path) -> ZooKeeperIdentity:
    made = ZooKeeperIdentity(Layout(tmp_path / "identity"))
    made.make()
    return made


async def restarted(harness: Harness, topic: Topic, **settings: Any) -> None:
    """Every member is stopped and started with these settings, one after the other."""
    cluster = harness.cluster
    for controller in cluster.controller_ids:
        await cluster.stop_controller(controller)
        await cluster.start_controller(controller, **settings)
    for broker in cluster.broker_ids:
        await cluster.stop_broker(broker)
        await cluster.start_broker(broker, **settings)
        for partition, replicas in enumerate(topic.assignment):
            await topic.isr_is(*replicas, partition=partition)


async def migrated(cluster: LocalCluster, identity: ZooKeeperIdentity, way: str) -> tuple[int, str]:
    """The exit status of the command, and what it said."""
    environment: dict[str, Any] = {
        f"STRANDLINE_{name.upper()}": str(value)
        for name, value in {"zookeeper": cluster.zookeeper, **identity.settings}.items()
    }
    ended = await strandline("security", "migrate-zookeeper", way, **environment)
    return ended.status, ended.out.decode() + ended.err


@pytest.mark.timeout(300)
async def test_a_running_cluster_is_protected_and_opened_again(
    make_cluster: ClusterFactory, identity: ZooKeeperIdentity
) -> None:
    """Identities, then ACLs on what is created, then the migration, and all of it back, under load: no record
    is lost. A step that is taken too early is refused."""
    cluster = await make_cluster(brokers=3, controllers=2, broker_settings=FAULT_SETTINGS)
    identified = {**identity.settings, "zookeeper_set_acl": False}
    async with judged(cluster, **identified) as harness:
        topic = await harness.create_topic([(1, 2, 3), (2, 3, 1), (3, 1, 2)], {"min.insync.replicas": "2"})
        async with workload(topic) as load:
            await load.progress()
            await restarted(harness, topic, **identified)
            assert open_to_strangers(cluster.zookeeper, ["/", "/epoch"]) == ["/", "/epoch"]
            status, said = await migrated(cluster, identity, "--enable")
            assert (status, "not migrated: first restart broker 1, broker 2" in said) == (1, True)
            await restarted(harness, topic, **identity.settings)
            await load.progress()
            status, said = await migrated(cluster, identity, "--enable")
            assert status == 0, said
            assert open_to_strangers(cluster.zookeeper, await every_znode(harness.session)) == []
            await cluster.kill_broker(1)
            await load.progress()
            await cluster.start_broker(1)
            await load.progress()
            status, said = await migrated(cluster, identity, "--disable")
            assert (status, "not migrated: first restart broker 1, broker 2" in said) == (1, True)
            await restarted(harness, topic, zookeeper_set_acl=False)
            status, said = await migrated(cluster, identity, "--disable")
            assert status == 0, said
            everything = await every_znode(harness.session)
            assert open_to_strangers(cluster.zookeeper, everything) == everything
            await cluster.add_broker()  # without an identity
            await load.progress()
            await load.judge()


@pytest.mark.timeout(120)
async def test_a_secure_cluster_has_no_open_znode(make_cluster: ClusterFactory, tmp_path: Path) -> None:
    """Its ZooKeeper's root is protected too. A tool without the cluster's identity cannot begin, also with a
    certificate of its authority; one without a certificate, or without TLS, is not even connected."""
    cluster = await make_cluster(brokers=3, zookeeper=None, secure=True, broker_settings=FAULT_SETTINGS)
    async with Admin(cluster.bootstrap, **cluster.client_settings) as admin:
        await admin.create_topic("tides", partitions=3, replication_factor=3)
    password = tmp_path / "password"
    password.write_text("wonderland-1\n")
    password.chmod(0o600)
    at = ("--dir", str(cluster.directory))
    ended = await strandline("user", "bootstrap", "alice", "--password-file", str(password), *at)
    assert ended.status == 0, ended.err
    settings = certified(cluster, "eve")
    stranger = Files(*(Path(settings[f"ssl_{name}file"]) for name in ("ca", "cert", "key")))
    session = await connect(ZooKeeperSettings(**cluster.zookeeper_settings))
    try:
        paths = await every_znode(session)
        assert {"/brokers/topics/tides/2/isr", user_path("alice")} <= set(paths)
        found = open_to_strangers(cluster.zookeeper, paths, stranger)
        # A request that a broker has answered meanwhile is gone, and refuses nothing.
        assert not set(found) & set(await every_znode(session))
    finally:
        await session.close()
    encrypted: dict[str, Any] = {"zookeeper": cluster.zookeeper, "zookeeper_ssl": True} | {
        f"zookeeper_{name}": value for name, value in settings.items() if name.startswith("ssl_")
    }
    with pytest.raises(SettingsError, match="is not for the identity of this process"):
        await connect(ZooKeeperSettings(**encrypted))
    port = int(cluster.zookeeper.rpartition(":")[2])
    without_certificate = ssl.create_default_context(cafile=stranger.cafile)
    assert [await four_letter_word(port, "srvr", tls) for tls in (None, without_certificate)] == ["", ""]
    ended = await strandline("security", "migrate-zookeeper", "--enable", *at, "-o", "json")
    assert (ended.status, ended.objects[0]["changed"]) == (0, 0), ended.err
