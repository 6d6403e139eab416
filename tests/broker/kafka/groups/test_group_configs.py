"""Configs of groups on the way from a Kafka client to the coordinator, which goes by them (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.admin.configs import (
    DELETE,
    GROUP,
    SET,
    ConfigChange,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    Resource,
    ResourceChanges,
    WantedConfigs,
)
from strandline.broker.kafka.wire.admin.resources import ListResourcesRequest
from strandline.errors import ErrorCode, InvalidConfig
from strandline.testing import SimulatedCluster
from strandline.vocabulary.configs.groups import HEARTBEAT_INTERVAL, SESSION_TIMEOUT
from tests.broker.kafka.support.consumers import Consumers
from tests.broker.kafka.support.group_client import lone_broker
from tests.virtual_time import on_virtual_time

INVALID_CONFIG = 40


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with lone_broker() as cluster:
        yield cluster


class Configured(Consumers):
    async def change(self, group: str, name: str, value: str | None) -> int:
        """Sets it, or deletes it without a value."""
        change = ConfigChange(name, DELETE if value is None else SET, value)
        asked = IncrementalAlterConfigsRequest((ResourceChanges(Resource(GROUP, group), (change,)),), False)
        (outcome,) = (await self.ask(apis.INCREMENTAL_ALTER_CONFIGS, asked)).outcomes
        return int(outcome.error)

    async def values(self, group: str) -> dict[str, str | None]:
        asked = DescribeConfigsRequest((WantedConfigs(Resource(GROUP, group), None),))
        (found,) = (await self.ask(apis.DESCRIBE_CONFIGS, asked)).resources
        assert found.error == 0
        return {each.name.removeprefix("consumer."): each.value for each in found.configs}

    async def configured(self) -> list[str]:
        asked = ListResourcesRequest((GROUP,))
        return [each.name for each in (await self.ask(apis.LIST_CONFIG_RESOURCES, asked)).resources]

    async def until_interval(self, group: str, member: str, epoch: int, interval_ms: int) -> None:
        async def so() -> bool:
            return (await self.heartbeat(group, member, epoch)).interval_ms == interval_ms

        await self.until(so, f"the interval is {interval_ms} ms")


@on_virtual_time
async def test_members_go_by_the_configs_of_their_group_at_once(cluster: SimulatedCluster) -> None:
    """The interval is in the next answer, and a silent member is out after the group's session timeout."""
    client = await Configured.prepared(cluster)
    for group in ("slow", "other"):
        assert (await client.heartbeat(group, "a", 0)).interval_ms == 5_000
    assert await client.change("slow", HEARTBEAT_INTERVAL, "15000") == 0
    assert await client.change("slow", SESSION_TIMEOUT, "60000") == 0
    assert await client.values("slow") == {
        "assignment.interval.ms": "0",
        "heartbeat.interval.ms": "15000",
        "session.timeout.ms": "60000",
    }
    assert await client.configured() == ["slow"]
    await client.until_interval("slow", "a", 2, 15_000)
    other = await client.heartbeat("other", "a", 2)
    assert (other.error, other.interval_ms) == (0, 5_000)
    await cluster.host.clock.sleep(50)
    assert (await client.heartbeat("other", "a", 2)).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await client.heartbeat("slow", "a", 2)).error == 0
    assert await client.change("slow", SESSION_TIMEOUT, None) == 0
    assert (await client.values("slow"))["session.timeout.ms"] == "45000"
    assert await client.change("slow", HEARTBEAT_INTERVAL, None) == 0
    await client.until_interval("slow", "a", 2, 5_000)
    assert await client.configured() == []
    await cluster.host.clock.sleep(50)
    assert (await client.heartbeat("slow", "a", 2)).error == ErrorCode.UNKNOWN_MEMBER_ID


@on_virtual_time
async def test_what_cannot_be_set_is_refused_as_by_kafka(cluster: SimulatedCluster) -> None:
    client = await Configured.prepared(cluster)
    for name, value in (
        (SESSION_TIMEOUT, "44999"),
        (HEARTBEAT_INTERVAL, "15001"),
        (HEARTBEAT_INTERVAL, "soon"),
        ("unknown.config", "1"),
        ("share.session.timeout.ms", "50000"),
    ):
        assert await client.change("g", name, value) == INVALID_CONFIG, name
    assert await client.change("", SESSION_TIMEOUT, "50000") == ErrorCode.INVALID_REQUEST
    assert await client.change("g", "unknown.config", None) == 0
    assert await client.configured() == []


@on_virtual_time
async def test_an_admin_sets_the_same_configs(cluster: SimulatedCluster) -> None:
    client = await Configured.prepared(cluster)
    async with cluster.admin() as admin:
        await admin.alter_group_config("g", {HEARTBEAT_INTERVAL: "6000"})
        assert await admin.describe_group_configs() == {"g": {HEARTBEAT_INTERVAL: "6000"}}
        with pytest.raises(InvalidConfig, match="45000"):
            await admin.alter_group_config("g", {SESSION_TIMEOUT: "1"})
        await client.heartbeat("g", "a", 0)
        await client.until_interval("g", "a", 2, 6_000)
        await admin.alter_group_config("g", unset=[HEARTBEAT_INTERVAL])
        assert await admin.describe_group_configs(["g"]) == {"g": {}}
