"""A compacted topic on real brokers: of each key the last record stays, through kill -9 and catching up."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from strandline import Consumer, Producer, TopicPartition
from strandline.adapters.system.files import SYSTEM_FILES
from strandline.broker.storage.inspect import dump, records, verify
from strandline.errors import CorruptMessage
from tests.conftest import ClusterFactory
from tests.integration.support.harness import FAULT_SETTINGS, Harness, Topic
from tests.integration.support.lives import judged
from tests.waiting import eventually

pytestmark = pytest.mark.slow

KEYS = 20
CONFIG = {
    "cleanup.policy": "compact", "segment.bytes": "4096", "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": "0",
}  # fmt: skip
COMPACTED_RECORDS_MAX = 8 * KEYS
"""The most records in a log of this number of keys, with those that cannot be compacted yet."""


@pytest.fixture
async def compacting(make_cluster: ClusterFactory) -> AsyncIterator[Harness]:
    """Three brokers that compact all the time."""
    settings = {**FAULT_SETTINGS, "compaction_check_ms": 100, "flush_check_ms": 50}
    async with judged(await make_cluster(brokers=3, broker_settings=settings)) as harness:
        yield harness


async def overwrite(
    producer: Producer, topic: Topic, rounds: range, table: dict[bytes, tuple[int, bytes]]
) -> None:
    """Write every key once a round; `table` has the last offset and value of each that was acknowledged."""
    for number in rounds:
        sent = {
            (key := b"key %d" % index): await producer.send(
                topic.name, b"%d" % number + b"." * 80, key, partition=0
            )
            for index in range(KEYS)
        }
        for key, future in sent.items():
            table[key] = ((await future).offset, b"%d" % number + b"." * 80)


def stored(folder: Path) -> list[tuple[int, bytes, bytes | None]]:
    """(offset, key, value) of what lies on a disk; nothing while segments are being swapped under it."""
    try:
        batches = dump(folder, files=SYSTEM_FILES)
        found = [r for batch in batches for r in records(batch, files=SYSTEM_FILES)]
        return [(r.offset, r.key or b"", r.value) for r in found]
    except (OSError, CorruptMessage):
        return []


def compacted(folder: Path) -> bool:
    return 0 < len(stored(folder)) <= COMPACTED_RECORDS_MAX


async def consumed(harness: Harness, topic: Topic, end: int) -> list[tuple[int, bytes, bytes | None]]:
    """The records that a consumer reads from the beginning until its position is the log's end."""
    partition = TopicPartition(topic.name, 0)
    found: list[tuple[int, bytes, bytes | None]] = []
    async with Consumer(harness.cluster.bootstrap, offset_reset="earliest") as consumer:
        consumer.assign([partition])
        while await consumer.position(partition) < end:
            for batch in (await consumer.getmany(timeout_ms=1_000)).values():
                found += [(r.offset, r.key or b"", r.value) for r in batch]
    return found


@pytest.mark.timeout(180)
async def test_the_last_value_of_each_key_survives_compaction_and_kill_9(compacting: Harness) -> None:
    """Leaders and followers compact their own logs; a follower that was down catches up from a
    log that has been compacted since (T1); brokers die at any moment of it (E2, E15); a consumer from the
    beginning sees the last value of each key, in order, and comes to the log's end."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    cluster = compacting.cluster
    topic = await compacting.create_topic([(1, 2, 3)], CONFIG)
    table: dict[bytes, tuple[int, bytes]] = {}
    async with Producer(cluster.bootstrap) as producer:
        await overwrite(producer, topic, range(40), table)
        for broker in cluster.broker_ids:
            await eventually(
                partial(compacted, topic.folder(broker)),
                deadline_s=30,
                what=f"{broker} compacts",
            )
        await cluster.kill_broker(3)
        await overwrite(producer, topic, range(40, 80), table)
        await eventually(lambda: compacted(topic.folder(1)), deadline_s=30, what="the leader compacts")
        await cluster.start_broker(3)
        await topic.isr_is(1, 2, 3)
        for number in range(4):
            victim = chance.choice(cluster.broker_ids)
            start = 80 + 15 * number
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(overwrite(producer, topic, range(start, start + 15), table))
                await eventually(partial(went_on, table, max(table.values())[0]), deadline_s=30)
                print(f"kill -9 of {victim}")
                await cluster.kill_broker(victim)
                await cluster.start_broker(victim)
            await topic.isr_is(1, 2, 3)
        for key in (b"key 3", b"key 4"):
            await producer.send_and_wait(topic.name, None, key, partition=0)
            del table[key]
        # The following records seal the segment of the tombstones.
        await overwrite_one(producer, topic, table, 60)
    await topic.settled()
    _, end = await topic.end()
    for broker in cluster.broker_ids:
        await eventually(
            partial(clean, topic.folder(broker), table),
            deadline_s=30,
            what=f"{broker} is clean",
        )
    found = await consumed(compacting, topic, end)
    assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
    assert {key: (offset, value) for offset, key, value in found} == table
    assert len(found) <= COMPACTED_RECORDS_MAX
    for broker in cluster.broker_ids:
        text = compacting.log_text(broker)
        assert '"compacted"' in text
        assert "compaction failed" not in text


async def overwrite_one(
    producer: Producer, topic: Topic, table: dict[bytes, tuple[int, bytes]], times: int
) -> None:
    for _ in range(times):
        sent = await producer.send_and_wait(topic.name, b"x" * 200, b"key 0", partition=0)
        table[b"key 0"] = (sent.offset, b"x" * 200)


def went_on(table: dict[bytes, tuple[int, bytes]], since: int) -> bool:
    return max(table.values())[0] > since


def clean(folder: Path, expected: dict[bytes, tuple[int, bytes]]) -> bool:
    """True once the log holds the table's records, few others and no tombstone, and no fault is in it."""
    found = stored(folder)
    last = {key: (offset, value) for offset, key, value in found}
    if last != expected or len(found) > COMPACTED_RECORDS_MAX:
        return False
    try:
        return not list(verify(folder, files=SYSTEM_FILES))
    except FileNotFoundError:  # swapped under it
        return False
