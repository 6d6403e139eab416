"""Writes the lines into the log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import cycle, islice

from examples.log_counts.cluster import Cluster
from examples.log_counts.counting import COUNTED, LINES, PARTITIONS, counts_topic
from strandline import Admin, Producer
from strandline.adapters.system.clock import SystemClock
from strandline.errors import TopicAlreadyExists

PER_TENTH = 50
"""Lines that `feed_on` writes every tenth of a second."""


async def create_topics(cluster: Cluster) -> None:
    """Creates the topics of lines and counts, unless they exist."""
    async with Admin(cluster.bootstrap, **cluster.settings) as admin:
        for name in (LINES, *map(counts_topic, COUNTED)):
            with suppress(TopicAlreadyExists):
                await admin.create_topic(name, PARTITIONS, replication_factor=3)


async def feed(cluster: Cluster, lines: Sequence[str]) -> int:
    """Writes all lines once. Returns their number, once all of them are acknowledged."""
    await create_topics(cluster)
    async with Producer(cluster.bootstrap, **cluster.settings) as producer:
        written = await producer.send_many(LINES, [line.encode() for line in lines])
        await written
    return len(lines)


class Feed:
    """Writes the lines repeatedly, a few hundred a second."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.written = 0
        self._lines = cycle(lines)

    async def run(self, cluster: Cluster) -> None:
        """Writes until it is cancelled."""
        clock = SystemClock()
        async with Producer(cluster.bootstrap, **cluster.settings) as producer:
            while True:
                lines = [line.encode() for line in islice(self._lines, PER_TENTH)]
                await (await producer.send_many(LINES, lines))
                self.written += len(lines)
                await clock.sleep(0.1)
