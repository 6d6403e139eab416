"""Waits until all replicas of a topic are in sync, and reads a topic until its end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from strandline.adapters.system.clock import SystemClock
from strandline.auditing.recording import Recorder
from strandline.cli.load.feed import WAIT_S_MAX
from strandline.errors import RequestTimedOut

if TYPE_CHECKING:
    from strandline import Admin, Consumer, TopicPartition

LOOK_AGAIN_S: Final = 0.05
POLL_MS: Final = 100


async def isr_whole(admin: Admin, topic: str) -> Mapping[int, int]:
    """Waits until each replica of `topic` is in sync. Returns the leader of each partition.

    Raises RequestTimedOut.
    """
    clock = SystemClock()
    deadline = clock.monotonic() + WAIT_S_MAX
    while True:
        (description,) = await admin.describe_topics([topic])
        partitions = description.partitions
        if all(each.leader >= 0 and set(each.isr) == set(each.replicas) for each in partitions):
            return {each.partition: each.leader for each in partitions}
        if clock.monotonic() > deadline:
            behind = {each.partition: sorted(set(each.replicas) - set(each.isr)) for each in partitions}
            raise RequestTimedOut(
                f"after {WAIT_S_MAX:.0f} s replicas are still out of sync, by partition: {behind}"
            )
        await clock.sleep(LOOK_AGAIN_S)


async def read_until_complete(
    consumer: Consumer, partitions: Sequence[TopicPartition], sent: asyncio.Event, recorder: Recorder
) -> Mapping[TopicPartition, int]:
    """Reads `partitions` from their beginning and records them; once `sent` is set, reads on to their ends.

    Returns the high watermark of each partition at that time. Raises RequestTimedOut if no record comes for
    `WAIT_S_MAX` before the end.
    """
    monotonic = SystemClock().monotonic
    reached = await consumer.beginning_offsets(partitions)
    consumer.assign(partitions)
    recorder.assigned(*(each.partition for each in partitions))
    for each, offset in reached.items():
        consumer.seek(each, offset)
    ends: Mapping[TopicPartition, int] | None = None
    last_record_at = monotonic()
    while True:
        for each, batch in (await consumer.getmany(timeout_ms=POLL_MS)).items():
            recorder.received(each.partition, batch)
            reached[each] = batch[-1].offset + 1
            last_record_at = monotonic()
        if ends is None and sent.is_set():
            ends = await consumer.end_offsets(list(partitions))
            last_record_at = monotonic()
        if ends is not None:
            if all(reached[each] >= ends[each] for each in partitions):
                return ends
            if monotonic() - last_record_at > WAIT_S_MAX:
                raise RequestTimedOut(
                    f"the consumer stands at {reached} and gets no further; the ends are {ends}"
                )
