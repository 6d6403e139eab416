"""The files of a secure local cluster (docs/correctness.md, X13 and Z2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.config.load import load
from strandline.config.services.broker import BrokerSettings
from strandline.local.cluster import LocalCluster
from strandline.local.layout import Layout
from strandline.local.secure.files import ClusterSecurity
from strandline.local.service import as_environment

FOR_OTHERS = 0o077
MEMBERS = ["controller-1", "broker-1"]


def made(directory: Path, *, own_zookeeper: bool) -> ClusterSecurity:
    security = ClusterSecurity(Layout(directory), own_zookeeper=own_zookeeper)
    security.make(MEMBERS)
    return security


def contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_what_is_missing_is_made_and_the_rest_stays(tmp_path: Path) -> None:
    """A cluster that had no encrypted ZooKeeper gets one with its next start."""
    made(tmp_path, own_zookeeper=False)
    first = contents(tmp_path)
    made(tmp_path, own_zookeeper=True)
    second = contents(tmp_path)
    assert first.items() < second.items()
    new = {path.name for path in second.keys() - first.keys()}
    assert new == {"zookeeper.pem", "zookeeper.key", "zookeeper.keystore.pem", "zookeeper-auth"}
    made(tmp_path, own_zookeeper=True)
    assert contents(tmp_path) == second


def test_what_a_killed_start_did_not_make_is_made_by_the_next_one(tmp_path: Path) -> None:
    """Each file may be the last that was made: the clients' settings were missing for good."""
    made(tmp_path, own_zookeeper=True)
    whole = contents(tmp_path)
    for path in whole:
        if path.name in ("ca.pem", "ca.key"):
            continue  # all certificates are of this authority
        path.unlink()
        made(tmp_path, own_zookeeper=True)
        assert contents(tmp_path).keys() == whole.keys(), path


@pytest.mark.slow
async def test_zookeeper_alone_is_started_with_all_that_it_reads(tmp_path: Path) -> None:
    cluster = LocalCluster(0, controllers=0, directory=tmp_path / "home", secure=True)
    await cluster.start_zookeeper()
    await cluster.stop(clean=False)


def test_secrets_are_for_their_owner_alone(tmp_path: Path) -> None:
    """Also the file that has ZooKeeper's key beside its certificate."""
    made(tmp_path, own_zookeeper=True)
    secret = [path for path in contents(tmp_path) if b"PRIVATE" in path.read_bytes()]
    assert "zookeeper.keystore.pem" in {path.name for path in secret}
    secret += [tmp_path / "metrics-token", tmp_path / "zookeeper-auth"]
    assert [path for path in secret if path.stat().st_mode & FOR_OTHERS] == []


def test_a_broker_shows_its_own_certificate_to_zookeeper(tmp_path: Path) -> None:
    security = made(tmp_path, own_zookeeper=True)
    fixed = security.service_settings("broker-1") | security.zookeeper_settings("broker-1")
    settings = load(
        BrokerSettings, **as_environment("broker", {"broker_id": 1, "data_dir": tmp_path, **fixed})
    )
    assert settings.zookeeper_ssl
    assert settings.zookeeper_ssl_certfile == settings.ssl_certfile == tmp_path / "tls" / "broker-1.pem"
    assert settings.zookeeper_ssl_check_hostname
    assert settings.metrics_ssl
    assert not settings.metrics_for_all
