"""Kafka clients write to a topic and read along, through the Kafka ports of the brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any, Final, Literal

from strandline.records import BatchHeader, Record
from strandline.simulation.cluster import KAFKA_PORT
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline_lab.simulation.judging.judge import Problem
from strandline_lab.simulation.kafka.client import KafkaClient
from strandline_lab.simulation.kafka.producer import KafkaProducer
from strandline_lab.simulation.kafka.reader import KafkaReader
from strandline_lab.simulation.stage import Stage
from strandline_lab.simulation.workloads.topic import ClosedTopic
from strandline_lab.simulation.workloads.workload import Count, Pause, Workload, WorkloadPlan, joined

BURST_MAX: Final = 8
"""Records that a writer sends to one partition at a time: they become several batches."""
LOOK_S: Final = 0.1


class Kafka(WorkloadPlan, frozen=True):
    """`writers` producers send a few records every `pause_s` seconds on average."""

    kind: Literal["kafka"] = "kafka"
    partitions: Count
    """Of its topic."""
    writers: Count
    """Kafka producers. One Kafka consumer reads along."""
    pause_s: Pause
    """Between two sends of a writer, on average."""
    min_insync: Literal[1, 2] = 2
    """The topic's min.insync.replicas."""
    synced: bool
    """Each record is synced before it is acknowledged."""
    flexible: bool
    """Clients speak versions whose fields are compact."""

    @staticmethod
    def drawn(random: Random, name: str) -> Kafka:
        return Kafka(
            name=name,
            partitions=random.randint(1, 4),
            writers=random.randint(1, 3),
            pause_s=random.choice((0.1, 0.3)),
            min_insync=random.choice((1, 2, 2)),
            synced=random.random() < 1 / 2,
            flexible=random.random() < 1 / 2,
        )

    @property
    def survives_power_loss(self) -> bool:
        return self.synced

    @property
    def broker_settings(self) -> dict[str, Any]:
        return {"kafka_port": KAFKA_PORT}

    def workload(self, stage: Stage) -> Workload:
        return _Clients(self, stage)


class _Clients(Workload):
    def __init__(self, plan: Kafka, stage: Stage) -> None:
        self._plan = plan
        self._stage = stage
        self._topic = ClosedTopic(stage, plan.name, plan.partitions)
        self._admin = stage.client(f"{plan.name} admin")
        self._written = asyncio.Event()
        """Every producer has finished."""
        self._wrong: list[str] = []

    async def prepare(self) -> None:
        plan, host = self._plan, self._admin.host
        await self._admin.run(self._topic.create(host, synced=plan.synced, min_insync=plan.min_insync))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as clients:
            for number in range(self._plan.writers):
                writer = self._stage.client(f"{self._plan.name} writer {number}")
                clients.create_task(joined(writer.run(self._write(writer))))
            reader = self._stage.client(f"{self._plan.name} reader")
            clients.create_task(joined(reader.run(self._follow(reader))))
        self._written.set()

    async def finish(self) -> None:
        await self._written.wait()
        await self._admin.run(self._topic.read_all(self._admin.host))

    def problems(self) -> list[Problem]:
        lines = [*self._topic.problems(), *dict.fromkeys(self._wrong)]
        return [Problem(self._plan.kind, line) for line in lines]

    def counts(self) -> dict[str, int]:
        return {"records": len(self._topic.log)}

    # --- clients -----------------------------------------------------------------------------

    def _client(self, process: SimulatedProcess) -> KafkaClient:
        return KafkaClient(
            process,
            self._stage.cluster.kafka_bootstrap,
            self._plan.name,
            self._stage.random(f"{process.name} client"),
            self._wrong,
            flexible=self._plan.flexible,
        )

    async def _write(self, process: SimulatedProcess) -> None:
        """Until the faults have ended; then each record is sent until it is acknowledged."""
        random, recorder = self._stage.random(process.name), self._topic.recorder(process.name)
        client = self._client(process)

        def acked(record: int, partition: int, offset: int) -> None:
            recorder.acked(record, partition, offset)
            if offset >= 0:
                self._topic.acknowledged(partition, offset)

        producer = KafkaProducer(client, self._plan.partitions, acked)
        running = asyncio.get_running_loop().create_task(producer.run())
        record = 0
        while not self._stage.faults_ended.is_set():
            partition = random.randrange(self._plan.partitions)
            for _ in range(random.randint(1, BURST_MAX)):
                record += 1
                value = f"{process.name} {record}".encode()
                recorder.sent(record, None, value, partition)
                producer.send(partition, record, value)
            await process.host.clock.sleep(random.expovariate(1 / self._plan.pause_s))
        await _until_idle(process, producer, running)
        client.close()

    async def _follow(self, process: SimulatedProcess) -> None:
        recorder = self._topic.recorder(process.name)
        client = self._client(process)

        def received(partition: int, header: BatchHeader, records: Sequence[Record]) -> None:
            recorder.received(partition, records)

        reader = KafkaReader(client, self._plan.partitions, received, recorder.watermark)
        recorder.assigned(*range(self._plan.partitions))
        running = asyncio.get_running_loop().create_task(reader.run())
        while not self._stage.faults_ended.is_set() and not running.done():
            await process.host.clock.sleep(LOOK_S)
        await _ended(running)
        client.close()


async def _until_idle(
    process: SimulatedProcess, producer: KafkaProducer, running: asyncio.Task[None]
) -> None:
    while not producer.idle and not running.done():
        await process.host.clock.sleep(LOOK_S)
    await _ended(running)


async def _ended(running: asyncio.Task[None]) -> None:
    """End a client that would run on. Raises what has ended it before."""
    if running.done():
        running.result()
    running.cancel()
    await asyncio.wait((running,))
