"""Applications that block their event loop while brokers and other members continue: heartbeats have a thread
of their own. simulated/test_slow.py has those to which a thread makes no difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline import Consumer, ConsumerRecord, LocalCluster
from strandline.adapters.system.clock import SystemClock
from tests.integration.groups.support.group_members import (
    GROUP_SETTINGS,
    SETTLE_S,
    Members,
    RebalanceLog,
    new_group,
    new_topic,
    write,
)
from tests.integration.groups.support.group_processes import processes
from tests.waiting import eventually

pytestmark = pytest.mark.slow

SESSION_MS = 1_000
BLOCKED_S = 2.5
OVERDUE_S = 1.5

_CLOCK = SystemClock()


def block_the_loop(seconds: float) -> None:
    """As a handler does that only computes."""
    until = _CLOCK.monotonic() + seconds
    while _CLOCK.monotonic() < until:
        pass


async def test_a_handler_that_blocks_the_loop_keeps_its_membership(cluster: LocalCluster) -> None:
    """Heartbeats come from a thread of their own: two and a half sessions without the loop cost nothing."""
    topic = await new_topic(cluster, 2)
    async with Members(cluster, [topic], session_timeout_ms=SESSION_MS) as members:
        member = await members.join()
        await members.settled(member, partitions=2)
        before = member.consumer.group_metadata()

        async def stuck(record: ConsumerRecord) -> None:
            block_the_loop(BLOCKED_S)

        member.handle = stuck
        await write(cluster, topic, 0)
        await eventually(lambda: member.records, what="the record is handled")
        member.handle = None
        await write(cluster, topic, 1)
        await eventually(lambda: len(member.records) == 2, what="it reads on")
        assert member.heard.kinds() == ["assigned"]
        assert member.consumer.group_metadata() == before
        assert member.errors == []


async def test_a_handler_that_blocks_the_loop_is_rebalanced_nevertheless(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """(G8) each record takes longer than a session and nothing else gets the loop, yet a rebalance ends
    after a few records, without an expulsion in its middle."""
    topic = await new_topic(cluster, 2)
    group = new_group()
    protocol = {"session_timeout_ms": SESSION_MS, "rebalance_protocol": "cooperative"}
    heard = RebalanceLog()
    for partition in (0, 1):
        await write(cluster, topic, partition, 100)
    async with (
        processes(cluster, topic, group, tmp_path, **protocol) as members,
        Consumer(cluster.bootstrap, group_id=group, **{**GROUP_SETTINGS, **protocol}) as consumer,
    ):
        consumer.subscribe([topic], listener=heard)
        handled = 0
        async for _ in consumer:
            if handled == 0:
                _ = await members.start()
            handled += 1
            block_the_loop(SESSION_MS / 1000 * 1.5)
            if len(consumer.assignment()) == 1:
                break
            assert handled < 15, "the rebalance gets nowhere"
        assert heard.kinds() == ["assigned", "revoked"]
        await eventually(lambda: members.all[0].owned, deadline_s=SETTLE_S, what="the other has its share")


async def test_a_blocked_loop_is_overdue_too(cluster: LocalCluster) -> None:
    """The thread sends the leave itself: others need not wait until the loop is free to send it."""
    topic = await new_topic(cluster, 1)
    group = new_group()
    await write(cluster, topic, 0)
    settings = {**GROUP_SETTINGS, "session_timeout_ms": 60_000, "max_poll_interval_ms": 700}
    heard = RebalanceLog()
    async with Consumer(cluster.bootstrap, group_id=group, **settings) as consumer:
        consumer.subscribe([topic], listener=heard)
        first = await consumer.getone()
        member = consumer.group_metadata().member_id
        block_the_loop(OVERDUE_S)
        # Joins under a new id, since the group no longer knows the old member.
        again = await consumer.getone()
        assert again.offset == first.offset
        assert consumer.group_metadata().member_id not in ("", member)
    assert heard.kinds() == ["assigned", "lost", "assigned", "revoked"]
