"""A member that is overdue, on any cluster."""

from __future__ import annotations

import asyncio
import logging

import pytest

from strandline import ConsumerRecord
from strandline.local.cluster import LocalCluster
from strandline.testing import SimulatedCluster
from tests.integration.groups.support.group_members import Members, new_topic, write
from tests.waiting import eventually


async def leaves_and_comes_back(
    cluster: LocalCluster | SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A member makes no get call within max_poll_interval_ms: others take over, the log names the setting,
    and the next get call joins again."""
    topic = await new_topic(cluster, 2)
    async with Members(cluster, [topic], rebalance_protocol="cooperative") as members:
        slow = await members.join(max_poll_interval_ms=1_000, session_timeout_ms=60_000)
        await members.settled(slow, partitions=2)
        go_on = asyncio.Event()

        async def slowly(record: ConsumerRecord) -> None:
            await go_on.wait()

        slow.handle = slowly
        with caplog.at_level(logging.WARNING, "consumer"):
            await write(cluster, topic, 0)
            await eventually(
                lambda: slow.heard.kinds() == ["assigned", "lost"], what="it has lost everything"
            )
        assert "max_poll_interval_ms=1000" in caplog.text and "extend_processing" in caplog.text
        other = await members.join()
        await members.settled(other, partitions=2)
        await eventually(lambda: other.records, what="the other reads what was not done")
        assert slow.generation == -1
        slow.handle = None
        go_on.set()
        await members.settled(slow, other, partitions=2)
        assert slow.heard.kinds() == ["assigned", "lost", "assigned"]
        assert slow.errors == []
