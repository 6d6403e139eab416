"""Strandline's own clients beside those of Kafka: transactional producers and readers of what they commit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from strandline.consumer.consumer import Consumer
from strandline.errors import StrandlineError, TransactionAbortable
from strandline.host import Host
from strandline.ids import TopicPartition
from strandline.producer.producer import Producer
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline.vocabulary.transactions import NO_PRODUCER
from strandline_lab.auditing.transactions import Read
from strandline_lab.simulation.kafka.transactions import GaveUp
from strandline_lab.simulation.stage import CoordinatorStep, Stage
from strandline_lab.simulation.workloads.producing import producing
from strandline_lab.simulation.workloads.transactions.history import Attempt, History, Reads
from strandline_lab.simulation.workloads.transactions.producing import (
    BATCHES_MAX,
    COMMIT_RATE,
    DEATH_RATE,
    INPUTS_MAX,
    LEFT_OPEN_RATE,
)
from strandline_lab.simulation.workloads.transactions.reading import LAST

DELIVERY_TIMEOUT_MS: Final = 20_000
DEATH_S: Final = 1.0
"""A life that is to be killed is killed after this time, on average."""
GET_MS_MAX: Final = 500

Begin = Callable[[SimulatedProcess], Callable[[], Awaitable[int]]]
"""Gives a process what asks for the offset of its group."""


class OwnProducing:
    """All lives of one transactional id, each a process of its own, until the faults have ended."""

    def __init__(
        self,
        stage: Stage,
        history: History,
        name: str,
        owner: str,
        topic: str,
        partitions: int,
        input_partition: int,
        group: str,
        timeout_s: float,
        pause_s: float,
        retires_s: float,
        begin: Begin,
    ) -> None:
        """As `Producing`."""
        self._stage = stage
        self._history = history
        self._name = name
        self._random: Random = stage.random(name)
        self._owner = owner
        self._topic = topic
        self._partitions = partitions
        self._input = TopicPartition(topic, input_partition)
        self._group = group
        self._timeout_ms = int(timeout_s * 1000)
        self._pause_s = pause_s
        self._retires_s = retires_s
        self._begin = begin

    def _over(self) -> bool:
        return self._stage.faults_ended.is_set() or self._stage.now_s >= self._retires_s

    async def run(self) -> None:
        life = 0
        while not self._over():
            process = self._stage.client(f"{self._name} life {life}")
            leaves = asyncio.get_running_loop().create_future()
            lived = process.run(self._live(process, leaves))
            dies_s = self._random.expovariate(1 / DEATH_S) if self._random.random() < DEATH_RATE else None
            await asyncio.wait((lived, leaves), timeout=dies_s, return_when=asyncio.FIRST_COMPLETED)
            if lived.done():
                lived.result()
            process.kill()
            await asyncio.sleep(self._random.expovariate(1 / self._pause_s))
            life += 1

    async def _live(self, process: SimulatedProcess, leaves: asyncio.Future[None]) -> None:
        """Transactions, until one ends its producer. `leaves` is done if it leaves the last one open."""
        begin = self._begin(process)
        try:
            async with producing(
                self._stage.cluster.bootstrap,
                process.host,
                transactional_id=self._owner,
                transaction_timeout_ms=self._timeout_ms,
                delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            ) as producer:
                while not self._over():
                    offset = await begin()
                    inputs = offset, offset + self._random.randint(1, INPUTS_MAX)
                    attempt = self._history.begin(self._owner, NO_PRODUCER, *inputs)
                    try:
                        await self._transact(producer, attempt, leaves)
                    except TransactionAbortable:
                        continue
                    await process.host.clock.sleep(self._random.expovariate(1 / self._pause_s))
        except (StrandlineError, GaveUp):
            return

    async def _transact(self, producer: Producer, attempt: Attempt, leaves: asyncio.Future[None]) -> None:
        """Raises StrandlineError."""
        commit = self._random.random() < COMMIT_RATE
        count = self._random.randint(1, BATCHES_MAX)
        commits_at = self._random.randint(0, count)
        async with producer.transaction() as transaction:
            for place in range(count + 1):
                if place == commits_at:
                    self._note("commit offsets")
                    await transaction.send_offsets({self._input: attempt.end}, self._group)
                if place < count:
                    self._note("write")
                    await self._send(producer, attempt, place)
            if self._over() and self._random.random() < LEFT_OPEN_RATE:
                leaves.set_result(None)
                await asyncio.get_running_loop().create_future()  # until the process is killed
            attempt.asked, attempt.asked_s = commit, self._stage.now_s
            self._note("end")
            if not commit:
                await transaction.abort()
        attempt.answered = True

    def _note(self, what: str) -> None:
        self._stage.step(CoordinatorStep(self._owner, what, decisive=what == "end"))

    async def _send(self, producer: Producer, attempt: Attempt, place: int) -> None:
        partition = self._random.randrange(self._partitions)
        for number in range(attempt.begin, attempt.end):
            value = f"{attempt.owner}/{attempt.number}/{place}/{number}".encode()
            attempt.sent.append((partition, value))
            sent = await producer.send(self._topic, value, value, partition=partition)
            sent.add_done_callback(partial(_settled, attempt, value))


def _settled(attempt: Attempt, value: bytes, sent: asyncio.Future[Any]) -> None:
    if not sent.cancelled() and sent.exception() is None:
        attempt.acked[value] = sent.result().offset


class OwnReading:
    """An own consumer of committed records, from the beginning of each partition to its last record."""

    def __init__(self, bootstrap: list[str], host: Host, topic: str, partitions: int, reads: Reads) -> None:
        self._bootstrap = bootstrap
        self._host = host
        self._names = [TopicPartition(topic, number) for number in range(partitions)]
        self._left = set(range(partitions))
        self._reads = reads

    @property
    def left(self) -> list[int]:
        """The partitions of which it has not got the last record."""
        return sorted(self._left)

    async def run(self) -> None:
        """Reads to the end."""
        async with Consumer(
            self._bootstrap, host=self._host, offset_reset="earliest", isolation_level="read_committed"
        ) as consumer:
            consumer.assign(self._names)
            while self._left:
                for name, reads in (await _received(consumer)).items():
                    self._reads.setdefault(name.partition, []).extend(reads)
                    if any(read.begins(LAST) for read in reads):
                        self._left.discard(name.partition)


async def _received(consumer: Consumer) -> dict[TopicPartition, Sequence[Read]]:
    try:
        batches = await consumer.getmany(timeout_ms=GET_MS_MAX)
    except StrandlineError as error:
        if not error.retriable:
            raise
        return {}  # a position that is not found for some time: the search goes on
    return {
        name: [Read(each.offset, each.value or b"") for each in records] for name, records in batches.items()
    }
