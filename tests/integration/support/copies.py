"""A topic that takes seconds to copy at a bounded rate, and what of it a replica has by now."""

from __future__ import annotations

from typing import Final

from strandline import Producer
from strandline.config.limits import KIB, MIB
from tests.integration.support.harness import Topic

RATE: Final = 1 * MIB
"""Bytes a second that a leader may send."""
NEAR: Final = 256 * KIB
"""`reassignment_near_bytes`: from here on nothing holds a copy back."""
COPIED: Final = 6 * MIB
RECORD: Final = b"x" * 8 * KIB
BATCH_MAX: Final = 512 * KIB
SLACK_S: Final = 0.5
"""Between what a leader sends and what the test sees on a disk."""
TAKEN_S_MIN: Final = (COPIED - NEAR - BATCH_MAX) / RATE - SLACK_S
"""How long a copy takes at least."""


def bytes_max(taken_s: float) -> float:
    """What a copy has at most after this time."""
    return RATE * (taken_s + SLACK_S) + BATCH_MAX + NEAR


async def fill(topic: Topic) -> None:
    """Write to partition 0 what is copied in `TAKEN_S_MIN` at least."""
    cluster = topic.harness.cluster
    async with Producer(cluster.bootstrap, host=cluster.host, compression="none") as producer:
        futures = [await producer.send(topic.name, RECORD, partition=0) for _ in range(COPIED // len(RECORD))]
        for future in futures:
            await future


def on_disk(topic: Topic, broker: int) -> int:
    """Bytes of records of partition 0 that this broker has by now."""
    files = topic.harness.files(broker)
    return sum(
        size
        for folder in topic.harness.folders(broker, f"{topic.name}-0-")
        for name, size in files.sizes(folder).items()
        if name.endswith(".log")
    )
