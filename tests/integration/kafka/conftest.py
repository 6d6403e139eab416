"""A broker for requests about groups, one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from strandline import Admin
from strandline.broker.kafka.wire.apis import DESCRIBE_GROUPS, FIND_COORDINATOR
from strandline.local.cluster import LocalCluster
from tests.broker.kafka.support.kafka_wire import KafkaWire, kafka_wire
from tests.conftest import ClusterFactory
from tests.integration.kafka.support.group_wire import GROUPS
from tests.waiting import eventually

NAMES = 500
"""Enough names of groups for each partition of the coordinator's topic to have one."""


@pytest.fixture(scope="module")
async def lone_broker(make_module_cluster: ClusterFactory) -> LocalCluster:
    """It coordinates every group, and has the topic `tides` of three partitions."""
    cluster = await make_module_cluster(
        brokers=1, kafka=True, broker_settings={"group_initial_rebalance_delay_ms": 0}
    )
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic("tides", partitions=3, replication_factor=1)
    async with kafka_wire(cluster.kafka_bootstrap) as wire:

        async def coordinated() -> bool:
            found = await wire.ask(FIND_COORDINATOR.key, 0, key="g")
            asked = [f"group-{number}" for number in range(NAMES)]
            described = (await wire.ask(DESCRIBE_GROUPS.key, 5, groups=asked))["groups"]
            return not any(each["error_code"] for each in [found, *described])

        await eventually(coordinated)
    return cluster


@pytest.fixture
async def wire(lone_broker: LocalCluster) -> AsyncIterator[KafkaWire]:
    async with kafka_wire(lone_broker.kafka_bootstrap) as wire:
        yield wire


@pytest.fixture
def group() -> str:
    """A group that is new."""
    return next(GROUPS)
