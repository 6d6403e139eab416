"""`strandline quota` against a cluster."""

from __future__ import annotations

import pytest

from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.strandline.cli.support.shell import Shell


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    return await make_module_cluster(brokers=1)


@pytest.fixture(scope="module")
def shell(cluster: LocalCluster) -> Shell:
    return Shell(cluster)


async def test_quotas_are_set_listed_and_deleted(shell: Shell) -> None:
    alice = ("--user", "alice")
    assert (await shell("quota", "set", *alice, "--producer-byte-rate", "1048576")).status == 0
    app = ("--user-default", "--client-id", "a/b")
    set_two = await shell("quota", "set", *app, "--request-percentage", "12.5", "--consumer-byte-rate", "1")
    assert set_two.status == 0
    default = {"user": "<default>", "client_id": "a/b", "consumer_byte_rate": 1, "request_percentage": 12.5}
    named = {"user": "alice", "producer_byte_rate": 1048576}
    assert await shell.objects("quota", "list") == [default, named]
    assert await shell.objects("quota", "list", "--client-id", "a/b") == [default]
    table = (await shell("quota", "list", *alice)).out
    assert b"user alice" in table and b"1,048,576" in table
    assert (await shell("quota", "delete", *app, "--quota", "consumer_byte_rate")).status == 0
    deleted = await shell("quota", "delete", *alice)
    assert deleted.status == 0 and "deleted for user alice: producer_byte_rate" in deleted.err
    again = await shell("quota", "delete", *alice)
    assert again.status == 0 and "user alice has no quota: nothing is deleted" in again.err
    assert await shell.objects("quota", "list") == [
        {"user": "<default>", "client_id": "a/b", "request_percentage": 12.5}
    ]


async def test_addresses_have_quotas_too(shell: Shell) -> None:
    rate = ("--connection-creation-rate", "10")
    assert (await shell("quota", "set", "--ip", "192.0.2.1", *rate)).status == 0
    assert (await shell("quota", "set", "--ip-default", *rate)).status == 0
    named = {"ip": "192.0.2.1", "connection_creation_rate": 10}
    assert await shell.objects("quota", "list", "--ip", "192.0.2.1") == [named]
    assert await shell.objects("quota", "list", "--ip-default") == [{**named, "ip": "<default>"}]
    assert b"ip <default>" in (await shell("quota", "list")).out
    deleted = await shell("quota", "delete", "--ip", "192.0.2.1")
    assert deleted.status == 0 and "deleted for ip 192.0.2.1: connection_creation_rate" in deleted.err
    assert (await shell("quota", "delete", "--ip-default")).status == 0
    assert await shell.objects("quota", "list", "--ip", "192.0.2.1") == []
    for arguments in (("--ip", "localhost"), ("--ip", "192.0.2.1", "--user", "alice")):
        refused = await shell("quota", "set", *arguments, *rate)
        assert refused.status == 1 and ("an ip stands alone" in refused.err or "no address" in refused.err)
    other = await shell("quota", "set", "--user", "alice", *rate)
    assert other.status == 1 and "is no quota of user alice" in other.err


async def test_wrong_usage_is_refused_before_the_cluster_is_asked(shell: Shell) -> None:
    for arguments in (
        ("set", "--producer-byte-rate", "1"),
        ("set", "--user", "alice"),
        ("set", "--user", "alice", "--user-default", "--producer-byte-rate", "1"),
        ("set", "--user", "", "--producer-byte-rate", "1"),
        ("delete",),
        ("delete", "--user", "alice", "--quota", "x"),
    ):
        assert (await shell("quota", *arguments)).status == 2, arguments
    refused = await shell("quota", "set", "--user", "alice", "--producer-byte-rate", "0.5")
    assert refused.status == 1 and "producer_byte_rate = 0.5" in refused.err
