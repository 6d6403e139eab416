"""Load on a topic while it is harmed, and a history of all that became of it.

Idempotent producers send numbered records with acks=all to every partition. A consumer follows all of
them from their beginning, as users do; beside it one raw reader a partition sees each high watermark as
it was sent. At the end a fresh consumer reads everything. What a history must look like stands in
`history.py`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from strandline import Consumer, Producer, RecordMetadata
from strandline.adapters.system.clock import SystemClock
from strandline.errors import ErrorCode, StrandlineError
from strandline.ids import TopicPartition
from strandline.records import decode
from tests.integration.support.harness import Topic, present
from tests.integration.support.history import History, Placed, Reader, Value, faults
from tests.integration.support.raw import Ended
from tests.waiting import eventually

PRODUCERS = 2
PACE_S = 0.004
"""Between two records of one producer for one partition."""
UNANSWERED_MAX = 400
"""Records of one producer under way: while nothing is acknowledged, no more are sent."""

_CLOCK = SystemClock()


class Workload:
    """The load on one topic. `judge` ends it and says what was wrong."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.raw = [Reader("raw reader", name.partition) for name in topic.partitions]
        self.following = [Reader("following consumer", name.partition) for name in topic.partitions]
        self.history = History(readers=[*self.raw, *self.following])
        self.acknowledged: Counter[int] = Counter()
        """Records by partition."""
        self.longest_gap_s = 0.0
        """The longest time without any acknowledgement."""
        self._last_ack = _CLOCK.monotonic()
        self._unanswered: Counter[int] = Counter()
        self._room = asyncio.Event()
        self._sending = True

    # --- producers -----------------------------------------------------------------------------

    async def produce(self, producer_number: int, settings: dict[str, Any]) -> None:
        """Send until `judge` says stop, then wait for every answer."""
        async with Producer(self.topic.harness.cluster.bootstrap, **settings) as producer:
            number = 0
            while self._sending:
                for name in self.topic.partitions:
                    value = Value(name.partition, producer_number, number)
                    self.history.sent.append(value)
                    self._unanswered[producer_number] += 1
                    future = await producer.send(name.topic, value.encode(), partition=name.partition)
                    future.add_done_callback(partial(self._ended, value))
                number += 1
                await _CLOCK.sleep(PACE_S)
                while self._unanswered[producer_number] >= UNANSWERED_MAX:
                    self._room.clear()
                    await self._room.wait()

    def _ended(self, value: Value, future: asyncio.Future[RecordMetadata]) -> None:
        self._unanswered[value.producer] -= 1
        self._room.set()
        error = future.exception()
        if isinstance(error, StrandlineError):
            self.history.failed.append((value, error.outcome))
            return
        now = _CLOCK.monotonic()
        self.longest_gap_s = max(self.longest_gap_s, now - self._last_ack)
        self._last_ack = now
        metadata = future.result()
        assert metadata.partition == value.partition, f"{value} was acknowledged as {metadata}"
        self.acknowledged[value.partition] += 1
        self.history.acknowledged.append(Placed(metadata.offset, value))

    async def progress(self, records: int = 20, *, deadline_s: float = 30) -> None:
        """Return once so many more records were acknowledged in every partition."""
        before = self.acknowledged.copy()

        def enough() -> bool:
            return all(
                self.acknowledged[name.partition] >= before[name.partition] + records
                for name in self.topic.partitions
            )

        await eventually(enough, deadline_s=deadline_s, what=f"{records} more acknowledged after {before}")

    # --- readers -------------------------------------------------------------------------------

    async def consume(self, consumer: Consumer, readers: list[Reader], *, wait_ms: int) -> None:
        """Take what there is."""
        for name, records in (await consumer.getmany(timeout_ms=wait_ms)).items():
            reader = readers[name.partition]
            reader.records += (Placed(record.offset, Value.decode(record.value)) for record in records)
            watermark = consumer.highwater(name)
            if watermark is not None:
                reader.watermarks.append(watermark)

    async def follow(self) -> None:
        """Read everything as users do. Runs until cancelled."""
        async with self._consumer() as consumer:
            while True:
                await self.consume(consumer, self.following, wait_ms=1_000)

    @asynccontextmanager
    async def _consumer(self) -> AsyncIterator[Consumer]:
        async with Consumer(self.topic.harness.cluster.bootstrap, offset_reset="earliest") as consumer:
            consumer.assign(self.topic.partitions)
            yield consumer

    async def follow_raw(self, reader: Reader) -> None:
        """Read one partition as it grows, from whoever leads it. Runs until cancelled."""
        epoch = -1
        while True:
            leader, epoch = await self._leader(reader.partition, epoch)
            stream = self.topic.harness.brokers.fetch(leader, self.topic.partitions[reader.partition])
            try:
                while True:
                    offset = reader.records[-1].offset + 1 if reader.records else 0
                    fetched = await stream.fetch(offset, leader_epoch=epoch)
                    if fetched is None:
                        continue
                    if fetched.error.code:
                        # A leader of an older epoch than one seen is not believed: its news is old.
                        assert fetched.error.code != ErrorCode.OFFSET_OUT_OF_RANGE, fetched.error.message
                        break
                    if fetched.high_watermark >= 0:
                        reader.watermarks.append(fetched.high_watermark)
                    for record in decode(fetched.records, from_offset=offset):
                        reader.records.append(Placed(record.offset, Value.decode(record.value)))
            except Ended:
                continue
            finally:
                stream.close()

    async def _leader(self, partition: int, epoch: int) -> tuple[int, int]:
        """(leader, epoch) as the brokers tell them, not older than an epoch seen before."""
        harness = self.topic.harness

        async def found() -> tuple[int, int] | None:
            for broker in harness.brokers.ids:
                for known in await harness.brokers.metadata(broker, self.topic.name, timeout_s=0.5):
                    if known.partition == partition and known.leader >= 0 and known.leader_epoch >= epoch:
                        return known.leader, known.leader_epoch
            return None

        what = f"a leader of {self.topic.name}-{partition} in epoch {epoch} or later"
        return await present(found, deadline_s=60, what=what)

    async def _read_all(self, ends: dict[TopicPartition, int]) -> None:
        """What a fresh consumer finds, from the beginning to the high watermark."""
        self.history.final = [Reader("fresh consumer", name.partition) for name in self.topic.partitions]
        async with self._consumer() as consumer:

            async def read() -> bool:
                await self.consume(consumer, self.history.final, wait_ms=100)
                return self._reached(self.history.final, ends)

            await eventually(read, deadline_s=30, what=f"a fresh consumer reads up to {ends}")

    @staticmethod
    def _reached(readers: list[Reader], ends: dict[TopicPartition, int]) -> bool:
        """True if these read up to the ends, from the beginning or not."""
        read = [reader.records[-1].offset + 1 if reader.records else 0 for reader in readers]
        return all(offset >= end for offset, end in zip(read, ends.values(), strict=True))

    # --- the end -------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Send no more, and wait until every record has ended, well or badly."""
        self._sending = False
        await eventually(
            lambda: not any(self._unanswered.values()), deadline_s=60, what="every record was answered"
        )

    async def judge(self) -> History:
        """Stop, wait until the cluster is at rest, read everything, and hold it against the rules."""
        await self.stop()
        await self.topic.agreed()
        ends = {name: (await self.topic.end(name.partition))[0] for name in self.topic.partitions}
        await eventually(
            lambda: self._reached(self.raw, ends) and self._reached(self.following, ends),
            what=f"those who follow reach {ends}",
        )
        await self._read_all(ends)
        found = faults(self.history)
        assert not found, f"{len(found)} faults, the first of them:\n" + "\n".join(found[:20])
        return self.history


@asynccontextmanager
async def workload(topic: Topic, *, producers: int = PRODUCERS, **settings: Any) -> AsyncIterator[Workload]:
    """Load while the block runs; settings are the producers'. The block calls `judge` at its end."""
    load = Workload(topic)
    async with asyncio.TaskGroup() as tasks:
        for number in range(producers):
            tasks.create_task(load.produce(number, settings))
        followers = [tasks.create_task(load.follow_raw(reader)) for reader in load.raw]
        followers.append(tasks.create_task(load.follow()))
        try:
            yield load
            await load.stop()
        finally:
            for follower in followers:
                follower.cancel()
