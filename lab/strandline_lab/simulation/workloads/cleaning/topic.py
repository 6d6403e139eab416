"""Producers write to a topic whose old records the brokers remove: by key, by size, or by both."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from random import Random
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import Field

from strandline.client.admin.admin import Admin
from strandline.consumer.consumer import Consumer
from strandline.errors import Outcome, StrandlineError
from strandline.host import Host
from strandline.ids import TopicPartition
from strandline.producer.producer import Producer
from strandline_lab.simulation.judging.judge import Problem
from strandline_lab.simulation.stage import SYNCED, Acknowledged, Stage
from strandline_lab.simulation.workloads.cleaning.judge import Found, Write, findings
from strandline_lab.simulation.workloads.producing import producing
from strandline_lab.simulation.workloads.topic import (
    DELIVERY_TIMEOUT_MS,
    MIN_INSYNC,
    create_topic,
    ends_of,
    has_read,
)
from strandline_lab.simulation.workloads.workload import Count, Pause, Workload, WorkloadPlan, joined

Policy = Literal["compact", "delete", "compact,delete"]

SEGMENT_BYTES: Final = 1024
RETENTION_BYTES: Final = 4 * SEGMENT_BYTES
TOMBSTONE_RATE: Final = 0.2
"""The part of all records that delete their key."""
LAST: Final = b"last"
"""The key of the last record of a partition."""
GET_MS_MAX: Final = 500


class Cleaning(WorkloadPlan, frozen=True):
    """`writers` producers overwrite `keys` keys each, with a record every `pause_s` seconds on average."""

    kind: Literal["cleaning"] = "cleaning"
    policy: Policy
    """The topic's cleanup.policy."""
    partitions: Count
    """Of its topic."""
    writers: Count
    """Producers."""
    keys: Count
    """Of each writer, who alone writes them."""
    pause_s: Pause
    """Between two records of a writer, on average."""
    synced: bool
    """Each record is synced before it is acknowledged."""
    tombstones_ms: Annotated[int, Field(ge=0)]
    """How long a tombstone stays, at least."""

    @staticmethod
    def drawn(random: Random, name: str) -> Cleaning:
        return Cleaning(
            name=name,
            policy=random.choice(("compact", *get_args(Policy))),
            partitions=random.randint(1, 2),
            writers=random.randint(1, 2),
            keys=random.choice((1, 3, 10)),
            pause_s=random.choice((0.03, 0.1)),
            synced=random.random() < 1 / 2,
            tombstones_ms=random.choice((0, 5_000)),
        )

    @property
    def survives_power_loss(self) -> bool:
        return self.synced

    @property
    def config(self) -> dict[str, str]:
        """Of the topic: small segments, of which few stay."""
        config = {
            "cleanup.policy": self.policy,
            "segment.bytes": str(SEGMENT_BYTES),
            "retention.bytes": str(RETENTION_BYTES),
            "min.cleanable.dirty.ratio": "0.1",
            "delete.retention.ms": str(self.tombstones_ms),
            "min.insync.replicas": str(MIN_INSYNC),
        }
        return config | SYNCED if self.synced else config

    def workload(self, stage: Stage) -> Workload:
        return _Clients(self, stage)


class _Clients(Workload):
    def __init__(self, plan: Cleaning, stage: Stage) -> None:
        self._plan = plan
        self._stage = stage
        self._partitions = [TopicPartition(plan.name, number) for number in range(plan.partitions)]
        self._admin = stage.client(f"{plan.name} admin")
        self._written = asyncio.Event()
        """Every producer has finished."""
        self._writes: list[Write] = []
        """In the order in which they were sent; no two writers have a key in common."""
        self._followed: list[Found] = []
        self._log: list[Found] = []
        self._starts: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    async def prepare(self) -> None:
        await self._admin.run(self._create(self._admin.host))

    async def _create(self, host: Host) -> None:
        async with Admin(self._stage.cluster.bootstrap, host=host) as admin:
            await create_topic(admin, host, self._plan.name, self._plan.partitions, self._plan.config)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as clients:
            for number in range(self._plan.writers):
                writer = self._stage.client(f"{self._plan.name} writer {number}")
                clients.create_task(joined(writer.run(self._write(writer.name, writer.host))))
            reader = self._stage.client(f"{self._plan.name} reader")
            clients.create_task(joined(reader.run(self._follow(reader.host))))
        self._written.set()

    async def finish(self) -> None:
        await self._written.wait()
        await self._admin.run(self._read_all(self._admin.host))

    def problems(self) -> list[Problem]:
        found = findings(
            self._writes, self._log, self._followed, self._starts, self._ends, policy=self._plan.policy
        )
        return [Problem(self._plan.kind, f"{self._plan.name}: {sentence}") for sentence in found]

    def counts(self) -> dict[str, int]:
        removed = sum(self._ends.values()) - len(self._log)
        return {"records": sum(self._ends.values()), "records removed": removed}

    # --- clients -----------------------------------------------------------------------------

    async def _write(self, name: str, host: Host) -> None:
        random = self._stage.random(name)
        async with self._producer(host) as producer:
            while not self._stage.faults_ended.is_set():
                key = f"{name} key {random.randrange(self._plan.keys)}".encode()
                value = f"{len(self._writes)} {name}".encode()
                await self._send(producer, key, None if random.random() < TOMBSTONE_RATE else value)
                await host.clock.sleep(random.expovariate(1 / self._plan.pause_s))
            await producer.flush()

    async def _send(self, producer: Producer, key: bytes, value: bytes | None) -> None:
        write = Write(key, value)
        self._writes.append(write)
        sent = await producer.send(self._plan.name, value, key)
        sent.add_done_callback(partial(self._settled, write))

    def _settled(self, write: Write, sent: asyncio.Future[Any]) -> None:
        if sent.cancelled():
            return
        error = sent.exception()
        if error is not None:
            write.denied = isinstance(error, StrandlineError) and error.outcome is not Outcome.UNKNOWN
            return
        write.partition, write.offset = sent.result().partition, sent.result().offset
        if self._plan.policy == "delete" and write.offset >= 0:
            name = self._partitions[write.partition]
            for look in self._stage.on_acknowledged:
                look(Acknowledged(name, write.offset, MIN_INSYNC, self._plan.synced))

    async def _follow(self, host: Host) -> None:
        """Read along to an end that is asked for after the faults. Where records are gone, continue with the
        first one."""
        async with self._consumer(host) as consumer:
            consumer.assign(self._partitions)
            while not self._stage.faults_ended.is_set():
                self._followed += await _received(consumer)
            ends = await ends_of(consumer, self._partitions)
            while not await has_read(consumer, ends):
                self._followed += await _received(consumer)

    async def _read_all(self, host: Host) -> None:
        """Read everything that is left. A last record shows that the end is not an old one."""
        async with self._producer(host) as producer:
            for name in self._partitions:
                write = Write(LAST + b" %d" % name.partition, LAST)
                self._writes.append(write)
                acked = await producer.send_and_wait(name.topic, LAST, write.key, partition=name.partition)
                write.partition, write.offset = acked.partition, acked.offset
                self._ends[name.partition] = acked.offset + 1
        async with self._consumer(host) as consumer:
            consumer.assign(self._partitions)
            ends = {name: self._ends[name.partition] for name in self._partitions}
            while not await has_read(consumer, ends):
                self._log += await _received(consumer)
            starts = await consumer.beginning_offsets(self._partitions)
        self._starts = {name.partition: starts[name] for name in self._partitions}

    def _producer(self, host: Host) -> AbstractAsyncContextManager[Producer]:
        return producing(
            self._stage.cluster.bootstrap, host, linger_ms=1, delivery_timeout_ms=DELIVERY_TIMEOUT_MS
        )

    def _consumer(self, host: Host) -> Consumer:
        return Consumer(self._stage.cluster.bootstrap, host=host, offset_reset="earliest")


async def _received(consumer: Consumer) -> Sequence[Found]:
    try:
        batches = await consumer.getmany(timeout_ms=GET_MS_MAX)
    except StrandlineError as error:
        if not error.retriable:
            raise
        return ()  # a position that is not found for some time: the search goes on
    return [
        Found(name.partition, each.offset, each.key, each.value)
        for name, records in batches.items()
        for each in records
    ]
