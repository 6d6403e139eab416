"""Runs the demo's steps, and the checks after them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from strandline import Admin, Consumer, LocalCluster, Producer, TopicPartition
from strandline.adapters.system.clock import SystemClock
from strandline.auditing import checks, closed_topic
from strandline.auditing.history import Received
from strandline.auditing.recording import Recorder
from strandline.auditing.reference import Span, Spans
from strandline.cli.demo.source import Source
from strandline.cli.load.completeness import isr_whole, read_until_complete
from strandline.cli.load.feed import Feeder, within
from strandline.producer.core.partitioner import partition_for

TOPIC: Final = "ratings"
PARTITIONS: Final = 3
REPLICAS: Final = 3
MIN_INSYNC: Final = 2
FEED_S: Final = 4.0
"""The feed takes this time, so that the kill happens in its middle."""
FEED_STEPS: Final = 400

Show = Callable[[str], None]
Figures = dict[str, Any]


async def play(source: Source, cluster: LocalCluster, show: Show, figures: Figures) -> list[str]:
    """Runs the demo on a new cluster, shows its steps, and adds to `figures`. Returns each fault as a
    sentence.

    Raises RequestTimedOut if a step did not happen at all.
    """
    show(f"Starting ZooKeeper, a controller and {len(cluster.broker_ids)} brokers.")
    async with (
        cluster,
        Admin(cluster.bootstrap) as admin,
        Producer(cluster.bootstrap) as producer,
    ):
        show(f"The cluster serves at {cluster.bootstrap}, its files are in {cluster.directory}.")
        show(f"Kafka clients connect to {cluster.kafka_bootstrap}.")
        await admin.create_topic(
            TOPIC,
            partitions=PARTITIONS,
            replication_factor=REPLICAS,
            config={"min.insync.replicas": str(MIN_INSYNC)},
        )
        show(
            f"Topic {TOPIC}: {PARTITIONS} partitions of {REPLICAS} replicas; "
            f"an acknowledged record is on at least {MIN_INSYNC} of them."
        )
        sender, reader, second_reader = (
            Recorder(name, TOPIC) for name in ("the producer", "the consumer", "a second consumer")
        )
        feeder = Feeder(producer, TOPIC, sender)
        sent = asyncio.Event()
        half_way = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_read(cluster.bootstrap, sent, reader))
            show(f"Feeding {len(source.records):,} {source.name}, while a consumer reads.")
            feeding = tasks.create_task(_feed(feeder, source, half_way))
            await half_way.wait()
            await _kill_and_restart(cluster, admin, feeder, _busiest_partition(source), show, figures)
            await feeding
            await producer.flush()
            sent.set()
        spans = await _read(cluster.bootstrap, sent, second_reader)
    found = closed_topic.findings(
        [each.history for each in (sender, reader, second_reader)], second_reader.log(), spans
    )
    acknowledged = feeder.acknowledged.total()
    lost = sum(each.check == checks.LOST.name for each in found)
    figures.update(acknowledged=acknowledged, read=_received(reader), read_again=_received(second_reader))
    show(
        f"{acknowledged:,} records acknowledged, {figures['read']:,} read while all this happened, "
        f"{figures['read_again']:,} read again from the start; {lost} lost."
    )
    faults = [each.sentence for each in found]
    failed = feeder.sent - acknowledged
    if failed:
        faults.append(f"{failed} records were not acknowledged, the first because of: {feeder.first_error}")
    return faults


async def _read(bootstrap: str, sent: asyncio.Event, recorder: Recorder) -> Spans:
    """Reads the whole topic with a new consumer. Returns the span of each partition."""
    async with Consumer(bootstrap, offset_reset="none") as consumer:
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        ends = await read_until_complete(consumer, partitions, sent, recorder)
        return {(TOPIC, each.partition): Span(0, end) for each, end in ends.items()}


def _received(recorder: Recorder) -> int:
    return sum(isinstance(event, Received) for event in recorder.history.events)


async def _feed(feeder: Feeder, source: Source, half_way: asyncio.Event) -> None:
    """Sends all records evenly over FEED_S."""
    clock = SystemClock()
    began = clock.monotonic()
    count = len(source.records)
    for number, (key, value) in enumerate(source.records):
        if number == count // 2:
            half_way.set()
        if number % max(1, count // FEED_STEPS) == 0:
            await clock.sleep(max(0.0, began + FEED_S * number / count - clock.monotonic()))
        await feeder.send(key, value)


def _busiest_partition(source: Source) -> int:
    """The partition with most records in the second half: its next acknowledgement comes soon."""
    second_half = source.records[len(source.records) // 2 :]
    ((busiest, _),) = Counter(partition_for(key, PARTITIONS) for key, _ in second_half).most_common(1)
    return busiest


async def _kill_and_restart(
    cluster: LocalCluster, admin: Admin, feeder: Feeder, partition: int, show: Show, figures: Figures
) -> None:
    """Kills the leader of `partition`, waits for its successor, and restarts the broker."""
    monotonic = SystemClock().monotonic
    leader = (await isr_whole(admin, TOPIC))[partition]
    show(
        f"kill -9 of broker {leader}, leader of partition {partition}; "
        f"{feeder.acknowledged.total():,} records are acknowledged."
    )
    killed_at = monotonic()
    acked = feeder.expect_ack(partition, sent_after=killed_at)
    await cluster.kill_broker(leader)
    failover_s = await within(f"an acknowledgement after the kill of broker {leader}", acked) - killed_at
    (description,) = await admin.describe_topics([TOPIC])
    successor = description.partitions[partition].leader
    show(
        f"Broker {successor} leads partition {partition} now; "
        f"the next acknowledgement came {failover_s:.2f} s after the kill."
    )
    started_at = monotonic()
    await cluster.start_broker(leader)
    await isr_whole(admin, TOPIC)
    whole_s = monotonic() - started_at
    show(f"Broker {leader} is back; every ISR is whole {whole_s:.1f} s after its restart.")
    figures.update(
        killed=leader,
        leader=successor,
        failover_ms=round(failover_s * 1000, 1),
        isr_whole_ms=round(whole_s * 1000, 1),
    )
