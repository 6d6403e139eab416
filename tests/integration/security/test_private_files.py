"""The files of a cluster are for its own user, under any umask (docs/correctness.md, X13)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline import Admin, Producer
from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.integration.support.harness import FAULT_SETTINGS

FOR_OTHERS = 0o077
COMMON_UMASK = 0o022


@pytest.fixture
async def cluster(make_cluster: ClusterFactory, tmp_path: Path) -> LocalCluster:
    """A secure cluster with a ZooKeeper of its own, in a folder that was there and that others can enter."""
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o755)
    umask = os.umask(COMMON_UMASK)
    try:
        return await make_cluster(
            brokers=1, directory=home, zookeeper=None, secure=True, broker_settings=FAULT_SETTINGS
        )
    finally:
        os.umask(umask)


def reached_by_others(path: Path) -> Iterator[Path]:
    """What a user of another group can read, write or enter, from this path on."""
    if path.is_symlink() or not path.stat().st_mode & FOR_OTHERS:
        return
    yield path
    if path.is_dir():
        for each in path.iterdir():
            yield from reached_by_others(each)


async def test_no_other_user_reaches_a_file_of_a_cluster(cluster: LocalCluster) -> None:
    """CORRECTNESS X13: records, keys, the cluster's secret in ZooKeeper's files, and what members print."""
    async with Admin(cluster.bootstrap, **cluster.client_settings) as admin:
        await admin.create_topic("tides", replication_factor=1)
    async with Producer(cluster.bootstrap, **cluster.client_settings) as producer:
        await (await producer.send("tides", b"high"))
    assert list(reached_by_others(cluster.directory)) == [cluster.directory]
    for path in cluster.data_dir(1).rglob("*"):
        assert not path.stat().st_mode & FOR_OTHERS, path
    names = {path.name for path in cluster.directory.rglob("*")}
    assert {"zoo.cfg", "version-2", "cluster.json", "broker-1.key", "broker-1.log"} <= names
