"""ZooKeeper is restored from an older copy while brokers and controllers run (CORRECTNESS E21, E17)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from strandline import Admin
from strandline.local.zookeeper_process import ZooKeeperProcess
from tests.conftest import ClusterFactory
from tests.integration.support.harness import FAULT_SETTINGS, SETTLE_S_MAX, Topic, watching
from tests.integration.support.workload import workload
from tests.scraping import scrape

SAID = "ZooKeeper was set back: this process starts anew with what it holds now"
FOUND_S = 20.0
"""Three seconds without a connection, a session of its own, and a pause of one session timeout."""


async def copied(server: ZooKeeperProcess, copy: Path) -> None:
    await server.kill()
    shutil.copytree(server.directory, copy)
    server.start()
    await server.wait_serving(SETTLE_S_MAX)


async def restored(server: ZooKeeperProcess, copy: Path) -> None:
    await server.kill()
    shutil.rmtree(server.directory)
    shutil.copytree(copy, server.directory)
    server.start()
    await server.wait_serving(SETTLE_S_MAX)


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_processes_say_so_and_start_anew_with_the_older_state(
    make_cluster: ClusterFactory, own_zookeeper: ZooKeeperProcess, tmp_path: Path
) -> None:
    """ZooKeeper refuses all of them for what they have seen, and says nothing. They find out, and begin with
    their logs: epochs continue above those that were lost, and no acknowledged record is missing."""
    cluster = await make_cluster(brokers=3, broker_settings=FAULT_SETTINGS, zookeeper=own_zookeeper.address)
    async with watching(cluster) as before:
        topic = await before.create_topic([(1, 2, 3)])
        async with workload(topic) as load:
            await load.progress()
            await copied(own_zookeeper, tmp_path / "copy")
            await cluster.stop_broker(1)
            await cluster.start_broker(1)
            await topic.isr_is(1, 2, 3)
            async with Admin(cluster.bootstrap) as admin:
                await admin.elect_preferred(topic.partitions)
            await load.progress()
            lost = await topic.state()
            assert lost.leader == 1
            await restored(own_zookeeper, tmp_path / "copy")
            async with watching(cluster) as harness:
                again = Topic(harness, topic.name, topic.assignment)
                await again.led_above(lost.leader_epoch, deadline_s=FOUND_S)
                await again.isr_is(1, 2, 3)
                await load.progress()
                await load.judge()
    for broker in (1, 2, 3):
        assert SAID in before.log_text(broker)
    controllers = [cluster.controller_metrics_port(each) for each in cluster.controller_ids]
    for port in (*map(cluster.metrics_port, (1, 2, 3)), *controllers):
        assert port is not None
        assert (await scrape(port))("strandline_zookeeper_set_back_total") >= 1
