"""A follower whose process is gone delays no write, however long sessions and timeouts are."""

from __future__ import annotations

import pytest

from strandline import Admin, Producer
from tests.conftest import ClusterFactory
from tests.waiting import eventually

pytestmark = pytest.mark.slow

LONG_MS = 120_000


async def test_a_killed_follower_leaves_the_isr_at_once(
    make_cluster: ClusterFactory,
) -> None:
    """Its registration stays for as long as its session, but its port is closed. The leader takes it from the
    ISR, as it would once the session had ended (CORRECTNESS I6)."""
    cluster = await make_cluster(
        brokers=3, broker_settings={"zookeeper_session_timeout_ms": LONG_MS, "keep_in_sync_ms": LONG_MS}
    )
    async with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        await admin.create_topic("t", 1, 3)

        async def isr() -> tuple[int, list[int]]:
            (described,) = await admin.describe_topics(["t"])
            (only,) = described.partitions
            return only.leader, sorted(only.isr)

        async def whole() -> bool:
            return (await isr())[1] == [1, 2, 3]

        await eventually(whole, what="all replicas are in sync")
        leader, _ = await isr()
        follower = next(broker for broker in cluster.broker_ids if broker != leader)
        _ = await producer.send_and_wait("t", b"before")
        await cluster.kill_broker(follower)
        metadata = await producer.send_and_wait("t", b"while it is dead")
        assert metadata.offset == 1
        assert await isr() == (leader, sorted({1, 2, 3} - {follower}))
