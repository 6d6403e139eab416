"""Users of a running cluster: set, listed and deleted, while brokers log them in."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline import Admin
from strandline.local.cluster import LocalCluster
from strandline.security.login.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from tests.conftest import ClusterFactory
from tests.integration.security.logins.support.kafka_clients import logs_in
from tests.strandline.cli.support.shell import Shell
from tests.waiting import eventually

SETTINGS = {
    "kafka_security_protocol": "SASL_PLAINTEXT",
    "sasl_enabled_mechanisms": f"{SCRAM_SHA_256},{SCRAM_SHA_512}",
}


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    return await make_module_cluster(brokers=1, broker_settings=SETTINGS, kafka=True)


async def test_a_user_logs_in_until_it_is_deleted(cluster: LocalCluster) -> None:
    """A10: by the newest password alone."""
    async with Admin(cluster.bootstrap) as admin:
        await admin.set_user("alice", "one")
        await eventually(lambda: logs_in(cluster, "alice", "one"), what="alice logs in")
        await admin.set_user("alice", "two")
        await eventually(lambda: logs_in(cluster, "alice", "two"), what="alice logs in by the other password")
        assert not await logs_in(cluster, "alice", "one")
        await admin.delete_user("alice")

        async def gone() -> bool:
            return not await logs_in(cluster, "alice", "two")

        await eventually(gone, what="alice logs in no longer")


async def test_users_are_set_listed_and_deleted_by_commands(cluster: LocalCluster, tmp_path: Path) -> None:
    shell = Shell(cluster)
    file = tmp_path / "password"
    file.write_text("secret-of-carol\n")
    file.chmod(0o600)
    ended = await shell("user", "set", "carol", "--password-file", str(file), "--mechanism", SCRAM_SHA_256)
    assert ended.status == 0, ended.err
    await eventually(
        lambda: logs_in(cluster, "carol", "secret-of-carol", SCRAM_SHA_256), what="carol logs in"
    )
    assert await shell.objects("user", "list") == [{"user": "carol", "iterations": {SCRAM_SHA_256: 8_192}}]
    assert b"SCRAM-SHA-256 (8192)" in (await shell("user", "list", "carol")).out
    unknown = await shell("user", "list", "carol", "nobody")
    assert unknown.status != 0 and "nobody" in unknown.err

    refused = await shell("user", "delete", "carol", "--mechanism", SCRAM_SHA_512)
    assert refused.status != 0 and "no credential for SCRAM-SHA-512" in refused.err
    assert (await shell("user", "delete", "carol")).status == 0
    assert await shell.objects("user", "list") == []
