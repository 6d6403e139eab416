"""Producers with acks=all write to a topic, and a consumer reads along."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import Any, Final, Literal

from strandline.auditing import closed_topic
from strandline.auditing.history import History
from strandline.auditing.recording import Recorder
from strandline.auditing.reference import Logged, Span
from strandline.client.admin.admin import Admin
from strandline.consumer.consumer import Consumer
from strandline.host import Host
from strandline.ids import TopicPartition
from strandline.producer.producer import Producer
from strandline.simulation.judging.judge import Problem
from strandline.simulation.stage import Stage
from strandline.simulation.workloads.workload import Workload, WorkloadPlan

DELIVERY_TIMEOUT_MS: Final = 60_000
TAIL_S: Final = 0.5


class Writing(WorkloadPlan, frozen=True):
    """`writers` producers send a record to a drawn partition every `pause_s` seconds on average."""

    kind: Literal["writing"] = "writing"
    partitions: int
    writers: int
    pause_s: float
    synced: bool
    """Each record is synced before it is acknowledged."""

    @staticmethod
    def drawn(random: Random, name: str) -> Writing:
        return Writing(
            name=name,
            partitions=random.randint(1, 4),
            writers=random.randint(1, 3),
            pause_s=random.choice((0.02, 0.1, 0.3)),
            synced=random.random() < 1 / 2,
        )

    @property
    def survives_power_loss(self) -> bool:
        return self.synced

    @property
    def config(self) -> dict[str, str]:
        """Of the topic."""
        config = {"min.insync.replicas": "2"}
        return {**config, "flush.messages": "1"} if self.synced else config

    def workload(self, stage: Stage) -> Workload:
        return _Clients(self, stage)


class _Clients(Workload):
    def __init__(self, plan: Writing, stage: Stage) -> None:
        self._plan = plan
        self._stage = stage
        self._topic = plan.name
        self._names = [TopicPartition(self._topic, number) for number in range(plan.partitions)]
        self._histories: list[History] = []
        self._log: list[Logged] = []
        self._spans: dict[tuple[str, int], Span] = {}
        self._admin = stage.client(f"{plan.name} admin")
        self._written = asyncio.Event()
        """Every producer has finished."""

    async def prepare(self) -> None:
        await self._admin.run(self._create(self._admin.host))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as writing:
            for number in range(self._plan.writers):
                name = f"{self._plan.name} writer {number}"
                client = self._stage.client(name)
                writing.create_task(_joined(client.run(self._write(name, client.host))))
            reader = self._stage.client(f"{self._plan.name} reader")
            writing.create_task(_joined(reader.run(self._follow(reader.name, reader.host))))
        self._written.set()

    async def finish(self) -> None:
        await self._written.wait()
        await self._admin.run(self._read_all(self._admin.host))

    def problems(self) -> list[Problem]:
        found = closed_topic.findings(self._histories, self._log, self._spans)
        return [Problem(self._plan.kind, each.sentence) for each in found]

    def counts(self) -> dict[str, int]:
        return {"records": len(self._log)}

    # --- clients -----------------------------------------------------------------------------

    async def _create(self, host: Host) -> None:
        async with Admin(self._stage.cluster.bootstrap, host=host) as admin:
            await admin.create_topic(self._topic, self._plan.partitions, 3, self._plan.config)

    async def _write(self, name: str, host: Host) -> None:
        """Send until the faults end. Returns once each record is acknowledged or has failed."""
        random = self._stage.random(name)
        recorder = self._recorder(name)
        producer = Producer(
            self._stage.cluster.bootstrap, host=host, delivery_timeout_ms=DELIVERY_TIMEOUT_MS, linger_ms=1
        )
        record = 0
        async with producer:
            while not self._stage.faults_ended.is_set():
                record += 1
                partition, value = random.randrange(self._plan.partitions), f"{name} {record}".encode()
                recorder.sent(record, None, value, partition)
                sent = await producer.send(self._topic, value, partition=partition)
                sent.add_done_callback(partial(_settled, recorder, record))
                await host.clock.sleep(random.expovariate(1 / self._plan.pause_s))
            await producer.flush()

    async def _follow(self, name: str, host: Host) -> None:
        """Read along, from the beginning until the faults have ended."""
        recorder = self._recorder(name)
        async with self._consumer(host) as consumer:
            consumer.assign(self._names)
            recorder.assigned(*range(self._plan.partitions))
            while not self._stage.faults_ended.is_set():
                await self._receive(consumer, recorder)

    async def _read_all(self, host: Host) -> None:
        """Read everything: this is the log that the histories are held against."""
        recorder = Recorder("the log", self._topic)
        async with self._consumer(host) as consumer:
            ends = await consumer.end_offsets(self._names)
            consumer.assign(self._names)
            while any([await consumer.position(name) < ends[name] for name in self._names]):
                await self._receive(consumer, recorder)
        self._log = list(recorder.log())
        for name in self._names:
            self._spans[self._topic, name.partition] = Span(0, ends[name])

    async def _receive(self, consumer: Consumer, recorder: Recorder) -> None:
        try:
            async with asyncio.timeout(TAIL_S):
                record = await anext(consumer)
        except TimeoutError:
            return
        recorder.received(record.partition, [record])

    def _recorder(self, name: str) -> Recorder:
        recorder = Recorder(name, self._topic)
        self._histories.append(recorder.history)
        return recorder

    def _consumer(self, host: Host) -> Consumer:
        return Consumer(self._stage.cluster.bootstrap, host=host, offset_reset="earliest")


async def _joined(task: asyncio.Task[Any]) -> None:
    """Wait for a task of another process."""
    await task


def _settled(recorder: Recorder, record: int, sent: asyncio.Future[Any]) -> None:
    if sent.cancelled():
        return
    error = sent.exception()
    if error is None:
        recorder.acked(record, sent.result().partition, sent.result().offset)
    else:
        recorder.failed(record, error)
