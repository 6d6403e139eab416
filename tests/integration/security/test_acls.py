"""ACLs of a running cluster: its admin client, and the brokers' watches."""

from __future__ import annotations

import re

import pytest

from strandline import Admin
from strandline.errors import InvalidRequest, SecurityDisabled
from strandline.local.cluster import LocalCluster
from strandline.local.zookeeper_process import ZooKeeperProcess, four_letter_word
from strandline.security.acls import (
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from strandline.security.principal import Principal
from tests.conftest import ClusterFactory
from tests.waiting import eventually

SECURE = {"authorizer": "acl", "super_users": "User:ANONYMOUS"}
BROKERS = 3
WATCHES_PER_BROKER_MAX = 4


def acl(name: str, pattern_type: PatternType = PatternType.LITERAL, principal: str = "alice") -> AclBinding:
    pattern = ResourcePattern(ResourceType.TOPIC, name, pattern_type)
    return AclBinding(pattern, Principal(principal), "*", Operation.READ, Permission.ALLOW)


async def watches(server: ZooKeeperProcess) -> list[str]:
    """As ZooKeeper counts them; none if it does not answer in time."""
    return re.findall(r"zk_watch_count\t(\d+)", await four_letter_word(server.port, "mntr"))


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    return await make_module_cluster(brokers=BROKERS, broker_settings=SECURE, controller_settings=SECURE)


async def test_an_admin_client_creates_lists_and_deletes_acls(cluster: LocalCluster) -> None:
    wanted = [acl("tides"), acl("ti", PatternType.PREFIXED), acl("waves", principal="bob")]
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_acls(wanted)
        await admin.create_acls(wanted)
        assert await admin.describe_acls() == sorted(wanted)
        matching = AclFilter(ResourceType.TOPIC, "tides", PatternType.MATCH)
        assert await admin.describe_acls(matching) == sorted(wanted[:2])
        both = [matching, AclFilter(principal=Principal("alice"))]
        assert await admin.delete_acls(both) == sorted(wanted[:2])
        assert await admin.describe_acls() == [wanted[2]]
        with pytest.raises(InvalidRequest, match="at most"):
            await admin.create_acls([acl(f"n{number}") for number in range(1_001)])


async def test_a_broker_with_an_authorizer_has_four_watches(
    make_cluster: ClusterFactory, zookeeper_server: ZooKeeperProcess
) -> None:
    """The budget of a broker."""
    (before,) = await eventually(lambda: watches(zookeeper_server))
    await make_cluster(brokers=1, broker_settings=SECURE, controller_settings=SECURE)

    async def four() -> bool:
        return await watches(zookeeper_server) == [str(int(before) + WATCHES_PER_BROKER_MAX)]

    await eventually(four, what="four watches more")


async def test_a_cluster_without_an_authorizer_refuses_acls(make_cluster: ClusterFactory) -> None:
    cluster = await make_cluster(brokers=1)
    async with Admin(cluster.bootstrap) as admin:
        with pytest.raises(SecurityDisabled, match="authorizer"):
            await admin.create_acls([acl("tides")])
