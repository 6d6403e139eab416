"""`strandline-lab perf failover`: the time without acknowledgements after a leader is killed or hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from strandline import Admin, Consumer, LocalCluster, Producer, TopicPartition
from strandline.adapters.system.clock import SystemClock
from strandline.auditing import checks, closed_topic
from strandline.auditing.recording import Recorder
from strandline.auditing.reference import Span
from strandline.cli.load.completeness import LOOK_AGAIN_S, isr_whole, read_until_complete
from strandline.cli.load.feed import WAIT_S_MAX, Feeder, within
from strandline.errors import RequestTimedOut
from strandline_lab.perf.measure import spread

TOPIC: Final = "failover"
REPLICAS: Final = 3
HANG_S: Final = 5.0
"""Longer than a session with ZooKeeper: a broker that goes on has another life, with no past suspicions."""
NEVER_MS: Final = 3_600_000
"""No leader moves by itself during a run."""


async def measure_failover(
    rounds: int,
    brokers: int,
    rate: float,
    advance: Callable[[int], None],
    *,
    secure: bool = False,
    hang: bool = False,
) -> dict[str, Any]:
    """Kills the leader of a topic's only partition `rounds` times under an acks=all load. `secure`:
    connections are encrypted, with certificates on both ends. `hang`: the leader is stopped (SIGSTOP) instead
    of killed, and continues after `HANG_S`.

    Returns p50_ms, p99_ms and max_ms from the kill to the first acknowledgement of a record sent after it,
    the same for the time from the restart until the ISR is full (`isr_whole_…`), the counts of the final
    check, and `faults`: a sentence for each finding of `strandline.auditing`.
    """
    monotonic = SystemClock().monotonic
    without_ack: list[float] = []
    to_whole_isr: list[float] = []
    async with (
        LocalCluster(
            brokers=brokers, secure=secure, broker_settings={"preferred_leader_check_ms": NEVER_MS}
        ) as cluster,
        Admin(cluster.bootstrap, **cluster.client_settings) as admin,
        Producer(cluster.bootstrap, **cluster.client_settings) as producer,
    ):
        await admin.create_topic(
            TOPIC, partitions=1, replication_factor=REPLICAS, config={"min.insync.replicas": "2"}
        )
        sender, reader = Recorder("the producer", TOPIC), Recorder("the consumer", TOPIC)
        feeder = Feeder(producer, TOPIC, sender)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(feeder.run(stop, rate=rate, partitions=[0]))
            for _ in range(rounds):
                leader = (await isr_whole(admin, TOPIC))[0]
                killed_at = monotonic()
                acked = feeder.expect_ack(0, sent_after=killed_at)
                await _strike(cluster, leader, hang=hang)
                without_ack.append(
                    await within(f"an acknowledgement after the kill of {leader}", acked) - killed_at
                )
                if hang:
                    await SystemClock().sleep(killed_at + HANG_S - monotonic())
                started_at = monotonic()
                await _mend(cluster, leader, hang=hang)
                await _is_whole_again(admin, leader)
                to_whole_isr.append(monotonic() - started_at)
                advance(1)
            stop.set()
        await producer.flush()
        settings = cluster.client_settings
        async with Consumer(cluster.bootstrap, offset_reset="none", **settings) as consumer:
            ends = await read_until_complete(consumer, [TopicPartition(TOPIC, 0)], stop, reader)
    log = list(reader.log())
    spans = {(TOPIC, each.partition): Span(0, end) for each, end in ends.items()}
    found = closed_topic.findings([sender.history, reader.history], log, spans)
    return {
        **spread(without_ack),
        **{f"isr_whole_{name}": figure for name, figure in spread(to_whole_isr).items()},
        "sent": feeder.sent,
        "acknowledged": feeder.acknowledged.total(),
        "read": len(log),
        "lost": sum(each.check == checks.LOST.name for each in found),
        "faults": [each.sentence for each in found],
    }


async def _is_whole_again(admin: Admin, former: int) -> None:
    """Waits until all replicas are in sync with the successor of `former`, which may not have heard of it yet
    and say that it leads. Raises RequestTimedOut."""
    clock = SystemClock()
    deadline = clock.monotonic() + WAIT_S_MAX
    while (await isr_whole(admin, TOPIC))[0] == former:
        if clock.monotonic() > deadline:
            raise RequestTimedOut(f"after {WAIT_S_MAX:.0f} s broker {former} leads, though it was replaced")
        await clock.sleep(LOOK_AGAIN_S)


async def _strike(cluster: LocalCluster, leader: int, *, hang: bool) -> None:
    if hang:
        cluster.pause_broker(leader)
    else:
        await cluster.kill_broker(leader)


async def _mend(cluster: LocalCluster, leader: int, *, hang: bool) -> None:
    if hang:
        cluster.resume_broker(leader)
    else:
        await cluster.start_broker(leader)
