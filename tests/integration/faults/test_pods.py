"""What Kubernetes does with a broker's pod, done to the brokers of a cluster (docs/run/kubernetes.md)."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from strandline import Admin
from tests.deploy.support.manifests import Workload, rendered
from tests.integration.faults.test_rolling_restart import watched
from tests.integration.support.harness import Harness
from tests.integration.support.workload import workload
from tests.waiting import eventually

pytestmark = pytest.mark.slow


async def before_stop(harness: Harness, broker: int) -> None:
    """Runs the hook of the manifests with the environment of the pod, at the address of this broker."""
    pod = Workload(rendered("base"), "broker")
    *shell, script = pod.container["lifecycle"]["preStop"]["exec"]["command"]
    host, _, port = harness.cluster.address(broker).rpartition(":")
    address = f":{pod.ports['grpc']}"
    assert address in script
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "STRANDLINE_BROKER_ID": str(broker),
        "STRANDLINE_ADVERTISED_HOST": host,
    }
    hook = await asyncio.create_subprocess_exec(
        *shell,
        script.replace(address, f":{port}"),
        env=os.environ | environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await hook.communicate()
    assert hook.returncode == 0, said.decode()


@pytest.mark.timeout(240)
async def test_pods_are_replaced_one_after_the_other_without_an_error_or_a_loss(own: Harness) -> None:
    """Only the hook holds the next pod back, and no command follows a start (CORRECTNESS H5, I7)."""
    topic = await own.create_topic([(1, 2, 3), (2, 3, 1), (3, 1, 2)], {"min.insync.replicas": "2"})
    async with workload(topic) as load, watched(topic) as availability:
        await load.progress()
        for broker in sorted(own.cluster.broker_ids, reverse=True):
            await before_stop(own, broker)
            for name in topic.partitions:
                assert (await topic.state(name.partition)).leader != broker
            await own.cluster.stop_broker(broker)
            await load.progress()
            await own.cluster.start_broker(broker)
        history = await load.judge()
    assert history.failed == []
    assert min(availability.least.values()) >= 2, availability.least

    async def none_is_drained() -> bool:
        async with Admin(own.cluster.bootstrap) as admin:
            return not any(each.drained for each in (await admin.describe_cluster()).brokers)

    await eventually(none_is_drained, deadline_s=30, what="each drain ended when its broker was back")
