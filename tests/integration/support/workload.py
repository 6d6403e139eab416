"""Load on a topic while it is harmed, and a check of all that became of it.

Idempotent producers send numbered values with acks=all to every partition. A consumer follows all of
them from their beginning, as users do; beside it one raw reader a partition sees each high watermark as
it was sent. At the end a fresh consumer reads everything. `strandline.auditing` judges their histories.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from strandline import Consumer, ConsumerRecord, Producer
from strandline.auditing import closed_topic
from strandline.auditing.history import Acked, Failed, History
from strandline.auditing.recording import Recorder
from strandline.auditing.reference import Span
from strandline.cli.load.feed import Feeder, Gap
from strandline.errors import OffsetOutOfRange
from strandline.ids import TopicPartition
from strandline.records import Record, decode
from tests.integration.support.harness import Topic, present
from tests.integration.support.raw import Ended
from tests.waiting import eventually

PRODUCERS = 2
PER_S = 100.0
"""Records of one producer for one partition."""
UNANSWERED_MAX = 400
"""Records of one producer without an answer: while nothing is acknowledged, no more are sent."""
VALUE_BYTES = 64

E = TypeVar("E", Acked, Failed)


class Reading:
    """A reader of partitions: its history, and where it stands."""

    def __init__(self, name: str, partitions: Sequence[TopicPartition]) -> None:
        self.recorder = Recorder(name, partitions[0].topic)
        self.recorder.assigned(*(each.partition for each in partitions))
        self.next_offsets = dict.fromkeys(partitions, 0)

    def received(
        self, name: TopicPartition, records: Sequence[Record | ConsumerRecord], watermark: int | None
    ) -> None:
        """Records of a partition, and its high watermark as far as the answer had it."""
        self.recorder.received(name.partition, records)
        if records:
            self.next_offsets[name] = records[-1].offset + 1
        if watermark is not None and watermark >= 0:
            self.recorder.watermark(name.partition, watermark)

    def reached(self, ends: dict[TopicPartition, int]) -> bool:
        """True if it read up to the ends of its partitions."""
        return all(offset >= ends[name] for name, offset in self.next_offsets.items())


@dataclass(frozen=True, slots=True)
class Ends:
    """How the records of all producers ended."""

    acknowledged: Sequence[Acked]
    failed: Sequence[Failed]


class Workload:
    """The load on one topic. `judge` ends it and says what was wrong."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.gap = Gap()
        self.raw = [Reading(f"raw reader of {name.partition}", [name]) for name in topic.partitions]
        self.following = Reading("following consumer", topic.partitions)
        self._feeders: list[Feeder] = []
        self._sent: list[History] = []
        self._sending = 0
        self._stop = asyncio.Event()

    @property
    def acknowledged(self) -> Counter[int]:
        """Records by partition."""
        return sum((feeder.acknowledged for feeder in self._feeders), Counter())

    # --- producers -----------------------------------------------------------------------------

    async def produce(self, number: int, settings: dict[str, Any]) -> None:
        """Send until `stop`, then wait for every answer."""
        self._sending += 1
        cluster = self.topic.harness.cluster
        async with Producer(cluster.bootstrap, host=cluster.host, **settings) as producer:
            recorder = Recorder(f"producer {number}", self.topic.name)
            self._sent.append(recorder.history)
            feeder = Feeder(
                producer,
                self.topic.name,
                recorder,
                gap=self.gap,
                unanswered_max=UNANSWERED_MAX,
                clock=cluster.host.clock,
            )
            self._feeders.append(feeder)
            await feeder.run(
                self._stop,
                rate=PER_S,
                partitions=[name.partition for name in self.topic.partitions],
                prefix=f"{number}.",
                value_bytes=VALUE_BYTES,
            )
            self._sending -= 1

    async def progress(self, records: int = 20, *, deadline_s: float = 30) -> None:
        """Return once this number of further records was acknowledged in every partition."""
        before = self.acknowledged

        def enough() -> bool:
            now = self.acknowledged
            return all(
                now[name.partition] >= before[name.partition] + records for name in self.topic.partitions
            )

        await eventually(enough, deadline_s=deadline_s, what=f"{records} more acknowledged after {before}")

    # --- readers -------------------------------------------------------------------------------

    @staticmethod
    async def consume(consumer: Consumer, reading: Reading, *, wait_ms: int) -> None:
        """Take what there is."""
        for name, records in (await consumer.getmany(timeout_ms=wait_ms)).items():
            reading.received(name, records, consumer.highwater(name))

    async def follow(self) -> None:
        """Read everything as users do. Runs until cancelled."""
        async with self._consumer() as consumer:
            while True:
                await self.consume(consumer, self.following, wait_ms=1_000)

    @asynccontextmanager
    async def _consumer(self) -> AsyncIterator[Consumer]:
        cluster = self.topic.harness.cluster
        async with Consumer(cluster.bootstrap, host=cluster.host, offset_reset="earliest") as consumer:
            consumer.assign(self.topic.partitions)
            yield consumer

    async def follow_raw(self, reading: Reading) -> None:
        """Read one partition as it grows, from its leader. Runs until cancelled."""
        epoch = -1
        (name,) = reading.next_offsets
        while True:
            leader, epoch = await self._leader(name.partition, epoch)
            stream = self.topic.harness.brokers.fetch(leader, name)
            try:
                while True:
                    offset = reading.next_offsets[name]
                    fetched = await stream.fetch(offset, leader_epoch=epoch)
                    if fetched is None:
                        continue
                    if fetched.error is not None:
                        # A leader of an older epoch than one seen is not believed: its answer is out of date.
                        assert not isinstance(fetched.error, OffsetOutOfRange), fetched.error.message
                        break
                    records = list(decode(fetched.records, from_offset=offset))
                    reading.received(name, records, fetched.high_watermark)
            except Ended:
                continue
            finally:
                stream.close()

    async def _leader(self, partition: int, epoch: int) -> tuple[int, int]:
        """(leader, epoch) as the brokers report them, not older than an epoch seen before."""
        harness = self.topic.harness

        async def found() -> tuple[int, int] | None:
            for broker in harness.brokers.ids:
                for known in await harness.brokers.metadata(broker, self.topic.name, timeout_s=0.5):
                    if known.partition == partition and known.leader >= 0 and known.leader_epoch >= epoch:
                        return known.leader, known.leader_epoch
            return None

        what = f"a leader of {self.topic.name}-{partition} in epoch {epoch} or later"
        return await present(found, deadline_s=60, what=what)

    # --- the end -------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Send no more, and wait until every record is acknowledged or has failed."""
        self._stop.set()
        await eventually(
            lambda: not self._sending and not any(feeder.unanswered for feeder in self._feeders),
            deadline_s=60,
            what="every record was answered",
        )

    async def judge(self) -> Ends:
        """Stop, wait until the cluster is at rest, read everything, and judge the histories."""
        await self.stop()
        await self.topic.agreed()
        ends = {name: (await self.topic.end(name.partition))[0] for name in self.topic.partitions}
        await eventually(
            lambda: all(reading.reached(ends) for reading in (*self.raw, self.following)),
            what=f"all readers reach {ends}",
        )
        fresh = await self._read_all(ends)
        readers = [reading.recorder.history for reading in (*self.raw, self.following, fresh)]
        spans = {(name.topic, name.partition): Span(0, end) for name, end in ends.items()}
        found = closed_topic.findings([*self._sent, *readers], fresh.recorder.log(), spans)
        assert not found, f"{len(found)} findings, the first of them:\n" + "\n".join(
            each.sentence for each in found[:20]
        )
        return Ends(list(_of(Acked, self._sent)), list(_of(Failed, self._sent)))

    async def _read_all(self, ends: dict[TopicPartition, int]) -> Reading:
        """The records that a fresh consumer finds, from the beginning to the high watermark."""
        fresh = Reading("fresh consumer", self.topic.partitions)
        async with self._consumer() as consumer:

            async def read() -> bool:
                await self.consume(consumer, fresh, wait_ms=100)
                return fresh.reached(ends)

            await eventually(read, deadline_s=30, what=f"a fresh consumer reads up to {ends}")
        return fresh


def _of(kind: type[E], histories: Iterable[History]) -> Iterable[E]:
    return (event for history in histories for event in history.events if isinstance(event, kind))


@asynccontextmanager
async def workload(topic: Topic, *, producers: int = PRODUCERS, **settings: Any) -> AsyncIterator[Workload]:
    """Load while the block runs; settings are the producers'. The block calls `judge` at its end."""
    load = Workload(topic)
    async with asyncio.TaskGroup() as tasks:
        for number in range(producers):
            tasks.create_task(load.produce(number, settings))
        followers = [tasks.create_task(load.follow_raw(reading)) for reading in load.raw]
        followers.append(tasks.create_task(load.follow()))
        try:
            yield load
            await load.stop()
        finally:
            for follower in followers:
                follower.cancel()
