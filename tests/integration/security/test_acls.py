"""What an authorizer costs ZooKeeper."""

from __future__ import annotations

import re

from strandline.local.zookeeper_process import ZooKeeperProcess, four_letter_word
from tests.conftest import ClusterFactory
from tests.waiting import eventually

SECURE = {"authorizer": "acl", "super_users": "User:ANONYMOUS"}
WATCHES_PER_BROKER_MAX = 4


async def watches(server: ZooKeeperProcess) -> list[str]:
    """As ZooKeeper counts them; none if it does not answer in time."""
    return re.findall(r"zk_watch_count\t(\d+)", await four_letter_word(server.port, "mntr"))


async def test_a_broker_with_an_authorizer_has_four_watches(
    make_cluster: ClusterFactory, zookeeper_server: ZooKeeperProcess
) -> None:
    """The budget of a broker."""
    (before,) = await eventually(lambda: watches(zookeeper_server))
    await make_cluster(brokers=1, broker_settings=SECURE, controller_settings=SECURE)

    async def four() -> bool:
        return await watches(zookeeper_server) == [str(int(before) + WATCHES_PER_BROKER_MAX)]

    await eventually(four, what="four watches more")
