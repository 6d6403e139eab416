"""Replicas that are behind, and partitions with something wrong, as `topic` and `status` show them."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.strandline.cli.support.shell import Shell
from tests.waiting import eventually

pytestmark = pytest.mark.slow

RECORDS = 200


@pytest.fixture
async def cluster(make_cluster: ClusterFactory) -> LocalCluster:
    return await make_cluster(brokers=3)


@pytest.mark.timeout(180)
async def test_a_broker_takes_copies_no_faster_than_its_bound(make_cluster: ClusterFactory) -> None:
    """CORRECTNESS I10: the bound is the receiving broker's; the rest of the stream goes on meanwhile."""
    slow = {"reassignment_incoming_bytes_per_s": 1, "reassignment_near_bytes": 0}
    shell = Shell(await make_cluster(brokers=2, broker_settings=slow))
    moving, whole = await shell.topic("moving", replication_factor=1), "whole"
    await shell.topic(whole, replication_factor=2)
    await shell.objects("produce", moving, stdin=b"\n".join([b"x" * 10_000] * 500))
    (described,) = await shell.objects("topic", "describe", moving)
    there = 3 - described["partitions"][0]["leader"]
    await shell.objects("topic", "reassign", moving, "--partition", "0", "--replicas", str(there))

    async def held() -> bool:
        (move,) = await shell.objects("topic", "reassign", "--list")
        return move["bytes_done"] is not None and move["bytes_done"] > 0

    await eventually(held, deadline_s=60, what="the first records are copied")
    for _ in range(3):
        (done,) = await shell.objects("produce", whole, stdin=b"\n".join([b"y"] * 100))
        assert done["acked"] == 100
    (move,) = await shell.objects("topic", "reassign", "--list")
    assert move["bytes_left"] > move["bytes_done"] > 0


async def selected(shell: Shell, *options: str) -> dict[str, list[int]]:
    """The partitions of the test's topics that these options select."""
    return {
        each["topic"]: [row["partition"] for row in each["partitions"]]
        for each in await shell.objects("topic", "describe", *options)
        if not each["topic"].startswith("__")
    }


@pytest.mark.timeout(180)
async def test_partitions_are_selected_and_replicas_are_behind_while_brokers_are_down(
    cluster: LocalCluster,
) -> None:
    """One down: the rest takes records, which the lost replica lacks. Two down: acks=all is refused."""
    shell = Shell(cluster)
    topic = await shell.topic("three", partitions=2)
    await shell.topic("single", partitions=3, replication_factor=1)
    (single,) = await shell.objects("topic", "describe", "single")
    on = {row["leader"]: row["partition"] for row in single["partitions"]}
    for options in (["--under-replicated"], ["--leaderless", "--below-min-isr"]):
        assert await selected(shell, *options) == {}
    assert await selected(shell, "--at-min-isr") == {"single": [0, 1, 2]}

    await cluster.kill_broker(3)

    async def all_noticed() -> bool:
        return await selected(shell, "--under-replicated") == {"single": [on[3]], "three": [0, 1]}

    async def others_lead() -> bool:
        return await selected(shell, "--leaderless") == {"single": [on[3]]}

    await eventually(all_noticed, deadline_s=60)
    await eventually(others_lead, deadline_s=60, what="the rest has leaders")
    assert {"topic": "single", "partitions": [on[3]]} in await shell.objects("topic", "list", "--leaderless")
    assert (await selected(shell, "--at-min-isr"))["three"] == [0, 1]
    (done,) = await shell.objects("produce", topic, stdin=b"\n".join([b"x" * 100] * RECORDS))
    assert done["acked"] == RECORDS

    async def lost() -> list[dict[str, Any]]:
        (described,) = await shell.objects("topic", "describe", topic)
        return [each for row in described["partitions"] for each in row["progress"] if each["broker"] == 3]

    for each in await lost():
        assert not each["in_sync"] and not each["fetching"] and each["lag_ms"] > 0
    known = [each for each in await lost() if each["lag"] is not None]
    (status,) = await shell.objects("status")
    replication = status["replication"]
    assert (replication["leaderless"], replication["worst"]["broker"]) == (1, 3)
    assert replication["lag"] >= sum(each["lag"] for each in known)
    text = (await shell("topic", "describe", topic)).out.decode()
    assert text.count("not fetching") == 2

    await cluster.kill_broker(2)

    async def refused() -> bool:
        return "three" in await selected(shell, "--below-min-isr")

    async def gone() -> bool:
        return (await selected(shell, "--leaderless"))["single"] == sorted([on[2], on[3]])

    await eventually(refused, deadline_s=60)
    await eventually(gone, deadline_s=60, what="its session has ended")
