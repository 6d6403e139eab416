"""Requests reach ZooKeeper, and their answers are lost (CORRECTNESS E20)."""

from __future__ import annotations

import pytest

from strandline import Admin
from strandline.local.zookeeper_process import ZooKeeperProcess
from tests.conftest import ClusterFactory
from tests.integration.support.harness import FAULT_SETTINGS, SESSION_TIMEOUT_MS
from tests.integration.support.lives import judged
from tests.integration.support.workload import workload
from tests.proxy import Proxy

BOUND_S = 4 * SESSION_TIMEOUT_MS / 1000 + 4
"""Until the session has ended: silence, one attempt, the timeout, and ZooKeeper's own tick of two seconds."""


@pytest.mark.slow
@pytest.mark.timeout(150)
async def test_a_leader_that_zookeeper_hears_and_that_hears_nothing_is_replaced(
    make_cluster: ClusterFactory, own_zookeeper: ZooKeeperProcess
) -> None:
    """It cannot remove a dead follower from the ISR, so nothing is acknowledged until its session has ended.
    Healed, it is a follower in another life, and nothing that was acknowledged is lost."""
    async with Proxy(own_zookeeper.port) as link:
        cluster = await make_cluster(brokers=3, broker_settings=FAULT_SETTINGS, zookeeper=link.address)
        async with judged(cluster) as harness:
            topic = await harness.create_topic([(1, 2, 3)], {"min.insync.replicas": "1"})
            async with workload(topic) as load:
                await cluster.stop_broker(1)
                link.spare()
                await cluster.start_broker(1)
                await topic.isr_is(1, 2, 3)
                async with Admin(cluster.bootstrap) as admin:
                    await admin.elect_preferred(topic.partitions)
                before = await topic.state()
                assert before.leader == 1
                await load.progress()
                link.swallows_answers = True
                await cluster.kill_broker(3)
                after = await topic.led_above(before.leader_epoch, deadline_s=BOUND_S)
                assert after.leader == 2
                await load.progress()
                link.swallows_answers = False
                await cluster.start_broker(3)
                await topic.isr_is(1, 2, 3)
                await load.progress()
                history = await load.judge()
    assert history.failed == []
