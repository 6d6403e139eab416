"""Members' task reports, from a consumer to the group's events, with brokers that come and go."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from strandline import Consumer
from strandline.errors import InvalidRequest
from strandline.ids import GROUP_EVENTS_TOPIC, TopicPartition
from strandline.testing import MemoryCluster
from strandline.vocabulary.groups import TaskChange, TaskChangeKind
from tests.integration.groups.support.group_members import Members, new_topic
from tests.reachable import Reachable
from tests.waiting import eventually

pytestmark = pytest.mark.slow

KINDS = TaskChangeKind


@pytest.fixture
async def members(cluster: MemoryCluster) -> AsyncIterator[Members]:
    topic = await new_topic(cluster, 2)
    async with Members(cluster, [topic], rebalance_protocol="cooperative") as members:
        yield members


async def events_of(cluster: Reachable, group: str) -> list[dict[str, Any]]:
    """All that the topic has now, in its order."""
    found: list[dict[str, Any]] = []
    name = TopicPartition(GROUP_EVENTS_TOPIC, 0)
    async with Consumer(cluster.bootstrap, host=cluster.host, offset_reset="earliest") as consumer:
        end = (await consumer.end_offsets([name]))[name]
        consumer.assign([name])
        while await consumer.position(name) < end:
            for records in (await consumer.getmany(timeout_ms=1_000)).values():
                found += [json.loads(r.value or b"") for r in records if r.key == group.encode()]
    return found


async def task_events(members: Members, event: str, task: str | None = None) -> list[dict[str, Any]]:
    """The group's events, once this one is among them."""

    async def there() -> list[dict[str, Any]]:
        found = await events_of(members.cluster, members.group)
        return found if (event, task) in {(each["event"], each.get("task")) for each in found} else []

    return await eventually(there, deadline_s=30)


def places(events: list[dict[str, Any]], member: str) -> list[tuple[str, str | None]]:
    """One member's reports, in the order of the topic."""
    said = [event for event in events if event.get("member") == member]
    own = ("assigned", "revoked", "lost", "member_left")
    return [
        (event["event"], event.get("task"))
        for event in said
        if event["event"] in own or event["event"].startswith("task_")
    ]


async def test_task_reports_come_after_their_partitions_and_before_the_member_leaves(
    members: Members,
) -> None:
    """From the listener too: a task runs once its partitions are assigned, and is closed before they go."""
    one = await members.join()
    at_ms = iter(range(1_000, 0, -1))  # a clock that goes back

    async def report(kind: str, partitions: set[TopicPartition]) -> None:
        change = KINDS.RUNNING if kind == "assigned" else KINDS.CLOSED
        one.consumer.report_tasks(
            TaskChange(change, f"t-{p.partition}", next(at_ms)) for p in sorted(partitions)
        )

    one.heard.before = report
    await members.settled(one, partitions=2)
    generation, member = one.generation, one.consumer.group_metadata().member_id
    progress = TaskChange(KINDS.PROGRESS, "t-7", next(at_ms), "slow", 700, float("nan"), 2_300)
    one.consumer.report_tasks([TaskChange(KINDS.LEARNING, "t-7", next(at_ms)), progress])
    one.consumer.report_tasks([])
    await members.leave(one)
    found = await task_events(members, "member_left")
    assert places(found, member) == [
        ("assigned", None), ("task_running", "t-0"), ("task_running", "t-1"),
        ("task_learning", "t-7"), ("task_progress", "t-7"),
        ("task_closed", "t-0"), ("task_closed", "t-1"), ("revoked", None), ("member_left", None),
    ]  # fmt: skip
    (event,) = [event for event in found if event["event"] == "task_progress"]
    assert event == {
        "version": 1, "event": "task_progress", "group": members.group, "generation": generation,
        "at_ms": progress.at_ms, "member": member, "task": "t-7", "reason": "slow", "lag": 700,
        "remaining_ms": 2_300,
    }  # fmt: skip


async def test_many_reports_arrive_completely_in_order_and_with_their_generations(
    members: Members,
) -> None:
    """In as many reports as it takes; that of before a rebalance is of the generation of before."""
    one = await members.join()
    await members.settled(one, partitions=2)
    before = one.generation
    one.consumer.report_tasks([TaskChange(KINDS.LEARNING, "t-0", 1)])
    two = await members.join()
    await members.settled(one, two, partitions=2)
    many = [TaskChange(KINDS.PROGRESS, f"t-{number}", 2, lag=number) for number in range(2_500)]
    two.consumer.report_tasks(many)
    two.consumer.report_tasks([TaskChange(KINDS.READY, "t-0", 3)])
    found = await task_events(members, "task_ready", "t-0")
    (learning,) = [event for event in found if event["event"] == "task_learning"]
    assert learning["generation"] == before < two.generation
    assert [event["lag"] for event in found if event["event"] == "task_progress"] == list(range(2_500))


async def test_a_consumer_without_a_group_reports_nothing(cluster: MemoryCluster) -> None:
    change = TaskChange(KINDS.RUNNING, "t-0", 1)
    async with cluster.consumer() as consumer:
        with pytest.raises(InvalidRequest, match="group_id"):
            consumer.report_tasks([change])
    async with cluster.consumer(group_id="nobody's") as consumer:
        consumer.report_tasks([change])
        with pytest.raises(InvalidRequest, match="at_ms of task t-0"):
            consumer.report_tasks([TaskChange(KINDS.RUNNING, "t-0", -1)])
