"""`strandline acl` against a secure cluster, as its admin."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.integration.security.support.certified import certified
from tests.strandline.cli.support.cli_process import strandline
from tests.strandline.cli.support.shell import Shell
from tests.waiting import eventually


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    return await make_module_cluster(brokers=1, secure=True)


@pytest.fixture(scope="module")
def shell(cluster: LocalCluster) -> Shell:
    made = Shell(cluster)
    made.environment["STRANDLINE_CLIENT_CONFIG"] = f"{cluster.directory}/client.toml"
    return made


async def test_acls_are_added_listed_tested_and_removed(shell: Shell) -> None:
    prefixed = ("--resource-pattern-type", "prefixed")
    allowed = ("--allow-principal", "User:alice", "--operation", "describe-configs", "--topic", "tides")
    whom = ("--deny-principal", "User:eve", "--deny-host", "192.0.2.1")
    denied = (*whom, "--operation", "Read", "--topic", "ti")
    assert len(await shell.objects("acl", "add", *allowed)) == 1
    (added,) = await shell.objects("acl", "add", *denied, *prefixed)
    assert added == {
        "resource_type": "TOPIC", "name": "ti", "pattern_type": "PREFIXED", "principal": "User:eve",
        "host": "192.0.2.1", "operation": "READ", "permission": "DENY",
    }  # fmt: skip
    assert len(await shell.objects("acl", "list")) == 2
    assert await shell.objects("acl", "list", "--topic", "ti") == [added]
    found = await shell.objects("acl", "list", "--topic", "tides", "--resource-pattern-type", "match")
    assert len(found) == 2

    asked = ("--operation", "READ", "--topic", "tides", "--principal", "User:eve")
    refused = await shell("acl", "test", *asked, "--host", "192.0.2.1")
    assert refused.status == 1
    assert b"denied: DENY User:eve from 192.0.2.1 READ on TOPIC PREFIXED ti" in refused.out
    elsewhere = await shell("acl", "test", *asked, "--host", "192.0.2.2", "-o", "json")
    assert (elsewhere.status, elsewhere.objects[0]["by"]) == (1, None)
    (one,) = await shell.objects(
        "acl", "test", "--operation", "DescribeConfigs", "--topic", "tides", "--principal", "User:alice"
    )
    assert one["allowed"] is True

    assert await shell.objects("acl", "remove", *denied, *prefixed) == [added]
    assert len(await shell.objects("acl", "remove", "--topic", "tides")) == 1
    assert await shell.objects("acl", "list") == []


async def test_status_does_not_say_what_it_may_not_know(cluster: LocalCluster, tmp_path: Path) -> None:
    """The cluster names its active controller to those who may describe it. For others it is unknown."""
    certified(cluster, "eve")
    theirs = tmp_path / "eve.toml"
    theirs.write_text((cluster.directory / "client.toml").read_text().replace("/admin.", "/eve."))
    status = ("status", "-o", "json", "--dir", str(cluster.directory))
    (known,) = (await strandline(*status)).objects
    (unknown,) = (await strandline(*status, "--command-config", str(theirs))).objects
    assert [each["active"] for each in known["controllers"]] == [True]
    assert "no right to DESCRIBE" in unknown["problem"]
    assert [each["active"] for each in unknown["controllers"]] == [None]


@pytest.mark.parametrize("known", [False, True])
async def test_transactions_are_listed_with_rights_on_ids_alone(
    cluster: LocalCluster, shell: Shell, tmp_path: Path, known: bool
) -> None:
    """Others are left out, and no right on the topic with the ids is needed."""
    topic, mine = f"ledger-{known}", f"mine-{known}"
    await shell.topic(topic, replication_factor=1)
    for name in (mine, f"other-{known}"):
        assert (await shell("produce", topic, "--transactional-id", name, stdin=b"one\n")).status == 0
    certified(cluster, "tom")
    theirs = tmp_path / "tom.toml"
    theirs.write_text((cluster.directory / "client.toml").read_text().replace("/admin.", "/tom."))
    tom = ("--command-config", str(theirs), "-o", "json", "--dir", str(cluster.directory))
    if known:
        allowed = ("--allow-principal", "User:tom", "--operation", "describe", "--transactional-id", mine)
        assert len(await shell.objects("acl", "add", *allowed)) == 1

    async def listed() -> bool:
        found = await strandline("transaction", "list", *tom)
        assert found.status == 0, found.err
        return [each["transactional_id"] for each in found.objects] == ([mine] if known else [])

    await eventually(listed)
    assert (await strandline("transaction", "find-hanging", *tom)).status == 0


async def test_wrong_usage_is_refused_before_the_cluster_is_asked(shell: Shell) -> None:
    for arguments in (
        ("add", "--topic", "tides"),
        ("add", "--allow-principal", "alice", "--topic", "tides"),
        ("add", "--allow-principal", "User:alice", "--operation", "fly", "--topic", "tides"),
        ("add", "--allow-principal", "User:alice"),
        ("remove",),
        ("remove", "--topic", "tides", "--operation", "READ"),
        ("test", "--operation", "READ"),
    ):
        assert (await shell("acl", *arguments)).status == 2, arguments
