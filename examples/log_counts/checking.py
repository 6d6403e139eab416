"""Compares the counts with a plain computation over the same lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping

from examples.log_counts.cluster import Cluster
from examples.log_counts.counting import COUNTED, LINES, PARTITIONS, counts_topic
from strandline import Consumer, ConsumerRecord, TopicPartition
from strandline.adapters.system.clock import SystemClock
from strandline.streams import INTEGER

ROWS = 8

Counts = Mapping[str, Counter[str]]


async def check(cluster: Cluster, timeout_s: float) -> bool:
    """Waits until the counts are right, up to the timeout, and prints them. Returns True if they are."""
    clock = SystemClock()
    deadline = clock.monotonic() + timeout_s
    wanted = await counted_plainly(cluster)
    while (found := await counted_by_tasks(cluster)) != wanted and clock.monotonic() < deadline:
        await clock.sleep(0.2)
    for name in COUNTED:
        show(name, wanted[name], found[name])
    return found == wanted


async def counted_plainly(cluster: Cluster) -> Counts:
    """Counts by a loop over all lines."""
    counts: Counts = {name: Counter() for name in COUNTED}
    async for record in everything(cluster, LINES):
        line = (record.value or b"").decode()
        for name, find in COUNTED.items():
            counts[name][find(line)] += 1
    return counts


async def counted_by_tasks(cluster: Cluster) -> Counts:
    """Reads the counts of the stream tasks. Other members may repeat a killed member's output, so the
    greatest is the last."""
    counts: Counts = {name: Counter() for name in COUNTED}
    for name in COUNTED:
        async for record in everything(cluster, counts_topic(name)):
            key, count = (record.key or b"").decode(), INTEGER.decode(record.value or b"")
            counts[name][key] = max(count, counts[name][key])
    return counts


async def everything(cluster: Cluster, topic: str) -> AsyncIterator[ConsumerRecord]:
    """All records that are in a topic now."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    async with Consumer(cluster.bootstrap, **cluster.settings, offset_reset="earliest") as consumer:
        ends = await consumer.end_offsets(partitions)
        for partition, end in ends.items():
            consumer.assign([partition])
            while await consumer.position(partition) < end:
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    for record in records:
                        yield record


def show(name: str, wanted: Counter[str], found: Counter[str]) -> None:
    """Prints a table of the keys with most lines, and the sums."""
    print(f"\n{name:<40} {'lines':>9} {'counted':>9}")
    for key, lines in wanted.most_common(ROWS):
        print(f"{key:<40} {lines:>9,} {found[key]:>9,}")
    if len(wanted) > ROWS:
        print(f"… {len(wanted) - ROWS:,} more")
    print(f"{'all':<40} {wanted.total():>9,} {found.total():>9,}")
