"""A stream application whose keys are deleted, and whose changelog forgets the deletions.

After the faults half of all keys are deleted while one member runs alone. The others come back, one after the
other, once the changelog has removed the tombstones: their stores are older than those. In the end each store
of each member has to be the replay of its changelog, and of its input.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final, Literal

from strandline.client.admin.admin import Admin
from strandline.consumer.consumer import Consumer
from strandline.host import Host
from strandline.ids import TopicPartition
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline.streams import BYTES, KeyValueStore, Record, Store, TaskId, Topology
from strandline.streams.core.changelog import LOGS_KEY, POSITION_KEY, store_prefix
from strandline.streams.core.positions import Positions
from strandline.streams.storage.memory_stores import MemoryDisk
from strandline.streams.streams import Streams
from strandline_lab.simulation.judging.judge import Problem
from strandline_lab.simulation.stage import Stage
from strandline_lab.simulation.workloads.counting.member import Member
from strandline_lab.simulation.workloads.lives import Lives
from strandline_lab.simulation.workloads.producing import producing
from strandline_lab.simulation.workloads.topic import ClosedTopic, ends_of, has_read
from strandline_lab.simulation.workloads.workload import Count, Pause, Workload, WorkloadPlan, joined

STORE: Final = "values"
DELETED_RATE: Final = 0.3
"""The part of all records that delete their key."""
TOMBSTONES_MS: Final = 2_000
"""How long the changelog keeps a tombstone, at least."""
FORGETS: Final = {
    "segment.bytes": "1024",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": str(TOMBSTONES_MS),
}
FORGOTTEN_S: Final = 8.0
"""From a deletion until its tombstone is removed, with two compactions."""
FILLERS: Final = 5
"""Keys that are written meanwhile, so that segments end and are compacted."""
FILLER_S: Final = 0.05
LOOK_S: Final = 0.1
GET_MS_MAX: Final = 200
SETTINGS: Final[dict[str, Any]] = {
    "session_timeout_ms": 4_000,
    "heartbeat_interval_ms": 1_000,
    "commit_interval_ms": 100,
    "leave_timeout_ms": 5_000,
}

Rows = Mapping[bytes, bytes]


class Forgetting(WorkloadPlan, frozen=True):
    """One application that keeps the last value of each key, and who writes to its input."""

    kind: Literal["forgetting"] = "forgetting"
    partitions: Count
    keys: Count
    """Different keys of the input."""
    pause_s: Pause
    """Between two records, on average."""
    members: Count
    change_s: Pause
    """Between two changes of the members, on average."""

    @staticmethod
    def drawn(random: Random, name: str) -> Forgetting:
        return Forgetting(
            name=name,
            partitions=random.randint(1, 2),
            keys=random.choice((10, 40)),
            pause_s=random.choice((0.02, 0.05)),
            members=random.randint(2, 3),
            change_s=random.choice((2.0, 5.0)),
        )

    @property
    def has_group(self) -> bool:
        return True

    @property
    def survives_power_loss(self) -> bool:
        return False  # the application's own topics are not synced

    def workload(self, stage: Stage) -> Workload:
        return _Application(self, stage)


class _Application(Workload):
    def __init__(self, plan: Forgetting, stage: Stage) -> None:
        self._plan = plan
        self._stage = stage
        self._lines = ClosedTopic(stage, f"{plan.name}-lines", plan.partitions)
        self._changelog = f"{plan.name}-{self._lines.name}-changelog"
        self._admin = stage.client(f"{plan.name} admin")
        self._disks = [MemoryDisk() for _ in range(plan.members)]
        self._lives = Lives(stage, f"{plan.name} members", plan.members, plan.change_s, self._start)
        self._written = asyncio.Event()
        """The producer has finished."""
        self._ends: dict[TopicPartition, int] = {}
        """Of the input."""
        self._problems: list[str] = []
        self._alone_lives = 0
        self._deleted = 0

    async def prepare(self) -> None:
        await self._admin.run(self._prepare(self._admin.host))

    async def _prepare(self, host: Host) -> None:
        await self._lines.create(host, synced=False)
        async with self._streams(self._admin, Path("/state/admin"), MemoryDisk()):
            pass  # it has created its changelog
        async with Admin(self._stage.cluster.bootstrap, host=host) as admin:
            await admin.alter_topic(self._changelog, set=FORGETS)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._lives.run())
            writer = self._stage.client(f"{self._plan.name} writer")
            written = self._lines.write(writer.name, writer.host, self._plan.pause_s, line=self._line)
            await joined(writer.run(written))
            self._written.set()

    def _line(self, random: Random, unique: bytes) -> tuple[bytes, bytes | None]:
        key = b"key-%d" % random.randrange(self._plan.keys)
        deletes = random.random() < DELETED_RATE
        self._deleted += deletes
        return key, None if deletes else unique

    async def finish(self) -> None:
        await self._written.wait()
        self._lives.resume()
        await self._lives.end()
        for number in range(self._plan.members):
            await self._admin.run(self._find_ends(self._admin.host))
            await self._alone(number)
        random = self._stage.random(f"{self._plan.name} deletions")
        last = random.randrange(self._plan.members)
        await self._alone(last, self._delete(random, self._admin.host))
        await self._admin.run(self._lines.read_all(self._admin.host))
        await self._admin.run(self._find_ends(self._admin.host))
        for number in range(self._plan.members):
            await self._alone(number)
        await self._admin.run(self._judge(self._admin.host))

    async def _find_ends(self, host: Host) -> None:
        async with Consumer(self._stage.cluster.bootstrap, host=host) as consumer:
            self._ends = await ends_of(consumer, self._lines.partitions)

    async def _delete(self, random: Random, host: Host) -> None:
        """Delete half of all keys, and write others until no tombstone of these is left in a changelog."""
        recorder = self._lines.recorder(f"{self._plan.name} deletions")
        record = 0
        async with producing(self._stage.cluster.bootstrap, host) as producer:

            async def write(key: bytes, value: bytes | None, name: TopicPartition) -> None:
                nonlocal record
                record += 1
                recorder.sent(record, key, value, name.partition)
                acked = await producer.send_and_wait(self._lines.name, value, key, partition=name.partition)
                recorder.acked(record, acked.partition, acked.offset)

            prefix = store_prefix(STORE)
            for name in self._lines.partitions:
                keys = [key for key in self._rows(0, name.partition) if key.startswith(prefix)]
                for key in random.sample(keys, len(keys) // 2):
                    await write(key.removeprefix(prefix), None, name)
            forgotten_s = self._stage.now_s + FORGOTTEN_S
            while self._stage.now_s < forgotten_s:
                for name in self._lines.partitions:
                    await write(b"filler-%d" % (record % FILLERS), b"%d" % record, name)
                await host.clock.sleep(FILLER_S)

    async def _alone(self, number: int, meanwhile: Coroutine[Any, Any, None] | None = None) -> None:
        """Run a member, and something beside it, until its stores have all of the input."""
        disk = self._disks[number]
        disk.process_ended()
        self._alone_lives += 1
        process = self._stage.client(f"{self._plan.name} member {number} alone {self._alone_lives}")
        await process.run(self._catch_up(process, number, meanwhile))

    async def _catch_up(
        self, process: SimulatedProcess, number: int, meanwhile: Coroutine[Any, Any, None] | None
    ) -> None:
        async with self._streams(process, self._folder(number), self._disks[number]) as app:
            if meanwhile is not None:
                await joined(self._admin.run(meanwhile))
            while not all(self._has_all(number, name) for name in self._lines.partitions):
                await process.host.clock.sleep(LOOK_S)
            while {task.role for task in app.tasks()} != {"running"}:
                await process.host.clock.sleep(LOOK_S)

    def _has_all(self, number: int, name: TopicPartition) -> bool:
        read = Positions.read(self._rows(number, name.partition).get).inputs.get(name)
        return read is not None and read.offset >= self._ends[name]

    def _rows(self, number: int, partition: int) -> Rows:
        stores = self._disks[number].open(self._folder(number), self._plan.name)
        return stores.rows(TaskId(self._lines.name, partition))

    @staticmethod
    def _folder(number: int) -> Path:
        return Path(f"/state/{number}")

    async def _judge(self, host: Host) -> None:
        prefix = store_prefix(STORE)
        changelogs = [name._replace(topic=self._changelog) for name in self._lines.partitions]
        names = [*changelogs, *self._lines.partitions]
        replayed: dict[TopicPartition, dict[bytes, bytes]] = {name: {} for name in names}
        async with Consumer(self._stage.cluster.bootstrap, host=host, offset_reset="earliest") as consumer:
            consumer.assign(names)
            ends = await ends_of(consumer, names)
            while not await has_read(consumer, ends):
                for name, records in (await consumer.getmany(timeout_ms=GET_MS_MAX)).items():
                    for record in records:
                        put(replayed[name], record.key or b"", record.value)
        for changelog, lines in zip(changelogs, self._lines.partitions, strict=True):
            written = {prefix + key: value for key, value in replayed[lines].items()}
            for number in range(self._plan.members):
                rows = self._rows(number, lines.partition)
                kept = {key: value for key, value in rows.items() if key not in (LOGS_KEY, POSITION_KEY)}
                self._problems += differences(f"member {number}, {changelog}", replayed[changelog], rows)
                self._problems += differences(f"member {number}, {lines}", written, kept)

    def _start(self, number: int, life: int) -> Member:
        disk = self._disks[number]
        disk.process_ended()
        process = self._stage.client(f"{self._plan.name} member {number} life {life}")
        member = Member(process, lambda: self._streams(process, self._folder(number), disk))
        process.start(lambda host: member.run())
        return member

    def _streams(self, process: SimulatedProcess, state: Path, disk: MemoryDisk) -> Streams:
        return Streams(
            keeping(self._lines.name),
            self._stage.cluster.bootstrap,
            application_id=self._plan.name,
            state_dir=state,
            host=process.host,
            open_stores=disk.open,
            client_id=process.name,
            **SETTINGS,
        )

    def problems(self) -> list[Problem]:
        lines = [*self._lines.problems(), *self._problems, *self._lives.defects]
        return [Problem(self._plan.kind, line) for line in lines]

    def counts(self) -> dict[str, int]:
        return {"records": len(self._lines.log), "lives": len(self._lives.ended), "deletions": self._deleted}


def keeping(lines: str) -> Topology:
    """Keeps the last value of each key."""

    def keep(record: Record[bytes, bytes], store: KeyValueStore[bytes, bytes]) -> None:
        assert record.key is not None
        if record.value is None:
            store.delete(record.key)
        else:
            store.put(record.key, record.value)

    topology = Topology()
    _ = topology.source(lines, key=BYTES, value=BYTES).process(keep, store=Store(STORE, BYTES, BYTES))
    return topology


def put(rows: dict[bytes, bytes], key: bytes, value: bytes | None) -> None:
    """Replay one record."""
    if value is None:
        rows.pop(key, None)
    else:
        rows[key] = value


def differences(where: str, wanted: Rows, found: Rows) -> list[str]:
    """What a store has, and should not, or the other way round."""
    return [
        f"{where}: {key!r} is {wanted.get(key)!r} there, and the store has {found.get(key)!r}"
        for key in sorted(wanted.keys() | found.keys())
        if wanted.get(key) != found.get(key)
    ]
