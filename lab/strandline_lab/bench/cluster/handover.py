"""Measures the time without acknowledgements when a leader hands over: at its shutdown, and to the preferred
leader."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from strandline import Admin, LocalCluster, Producer, TopicPartition
from strandline.cli.load.completeness import isr_whole
from strandline.cli.load.feed import PER_S, Feeder
from strandline_lab.bench.report import RUNS, heading, medians

TOPIC: Final = "handover"
ROUNDS: Final = 10
BEFORE_S: Final = 0.5
NEVER_MS: Final = 3_600_000

FIGURES: Final = {
    "longest_ms": "shut down: longest gap between two acknowledgements in a round, ms",
    "preferred_ms": "to the preferred leader, no broker stops: the same, ms",
    "usual_ms": "the same without a handover, ms",
    "failed": "records failed",
}


async def measure(runs: int = RUNS) -> None:
    """Prints the table."""
    heading(
        f"Leadership handed over {ROUNDS} times there and back a run, a record every {1000 / PER_S:.0f} ms",
        "handover",
    )
    await medians(runs, one_run, FIGURES)


async def one_run() -> Mapping[str, float]:
    """The longest gap over all rounds, and the number of failed records."""
    async with (
        LocalCluster(brokers=3, broker_settings={"preferred_leader_check_ms": NEVER_MS}) as cluster,
        Admin(cluster.bootstrap) as admin,
        Producer(cluster.bootstrap) as producer,
    ):
        await admin.create_topic(TOPIC, partitions=1, replication_factor=3)
        feed = Feeder(producer, TOPIC)
        stop = asyncio.Event()
        during, preferred, without = [], [], []
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(feed.run(stop, partitions=[0]))
            for _ in range(ROUNDS):
                leader = (await isr_whole(admin, TOPIC))[0]
                feed.gap.longest_s = 0.0
                await asyncio.sleep(BEFORE_S)
                without.append(feed.gap.longest_s)
                feed.gap.longest_s = 0.0
                await cluster.stop_broker(leader)
                during.append(feed.gap.longest_s)
                await cluster.start_broker(leader)
                await isr_whole(admin, TOPIC)
                feed.gap.longest_s = 0.0
                (elected,) = await admin.elect_preferred([TopicPartition(TOPIC, 0)])
                if elected.error is not None:
                    raise elected.error
                await asyncio.sleep(BEFORE_S)
                preferred.append(feed.gap.longest_s)
            stop.set()
        await producer.flush()
    return {
        "longest_ms": max(during) * 1000,
        "preferred_ms": max(preferred) * 1000,
        "usual_ms": max(without) * 1000,
        "failed": feed.failed,
    }
