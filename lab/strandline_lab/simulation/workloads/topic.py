"""A topic whose producers are all known: who writes to it, who reads along, and what it holds in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from strandline.auditing import closed_topic
from strandline.auditing.history import History
from strandline.auditing.recording import Recorder
from strandline.auditing.reference import Logged, Span
from strandline.client.admin.admin import Admin
from strandline.consumer.consumer import Consumer
from strandline.errors import BrokerNotAvailable, InvalidReplicationFactor, StrandlineError, UnexpectedOffset
from strandline.host import Host
from strandline.ids import TopicPartition
from strandline_lab.simulation.stage import SYNCED, Acknowledged, Stage
from strandline_lab.simulation.workloads.producing import producing

REPLICAS: Final = 3
MIN_INSYNC: Final = 2
DELIVERY_TIMEOUT_MS: Final = 60_000
FLUSH_S_MAX: Final = 30.0
"""After the faults: until each record that a producer has sent is acknowledged."""
TAIL_S: Final = 0.5
"""The longest time for which a reader waits for the next record."""
STARTED_S: Final = 0.05
"""Between two looks whether enough brokers have started."""
LAST: Final = b"last"
"""The key of the last record of a partition, and the beginning of its value."""

Line = Callable[[Random, bytes], tuple[bytes | None, bytes | None]]


class ClosedTopic:
    """The topic `name`. Every client of it keeps a history."""

    def __init__(self, stage: Stage, name: str, partitions: int) -> None:
        self._stage = stage
        self.name = name
        self.partitions = [TopicPartition(name, number) for number in range(partitions)]
        self.histories: list[History] = []
        self.log: list[Logged] = []
        """All records, once `read_all` has returned."""
        self.spans: dict[tuple[str, int], Span] = {}
        self._wrong: list[str] = []
        self._synced = False
        self._min_insync = MIN_INSYNC

    def has_grown(self, partitions: int) -> None:
        """The topic has this number of partitions by now."""
        here = range(len(self.partitions), partitions)
        self.partitions += [TopicPartition(self.name, number) for number in here]

    def recorder(self, name: str) -> Recorder:
        """A history for one more client."""
        recorder = Recorder(name, self.name)
        self.histories.append(recorder.history)
        return recorder

    async def create(self, host: Host, *, synced: bool, min_insync: int = MIN_INSYNC) -> None:
        """`synced`: each record is synced before it counts, so that no loss of power costs one."""
        self._synced, self._min_insync = synced, min_insync
        given = {"min.insync.replicas": str(min_insync)}
        if synced:
            given |= SYNCED
        async with Admin(self._stage.cluster.bootstrap, host=host) as admin:
            await create_topic(admin, host, self.name, len(self.partitions), given)

    async def write(
        self,
        name: str,
        host: Host,
        pause_s: float,
        *,
        line: Line | None = None,
        placed: bool = True,
        certain: bool = True,
        **settings: Any,
    ) -> None:
        """Send a record to a drawn partition every `pause_s` seconds on average, until the faults end.
        Returns once each record is acknowledged or has failed.

        `line` draws a record's key and value; without it each value is another one."""
        random = self._stage.random(name)
        recorder = self.recorder(name)
        given = {"delivery_timeout_ms": DELIVERY_TIMEOUT_MS, "linger_ms": 1, **settings}
        record = 0
        async with producing(self._stage.cluster.bootstrap, host, **given) as producer:
            while not self._stage.faults_ended.is_set():
                record += 1
                partition = random.choice(self.partitions).partition if placed else None
                unique = f"{name} {record}".encode()
                key, value = line(random, unique) if line is not None else (None, unique)
                recorder.sent(record, key, value, partition)
                try:
                    sent = await producer.send(self.name, value, key, partition=partition)
                except BrokerNotAvailable as error:  # it asks about a new partition
                    recorder.failed(record, error)
                    continue
                sent.add_done_callback(partial(_settled, recorder, record, certain))
                if certain:
                    sent.add_done_callback(self._acknowledged)
                await host.clock.sleep(random.expovariate(1 / pause_s))
            ended_s = self._stage.now_s
            await producer.flush()
            if (took_s := self._stage.now_s - ended_s) > FLUSH_S_MAX:
                self._wrong.append(f"{name} waited {took_s:.0f} s for answers, though no fault was left")

    async def append(self, name: str, host: Host, pause_s: float, **settings: Any) -> None:
        """As `write`, one record after the other, each only at the offset at which its writer believes the
        log to end."""
        random = self._stage.random(name)
        recorder = self.recorder(name)
        ends = dict.fromkeys(self.partitions, 0)
        record = 0
        given = {"delivery_timeout_ms": DELIVERY_TIMEOUT_MS, **settings}
        async with producing(self._stage.cluster.bootstrap, host, **given) as producer:
            while not self._stage.faults_ended.is_set():
                record += 1
                place = random.choice(self.partitions)
                value = f"{name} {record}".encode()
                recorder.sent(record, None, value, place.partition)
                fields = [(None, value, (), host.clock.wall_ms())]
                sent = await producer.send_records(*place, fields, expected_offset=ends[place])
                try:
                    offset = (await sent).base_offset
                except StrandlineError as error:
                    recorder.failed(record, error)
                    if isinstance(error, UnexpectedOffset) and error.limit is not None:
                        ends[place] = error.limit
                else:
                    recorder.acked(record, place.partition, offset)
                    if offset != ends[place]:
                        self._wrong.append(
                            f"{name} expected {ends[place]} and appended at {offset} of {place}"
                        )
                    ends[place] = offset + 1
                await host.clock.sleep(random.expovariate(1 / pause_s))

    def _acknowledged(self, sent: asyncio.Future[Any]) -> None:
        if sent.cancelled() or sent.exception() is not None or (end := sent.result()).offset < 0:
            return
        self.acknowledged(end.partition, end.offset)

    def acknowledged(self, partition: int, offset: int) -> None:
        """Have the judges look at a record that just got acknowledged, where it is."""
        name = TopicPartition(self.name, partition)
        for look in self._stage.on_acknowledged:
            look(Acknowledged(name, offset, self._min_insync, self._synced))

    async def follow(self, name: str, host: Host) -> None:
        """Read along, from the beginning to an end that is asked for after the faults."""
        recorder = self.recorder(name)
        async with self._reader(host) as consumer:
            consumer.assign(self.partitions)
            recorder.assigned(*range(len(self.partitions)))
            while not self._stage.faults_ended.is_set():
                await _receive(consumer, recorder)
            ends = await ends_of(consumer, self.partitions)
            while not await has_read(consumer, ends):
                await _receive(consumer, recorder)

    async def read_all(self, host: Host) -> None:
        """Read everything: this is the log that the histories are held against.

        A broker that was paused may name an old end, as long as it does not know that it was replaced. So
        one more record is written to each partition, which comes after all others.
        """
        recorder = Recorder("the log", self.name)
        ends = await self._write_last(host)
        async with self._reader(host) as consumer:
            consumer.assign(self.partitions)
            while not await has_read(consumer, ends):
                await _receive(consumer, recorder)
        self.log = list(recorder.log())
        self.spans = {(name.topic, name.partition): Span(0, ends[name]) for name in self.partitions}

    async def _write_last(self, host: Host) -> dict[TopicPartition, int]:
        """Returns the end of each partition."""
        recorder = self.recorder(f"{self.name} last")
        ends: dict[TopicPartition, int] = {}
        async with producing(self._stage.cluster.bootstrap, host) as producer:
            for record, name in enumerate(self.partitions):
                value = LAST + b"%d" % record
                recorder.sent(record, LAST, value, name.partition)
                acked = await producer.send_and_wait(self.name, value, LAST, partition=name.partition)
                recorder.acked(record, acked.partition, acked.offset)
                ends[name] = acked.offset + 1
        return ends

    def problems(self, allowed: Collection[str] = ()) -> list[str]:
        """What is wrong with the log, the histories, and the time that answers took; without the findings of
        the checks that are `allowed` to have some.

        A partition whose ISR names a lossy leader is not judged: the record says what may be missing, and
        that is by design if all in-sync replicas lose their power (E3). Not so if each record was synced, on
        disks without errors.
        """
        lossy = () if self._synced and not self._stage.disks_spoiled else self._stage.isr_history.losses()
        found = closed_topic.findings(self.histories, self.log, self.spans)
        judged = [each for each in found if (each.topic, each.partition) not in lossy]
        return [each.sentence for each in judged if each.check not in allowed] + self._wrong

    def _reader(self, host: Host) -> Consumer:
        return Consumer(self._stage.cluster.bootstrap, host=host, offset_reset="earliest")


async def create_topic(
    admin: Admin, host: Host, name: str, partitions: int, config: Mapping[str, str]
) -> None:
    """Create a topic with REPLICAS replicas, as soon as enough brokers have started."""
    while True:
        try:
            await admin.create_topic(name, partitions, REPLICAS, config)
        except InvalidReplicationFactor:
            await host.clock.sleep(STARTED_S)
        else:
            return


async def ends_of(consumer: Consumer, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """The ends of these partitions, as soon as all of their leaders answer."""
    while True:
        try:
            return await consumer.end_offsets(partitions)
        except StrandlineError as error:
            if not error.retriable:
                raise


async def has_read(consumer: Consumer, ends: Mapping[TopicPartition, int]) -> bool:
    """Whether the consumer has come to these ends."""
    return all([await consumer.position(name) >= end for name, end in ends.items()])


async def _receive(consumer: Consumer, recorder: Recorder) -> None:
    try:
        async with asyncio.timeout(TAIL_S):
            record = await anext(consumer)
    except TimeoutError:
        return
    except StrandlineError as error:
        if not error.retriable:
            raise
        return  # a position that is not found for some time: the search goes on
    recorder.received(record.partition, [record])


def _settled(recorder: Recorder, record: int, certain: bool, sent: asyncio.Future[Any]) -> None:
    if sent.cancelled():
        return
    error = sent.exception()
    if error is None and not certain:
        return
    if error is None:
        recorder.acked(record, sent.result().partition, sent.result().offset)
    else:
        recorder.failed(record, error)
