"""Kafka members and the end of their coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from strandline.broker.kafka.wire.apis import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    SYNC_GROUP,
    ApiWire,
)
from strandline.local.cluster import LocalCluster
from tests.broker.kafka.support.kafka_wire import kafka_wire
from tests.broker.kafka.support.kio_codec import Values
from tests.conftest import ClusterFactory
from tests.integration.kafka.support.group_wire import (
    NOT_COORDINATOR,
    SESSION_MS,
    enter,
    errors,
    joining,
    offsets,
    rebalances,
    sync,
)
from tests.waiting import eventually


@pytest.fixture(scope="module")
async def three(make_module_cluster: ClusterFactory) -> LocalCluster:
    return await make_module_cluster(
        brokers=3, kafka=True, broker_settings={"group_initial_rebalance_delay_ms": 0}
    )


async def coordinator(cluster: LocalCluster, group: str) -> tuple[int, str]:
    """Its id and its Kafka address."""
    async with kafka_wire(cluster.kafka_bootstrap.split(",")[0]) as wire:

        async def found() -> Values | None:
            answer = await wire.ask(FIND_COORDINATOR.key, 1, key=group)
            return answer if answer["error_code"] == 0 else None

        answer = await eventually(found)
        assert answer is not None
        return answer["node_id"], f"{answer['host']}:{answer['port']}"


def every_request(group: str) -> Sequence[tuple[ApiWire[Any, Any], int, Values]]:
    member = {"group_id": group, "member_id": "m", "generation_id": 1}
    return (
        (JOIN_GROUP, 9, joining(group, rebalance_timeout_ms=SESSION_MS)),
        (SYNC_GROUP, 4, member),
        (HEARTBEAT, 4, member),
        (LEAVE_GROUP, 5, {"group_id": group, "members": [{"member_id": "m"}]}),
        (OFFSET_FETCH, 7, {"group_id": group, "topics": None}),
        (OFFSET_DELETE, 0, {"group_id": group, "topics": []}),
    )


async def test_a_broker_that_does_not_coordinate_a_group_says_so(three: LocalCluster, group: str) -> None:
    _, there = await coordinator(three, group)
    elsewhere = next(each for each in three.kafka_bootstrap.split(",") if each != there)
    async with kafka_wire(elsewhere) as wire:
        for api, version, values in every_request(group):
            found = await wire.ask(api.key, version, **values)
            assert found["error_code"] == NOT_COORDINATOR, api.name
        found = await wire.ask(OFFSET_COMMIT.key, 8, group_id=group, topics=offsets((0, 1)))
        assert errors(found) == [NOT_COORDINATOR]
        for api, names in ((DESCRIBE_GROUPS, "groups"), (DELETE_GROUPS, "groups_names")):
            found = await wire.ask(api.key, 2, **{names: [group]})
            (one,) = found["groups" if api is DESCRIBE_GROUPS else "results"]
            assert one["error_code"] == NOT_COORDINATOR
        found = await wire.ask(
            OFFSET_FETCH.key, 1, group_id=group, topics=[{"name": "t", "partition_indexes": [0]}]
        )
        assert errors(found) == [NOT_COORDINATOR]


async def test_a_join_that_waits_is_refused_when_its_coordinator_stops(
    three: LocalCluster, group: str
) -> None:
    """Before the connection ends, so that the client looks for the next coordinator at once."""
    broker, there = await coordinator(three, group)
    async with kafka_wire(there) as first, kafka_wire(there) as second:

        async def member() -> Values | None:
            joined = await enter(first, group)
            return joined if joined["error_code"] == 0 else None

        joined = await eventually(member)
        assert joined is not None
        await sync(first, group, joined, {joined["member_id"]: b"all"})
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(enter(second, group))
            await eventually(lambda: rebalances(first, group, joined))
            await three.stop_broker(broker)
        assert waiting.result()["error_code"] == NOT_COORDINATOR
    await three.start_broker(broker)
