"""A topic to which transactional producers write, with the offsets of their group."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from math import inf
from random import Random
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from strandline.client.admin.admin import Admin
from strandline.host import Host
from strandline.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from strandline.simulation.cluster import KAFKA_PORT
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline.vocabulary.transactions import EPOCH_MAX, TransactionState
from strandline_lab.auditing.transactions import Batch
from strandline_lab.simulation.judging.judge import Problem
from strandline_lab.simulation.kafka.client import KafkaClient
from strandline_lab.simulation.kafka.producer import KafkaProducer
from strandline_lab.simulation.kafka.transactions import V2, GaveUp, TransactionalProducer
from strandline_lab.simulation.stage import SYNCED, Stage
from strandline_lab.simulation.workloads.producing import producing
from strandline_lab.simulation.workloads.topic import create_topic
from strandline_lab.simulation.workloads.transactions.history import (
    History,
    Initialized,
    SeenOffset,
)
from strandline_lab.simulation.workloads.transactions.judge import findings
from strandline_lab.simulation.workloads.transactions.old_ids import age
from strandline_lab.simulation.workloads.transactions.own import Begin, OwnProducing, OwnReading
from strandline_lab.simulation.workloads.transactions.producing import SHADOW, Producing
from strandline_lab.simulation.workloads.transactions.reading import END, LAST, OnBatch, Reading, noting
from strandline_lab.simulation.workloads.transactions.trimming import trim
from strandline_lab.simulation.workloads.workload import Count, Pause, Workload, WorkloadPlan, joined

MIN_INSYNC: Final = 2
SEGMENT_BYTES: Final = 2048
"""Small: brokers write a snapshot with each new segment."""
READERS: Final = 2
"""Of committed records; one more reads all."""
LOOK_S: Final = 0.25
"""Between two looks at the group's offsets."""
PLAIN_PAUSE_S: Final = 0.5
"""Between two records outside transactions, on average."""
HANGING_S_MAX: Final = 30.0
"""After the longest timeout, and after the faults: until every transaction has ended."""
FLUSH_S_MAX: Final = 30.0
"""After the faults: until each record outside transactions is acknowledged."""
IDLE_S: Final = 0.1
USED_UP_MAX: Final = 8
"""The most epochs that a transactional id has left which has been used often."""
RETIRED_RATE: Final = 1 / 4
"""The part of the transactional ids that no one uses any longer from some time on, up to RETIRED_S_MAX."""
RETIRED_S_MAX: Final = 12.0
COMPACTED_S: Final = 3.0
"""In the end: until compaction has removed the markers that are not needed."""


class Transactions(WorkloadPlan, frozen=True):
    """`producers` transactional ids, each with `twins` processes, which fence each other."""

    kind: Literal["transactions"] = "transactions"
    partitions: Count
    """Of its topic."""
    producers: Count
    """Transactional ids. Each transforms inputs of its own, whose offset its group has."""
    twins: Count
    """Processes that have the same transactional id, one after the other or at once."""
    pause_s: Pause
    """Between two transactions of a process, on average."""
    timeout_s: Pause
    """Of a transaction."""
    coordinators: Count
    """Partitions of `__transaction_state`."""
    synced: bool
    """Each record, each decision and each offset is synced before it is acknowledged."""
    compacted: bool = False
    """Compaction removes what was aborted, and markers after that."""
    markers_ms: int | None = None
    """How long compaction keeps markers at least (`delete.retention.ms`); None: for longer than the run. No
    seed draws it."""
    harder: bool = False
    """Batches come behind the abort of their transaction; no one returns to some transactional ids; aborted
    records have keys of committed ones; in the end compaction removes markers."""
    epoch: Annotated[int, Field(ge=0, lt=EPOCH_MAX)] = 0
    """Of each transactional id in the beginning, near the last one: then its producer ids are used up."""
    trims: bool = False
    """The beginning of the log is deleted, past transactions that are open."""
    own: bool = False
    """Half of the processes are strandline's own producers, and one more reader is its consumer."""

    @staticmethod
    def drawn(random: Random, name: str) -> Transactions:
        return Transactions(
            name=name,
            partitions=random.randint(1, 3),
            producers=random.randint(2, 4),
            twins=random.choice((1, 1, 2)),
            pause_s=random.choice((0.01, 0.05)),
            timeout_s=random.choice((1.0, 2.0, 5.0)),
            coordinators=random.randint(1, 3),
            synced=random.random() < 1 / 2,
            compacted=random.random() < 1 / 3,
        )

    def made_harder(self, random: Random) -> Transactions:
        harder = {
            "harder": True,
            "epoch": EPOCH_MAX - random.randint(1, USED_UP_MAX) if random.random() < 1 / 4 else 0,
            "trims": random.random() < 1 / 2 and not self.compacted,
            "own": random.random() < 1 / 3,
        }
        return self.model_copy(update=harder)

    @property
    def survives_power_loss(self) -> bool:
        return self.synced

    @property
    def has_group(self) -> bool:
        return True

    @property
    def broker_settings(self) -> dict[str, Any]:
        return {"kafka_port": KAFKA_PORT, "transaction_state_topic_partitions": self.coordinators}

    @property
    def config(self) -> dict[str, str]:
        """Of the topic."""
        config = {"min.insync.replicas": str(MIN_INSYNC), "segment.bytes": str(SEGMENT_BYTES)}
        if self.compacted:
            config |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}
        if self.markers_ms is not None:
            config["delete.retention.ms"] = str(self.markers_ms)
        return config | SYNCED if self.synced else config

    def workload(self, stage: Stage) -> Workload:
        return _Clients(self, stage)


class _Clients(Workload):
    def __init__(self, plan: Transactions, stage: Stage) -> None:
        self._plan = plan
        self._stage = stage
        self._history = History(compacted=plan.compacted)
        self._owners = [f"{plan.name} {number}" for number in range(plan.producers)]
        self._admin = stage.client(f"{plan.name} admin")
        self._produced = asyncio.Event()
        self._read = asyncio.Event()
        self._log_read = asyncio.Event()
        self._over = asyncio.Event()
        """Nothing is awaited: readers that have not come to the end stop."""
        self._wrong: list[str] = []

    def _client(self, process: SimulatedProcess, *, flexible: bool = True) -> KafkaClient:
        return KafkaClient(
            process,
            self._stage.cluster.kafka_bootstrap,
            self._plan.name,
            self._stage.random(f"{process.name} client"),
            self._wrong,
            flexible=flexible,
        )

    # --- topics ------------------------------------------------------------------------------

    async def prepare(self) -> None:
        await self._admin.run(self._prepare(self._admin.host))

    async def _prepare(self, host: Host) -> None:
        """Decisions and offsets survive what the topic survives."""
        plan = self._plan
        async with Admin(self._stage.cluster.bootstrap, host=host) as admin:
            await create_topic(admin, host, plan.name, plan.partitions, plan.config)
            client = self._client(self._admin)
            for owner in self._owners:
                await self._observer(client, owner).create_internal_topics()
            client.close()
            await self._begin_shadows(host)
            if plan.epoch:
                await self._age(self._client(self._admin))
            if plan.synced:
                for topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
                    await admin.alter_topic(topic, set=SYNCED)

    async def _begin_shadows(self, host: Host) -> None:
        """The records that only aborted transactions write again, and so stay."""
        if not (self._plan.harder and self._plan.compacted):
            return
        async with producing(self._stage.cluster.bootstrap, host) as producer:
            for number in range(self._plan.partitions):
                key = value = SHADOW + b" %d" % number
                acked = await producer.send_and_wait(self._plan.name, value, key, partition=number)
                self._history.plain[value] = number, acked.offset

    async def _age(self, client: KafkaClient) -> None:
        plan, timeout_ms, taken = self._plan, int(self._plan.timeout_s * 1000), list[Initialized]()
        for owner in self._owners:
            first = TransactionalProducer(
                client, owner, self._group(owner), V2, timeout_ms, lambda what: None
            )
            await first.initialize()
            taken.append(Initialized(owner, first.identity, self._stage.now_s))
        client.close()
        await age(self._stage, self._admin.host, taken, plan.epoch, timeout_ms, plan.coordinators)

    def _observer(self, client: KafkaClient, owner: str) -> TransactionalProducer:
        """One that takes no transactional id, and only looks at the group's offsets."""
        return TransactionalProducer(client, owner, self._group(owner), V2, 1, lambda what: None)

    def _group(self, owner: str) -> str:
        """No two owners have an offset in common."""
        return f"{self._plan.name} group {self._owners.index(owner) // self._plan.partitions}"

    def _input(self, owner: str) -> int:
        return self._owners.index(owner) % self._plan.partitions

    # --- clients -----------------------------------------------------------------------------

    async def run(self) -> None:
        async with asyncio.TaskGroup() as clients:
            clients.create_task(self._read_along())
            if self._plan.trims:  # else it is read in the end
                clients.create_task(self._read_log())
            looking = self._stage.client(f"{self._plan.name} observer")
            clients.create_task(joined(looking.run(self._observe(looking))))
            async with asyncio.TaskGroup() as producing_:
                for owner in self._owners:
                    for twin in range(self._plan.twins):
                        producing_.create_task(self._lives(f"{owner} twin {twin}", owner))
                if not self._plan.compacted:  # there a record needs a key, which the plain ones have not
                    plain = self._stage.client(f"{self._plan.name} plain writer")
                    producing_.create_task(joined(plain.run(self._write_plainly(plain))))
                if self._plan.trims:
                    process = self._stage.client(f"{self._plan.name} trimmer")
                    client, random = self._client(process), self._stage.random(process.name)
                    trimming = trim(self._stage, self._history, client, self._plan.partitions, random)
                    producing_.create_task(joined(process.run(trimming)))
            self._produced.set()

    def _lives(self, name: str, owner: str) -> Coroutine[Any, Any, None]:
        """Of one process, or of one after the other."""
        plan = self._plan
        retires = self._stage.random(f"{owner} retires")
        retires_s = inf
        if plan.harder and retires.random() < RETIRED_RATE:
            retires_s = self._stage.now_s + retires.uniform(0, RETIRED_S_MAX)
        if plan.own and self._stage.random(f"{name} is own").getrandbits(1):
            return OwnProducing(
                self._stage,
                self._history,
                name,
                owner,
                plan.name,
                plan.partitions,
                self._input(owner),
                self._group(owner),
                plan.timeout_s,
                plan.pause_s,
                retires_s,
                self._observer_of(owner),
            ).run()
        process = self._stage.client(name)
        return joined(process.run(self._produce(process, owner, retires_s)))

    def _observer_of(self, owner: str) -> Begin:
        def begin(process: SimulatedProcess) -> Callable[[], Awaitable[int]]:
            observer = self._observer(self._client(process), owner)
            return partial(observer.offset, self._input(owner))

        return begin

    async def _produce(self, process: SimulatedProcess, owner: str, retires_s: float) -> None:
        plan = self._plan
        await Producing(
            self._stage,
            self._history,
            self._stage.random(process.name),
            lambda: self._client(process),
            owner,
            plan.partitions,
            self._input(owner),
            self._group(owner),
            plan.timeout_s,
            plan.pause_s,
            retires_s,
            harder=plan.harder,
            shadows=plan.harder and plan.compacted,
            used_up=plan.epoch > 0,
        ).run()

    async def _write_plainly(self, process: SimulatedProcess) -> None:
        """Records outside transactions, which readers of committed records get as well."""
        random, client = self._stage.random(process.name), self._client(process)
        values: dict[int, bytes] = {}

        def acked(record: int, partition: int, offset: int) -> None:
            self._history.plain[values[record]] = partition, offset

        producer = KafkaProducer(client, self._plan.partitions, acked)
        running = asyncio.get_running_loop().create_task(producer.run())
        while not self._stage.faults_ended.is_set():
            record = len(values)
            values[record] = f"plain {record}".encode()
            producer.send(random.randrange(self._plan.partitions), record, values[record])
            await asyncio.sleep(random.expovariate(1 / PLAIN_PAUSE_S))
        ends_s = self._stage.now_s + FLUSH_S_MAX
        while not producer.idle and not running.done() and self._stage.now_s < ends_s:
            await process.host.clock.sleep(IDLE_S)
        if running.done():
            running.result()
        if not producer.idle:
            self._wrong.append(f"{process.name} has waited {FLUSH_S_MAX:g} s for an answer, without faults")
        running.cancel()
        await asyncio.wait((running,))
        client.close()

    async def _observe(self, process: SimulatedProcess) -> None:
        """Looks at the offsets of the group again and again."""
        client = self._client(process)
        observers = {owner: self._observer(client, owner) for owner in self._owners}
        while not self._stage.faults_ended.is_set():
            for owner, observer in observers.items():
                try:
                    offset = await observer.offset(self._input(owner))
                except GaveUp:
                    continue
                self._history.offsets.append(SeenOffset(process.name, owner, offset))
            self._look_for_dead_ids()
            await asyncio.sleep(LOOK_S)
        client.close()

    def _look_for_dead_ids(self) -> None:
        """No coordinator may fail in a turn. The next one does what it left undone: it is not seen later."""
        for number, broker in self._stage.cluster.running.items():
            if broker.transactions is not None and broker.transactions.count()[TransactionState.DEAD]:
                self._wrong.append(f"C3: a transactional id is Dead on broker {number}")

    async def _read_along(self) -> None:
        """Returns once all readers have come to the end, or none is left that waits."""
        history, readers = self._history, dict[str, Reading | OwnReading]()
        async with asyncio.TaskGroup() as tasks:
            for number in range(READERS + 1):
                committed = number < READERS
                name = f"{self._plan.name} reader {number}"
                kept = history.committed if committed else history.uncommitted
                reading = self._reading(name, noting(kept.setdefault(name, {})), committed=committed)
                readers[name] = reading[0]
                tasks.create_task(self._until_over(*reading))
            if self._plan.own:
                name = f"{self._plan.name} own reader"
                process = self._stage.client(name)
                own = OwnReading(
                    self._stage.cluster.bootstrap,
                    process.host,
                    self._plan.name,
                    self._plan.partitions,
                    history.committed.setdefault(name, {}),
                )
                readers[name] = own
                tasks.create_task(self._until_over(own, process))
        for name, reader in readers.items():
            if reader.left:
                self._wrong.append(f"C3: {name} has not come to the end of partitions {reader.left}")
        self._read.set()

    async def _read_log(self) -> None:
        """All of the log, with its markers, to its end."""
        name = f"{self._plan.name} log reader"
        reading = self._reading(name, self._note_log, committed=False, last=END)
        await self._until_over(*reading)
        if not reading[0].left:
            self._log_read.set()

    def _note_log(self, partition: int, batch: Batch) -> None:
        if not any(each.begins(END) for each in batch.records):
            self._history.log[partition].append(batch)

    def _reading(
        self, name: str, on_batch: OnBatch, *, committed: bool, last: bytes = LAST
    ) -> tuple[Reading, SimulatedProcess]:
        process = self._stage.client(name)
        client = self._client(process, flexible=bool(self._stage.random(name).getrandbits(1)))
        reading = Reading(
            client,
            self._plan.partitions,
            on_batch,
            committed=committed,
            deleted=self._history.deleted,
            last=last,
        )
        return reading, process

    async def _until_over(self, reading: Reading | OwnReading, process: SimulatedProcess) -> None:
        running = process.run(reading.run())
        over = asyncio.get_running_loop().create_task(self._over.wait())
        await asyncio.wait((running, over), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        running.cancel()
        over.cancel()
        await asyncio.wait((running, over))

    # --- the end -----------------------------------------------------------------------------

    async def finish(self) -> None:
        """Within the longest timeout every transaction has ended, and readers come to the last record."""
        await self._produced.wait()
        await self._admin.run(self._write_last(self._admin.host, LAST))
        if self._plan.harder and self._plan.compacted:
            await self._admin.run(self._remove_markers(self._admin.host))
        try:
            async with asyncio.timeout(self._plan.timeout_s + HANGING_S_MAX):
                await self._read.wait()
                await self._admin.run(self._write_last(self._admin.host, END))
                await self._look_at_the_end()
        except (TimeoutError, GaveUp):
            self._over.set()
            await self._read.wait()

    async def _write_last(self, host: Host, last: bytes) -> None:
        async with producing(self._stage.cluster.bootstrap, host) as producer:
            for number in range(self._plan.partitions):
                value = last + b" %d" % number
                acked = await producer.send_and_wait(self._plan.name, value, value, partition=number)
                if last == LAST:
                    self._history.plain[value] = number, acked.offset

    async def _remove_markers(self, host: Host) -> None:
        """All replicas have all markers now: compaction may remove those that no batch needs."""
        async with Admin(self._stage.cluster.bootstrap, host=host) as admin:
            await admin.alter_topic(self._plan.name, set={"delete.retention.ms": "0"})
        await host.clock.sleep(COMPACTED_S)

    async def _look_at_the_end(self) -> None:
        """The whole log, what of it is committed, and the offsets."""
        history, name = self._history, f"{self._plan.name} late reader"
        if not self._plan.trims:
            await self._read_log()
        await self._log_read.wait()
        late, process = self._reading(name, noting(history.committed.setdefault(name, {})), committed=True)
        await process.run(late.run())
        process = self._stage.client(f"{self._plan.name} late observer")
        client = self._client(process)
        for owner in self._owners:
            history.last[owner] = await process.run(self._observer(client, owner).offset(self._input(owner)))

    def problems(self) -> list[Problem]:
        """A log, a decision or an offset may be lost by design: then nothing is judged (E3)."""
        topics = {self._plan.name, TRANSACTIONS_TOPIC, OFFSETS_TOPIC}
        lossy = any(topic in topics for topic, _ in self._stage.isr_history.losses())
        if lossy and not (self._plan.synced and not self._stage.disks_spoiled):
            return []
        found = [*self._wrong]
        if len(self._history.last) == len(self._owners):
            found += findings(self._history)
        else:
            found.append("C3: the group's offsets, or all of the log, could not be read in the end")
        return [Problem(self._plan.kind, line) for line in dict.fromkeys(found)]

    def counts(self) -> dict[str, int]:
        committed = [each for each in self._history.attempts if each.asked and each.answered]
        producers = {each.producer.producer_id for batches in self._history.log.values() for each in batches}
        return {
            "transactions": len(self._history.attempts),
            "committed transactions": len(committed),
            "producer ids": len(producers),
        }
