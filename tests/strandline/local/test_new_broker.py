"""A broker that is added to a local cluster continues what the others have."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from strandline import LocalCluster
from strandline.errors import SettingsError
from strandline.local.layout import ClusterFile, Layout, MemberFile
from strandline.local.members.new_cluster import new_broker, new_members
from strandline.local.ports import LOOPBACK, METRICS_OFFSET, free_ports, is_free
from strandline.local.process import ProcessFailed


def _cluster(
    brokers: int, *, base_port: int | None = None, kafka_port: int | None = None, racks: tuple[str, ...] = ()
) -> ClusterFile:
    return new_members(
        brokers,
        1,
        base_port=base_port,
        kafka=kafka_port is not None,
        kafka_port=kafka_port,
        racks=racks,
        broker_settings={},
        controller_settings={},
        zookeeper=None,
        secure=False,
    )


def _free_run(count: int) -> int:
    """The first of this many ports that are free now, and whose metrics ports are."""
    while True:
        (first,) = free_ports(1)
        metrics = first + METRICS_OFFSET
        if all(map(is_free, (*range(first, first + count), *range(metrics, metrics + count)))):
            return first


def test_ports_that_were_counted_up_are_counted_on() -> None:
    base, kafka = _free_run(3), _free_run(3)
    cluster = _cluster(2, base_port=base, kafka_port=kafka)
    added = new_broker(cluster, {"keep_in_sync_ms": "750"})
    assert added == MemberFile(
        id=3,
        port=base + 2,
        metrics_port=base + 2 + METRICS_OFFSET,
        kafka_port=kafka + 2,
        settings={"keep_in_sync_ms": "750"},
    )


def test_a_port_that_another_program_has_is_left_to_it() -> None:
    base, kafka = _free_run(3), _free_run(3)
    cluster = _cluster(2, base_port=base, kafka_port=kafka)
    with socket.create_server((LOOPBACK, base + 2)), socket.create_server((LOOPBACK, kafka + 2)):
        added = new_broker(cluster, {})
    taken = {port for port, _ in cluster.ports()}
    ports = {added.port, added.metrics_port, added.kafka_port}
    assert len(ports - taken - {base + 2, kafka + 2, None}) == 3


def test_racks_are_filled_in_turn() -> None:
    cluster = _cluster(3, racks=("east", "west"))
    assert new_broker(cluster, {}).rack == "west"
    assert new_broker(cluster, {}, rack="north").rack == "north"
    assert new_broker(_cluster(1), {}).rack == ""


def test_a_local_cluster_has_a_bound() -> None:
    with pytest.raises(SettingsError, match="0 to 100 brokers"):
        new_broker(_cluster(100), {})


@pytest.mark.slow
async def test_a_secure_cluster_grows_with_a_certificate_of_its_own_authority(tmp_path: Path) -> None:
    """The clients' trust stays the same, and the ACLs of the cluster hold at the new broker."""
    home = tmp_path / "home"
    async with LocalCluster(1, directory=home, secure=True, detached=True):
        pass
    try:
        cluster = LocalCluster.open(home)
        authority = (home / "tls" / "ca.pem").read_bytes()
        assert await cluster.grow(2) == [2]
        assert (home / "tls" / "ca.pem").read_bytes() == authority
        assert (home / "tls" / "broker-2.pem").exists()
        again = LocalCluster.open(home)
        assert again.broker_ids == [1, 2]
        assert await again.grow(1) == []
    finally:
        await LocalCluster.open(home).stop()


async def test_a_broker_that_cannot_start_is_not_added(tmp_path: Path) -> None:
    """The cluster is afterwards as it was, and its file has no member that never ran."""
    home = tmp_path / "home"
    layout = Layout(home)
    async with LocalCluster(0, controllers=0, directory=home, detached=True):
        pass
    try:
        cluster = LocalCluster.open(home)
        with pytest.raises(SettingsError, match="0 to 100 brokers"):
            await cluster.grow(101)
        assert cluster.broker_ids == []
        (home / "brokers").write_text("not a folder")
        with pytest.raises(ProcessFailed, match="broker-1 died"):
            await LocalCluster.open(home).grow(1)
        assert layout.read().brokers == []
    finally:
        await LocalCluster.open(home).stop()
