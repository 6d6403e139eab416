"""`strandline perf failover`: the time without acknowledgements when a leader is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from strandline import Admin, Consumer, LocalCluster, Producer, TopicPartition
from strandline.adapters.system.clock import SystemClock
from strandline.cli.load.feed import Feeder, isr_whole, read_until_complete, within
from strandline.cli.perf.measure import spread

TOPIC: Final = "failover"
REPLICAS: Final = 3


async def measure_failover(
    rounds: int, brokers: int, rate: float, advance: Callable[[int], None]
) -> dict[str, Any]:
    """Kill the leader of a topic's one partition `rounds` times under an acks=all load.

    Returns p50_ms, p99_ms and max_ms from the kill to the next acknowledgement of a record sent after
    it, the same for the ISR to be whole again after the restart (`isr_whole_…`), the counts of the
    final comparison, and `faults`: sentences about whatever acknowledged record was not read exactly
    once, in order and unchanged.
    """
    monotonic = SystemClock().monotonic
    without_ack: list[float] = []
    to_whole_isr: list[float] = []
    async with (
        LocalCluster(brokers=brokers) as cluster,
        Admin(cluster.bootstrap) as admin,
        Producer(cluster.bootstrap) as producer,
    ):
        await admin.create_topic(
            TOPIC, partitions=1, replication_factor=REPLICAS, config={"min.insync.replicas": "2"}
        )
        feeder = Feeder(producer, TOPIC)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_keep_sending(feeder, rate, stop))
            for _ in range(rounds):
                leader = (await isr_whole(admin, TOPIC))[0]
                killed_at = monotonic()
                acked = feeder.expect_ack(0, sent_after=killed_at)
                await cluster.kill_broker(leader)
                without_ack.append(
                    await within(f"an acknowledgement after the kill of {leader}", acked) - killed_at
                )
                started_at = monotonic()
                await cluster.start_broker(leader)
                await isr_whole(admin, TOPIC)
                to_whole_isr.append(monotonic() - started_at)
                advance(1)
            stop.set()
        await producer.flush()
        async with Consumer(cluster.bootstrap, offset_reset="none") as consumer:
            records = await read_until_complete(consumer, [TopicPartition(TOPIC, 0)], stop)
    verdict = feeder.ledger.compare(records)
    return {
        **spread(without_ack),
        **{f"isr_whole_{name}": figure for name, figure in spread(to_whole_isr).items()},
        "sent": feeder.sent,
        "acknowledged": verdict.acknowledged,
        "read": verdict.read,
        "lost": len(verdict.lost),
        "faults": verdict.faults,
    }


async def _keep_sending(feeder: Feeder, rate: float, stop: asyncio.Event) -> None:
    """A record at each tick, however long the answers take."""
    clock = SystemClock()
    began = clock.monotonic()
    while not stop.is_set():
        await feeder.send(None, b"%d" % feeder.sent, partition=0)
        await clock.sleep(began + feeder.sent / rate - clock.monotonic())
