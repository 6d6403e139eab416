"""Active tasks without an application: each over a changelog and a store as its predecessor left them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Coroutine, Generator, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self
from uuid import uuid4

from strandline import Admin, Consumer, Producer, TopicPartition
from strandline.adapters.system.clock import SystemClock
from strandline.client.core.positions import ReadLog
from strandline.client.reading.records import ConsumerRecord, FetchedBatch
from strandline.config.streams import StreamsSettings
from strandline.errors import UnexpectedOffset
from strandline.ids import TopicId
from strandline.records import Columns
from strandline.streams import INTEGER, STRING, TaskId, Topology
from strandline.streams.core.changelog import state_key
from strandline.streams.core.positions import Positions
from strandline.streams.restore.restorer import Restorer
from strandline.streams.runtime.tasks.active import ActiveTask
from strandline.streams.runtime.tasks.changelog_writer import ChangelogWriter
from strandline.streams.runtime.tasks.outputs import Outputs
from strandline.streams.storage.state import TaskState
from strandline.streams.storage.task_store import TaskStore

COUNTS: Final = "counts"
SINK: Final = "sink"
LOG: Final = ReadLog(TopicId("a" * 32), ((0, 3),), None)
"""That of the topics that are counted."""

Headers = tuple[tuple[str, bytes | None], ...]


def counting(source: str, sink: str) -> Topology:
    """Counts the occurrences of each key in `source`, and sends each change to `sink`."""
    topology = Topology()
    topology.source(source, key=STRING, value=STRING).count(COUNTS).to(sink, key=STRING, value=INTEGER)
    return topology


def columns_of(records: Iterable[ConsumerRecord]) -> Columns:
    """The records as a consumer hands them out by column."""
    _, _, *columns = map(list, zip(*records, strict=True))
    return Columns(*columns)


@dataclass(frozen=True, slots=True)
class Run:
    """One life of a task."""

    active: ActiveTask
    store: TaskStore
    source: TopicPartition

    @property
    def position(self) -> int:
        return self.active.positions()[self.source].offset

    def take(self, records: list[ConsumerRecord], *, most: int | None = None) -> int:
        """Process what it has not seen of these, `most` at most, until it wants to commit; its position."""
        left = records[self.position :][:most]
        if left:
            self.active.process(self.source, columns_of(left), 0, LOG)
        return self.position


@dataclass
class Counted:
    """A topic that is counted, and the changelog of its one task. Its records are made up."""

    bench: Bench
    topology: Topology
    id: str
    folders: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.subtopology = self.topology.build(self.id)[-1]
        assert self.subtopology.changelog is not None
        self.changelog = TopicPartition(self.subtopology.changelog, 0)
        self.source = TopicPartition(self.subtopology.topics[0], 0)
        self.sink = f"{self.id}-{SINK}"
        self.task = TaskId(self.subtopology.name, 0)

    async def begin(
        self, folder: str | None = None, *, commit_bytes: int = 1 << 20, changelogs: Producer | None = None
    ) -> Run:
        """A life: in a folder of its own unless one is named; what the changelog says is restored."""
        bench = self.bench
        store = bench.store(folder or f"{self.id}-{next(self.folders)}")
        end = await bench.restorer.begin(self.task, self.changelog, store).complete()
        settings = StreamsSettings(application_id=self.id, state_dir=bench.folder)
        positions = store.positions()
        positions.inputs.setdefault(self.source, LOG.at(0))
        active = ActiveTask(
            self.task,
            self.subtopology,
            state=TaskState(store),
            writer=ChangelogWriter(
                changelogs or bench.changelogs, self.changelog, end=end, settings=settings, clock=bench.clock
            ),
            positions=positions,
            outputs=Outputs(
                bench.outputs, self.subtopology.repartitions, settings=settings, clock=bench.clock
            ),
            commit_bytes=commit_bytes,
        )
        return Run(active, store, self.source)

    def records(
        self, keys: Iterable[str], *, headers: Iterable[Headers] | None = None
    ) -> list[ConsumerRecord]:
        """The records of the topic that is counted, from offset 0 on."""
        given = itertools.repeat(()) if headers is None else headers
        return [
            ConsumerRecord(self.source.topic, 0, offset, 1_000, key.encode(), b"", header)
            for offset, (key, header) in enumerate(zip(keys, given, strict=False))
        ]

    async def reported(self) -> list[tuple[str, int]]:
        """All that went to the sink, in order."""
        name = TopicPartition(self.sink, 0)
        async with Consumer(self.bench.bootstrap, offset_reset="earliest") as consumer:
            consumer.assign([name])
            end = (await consumer.end_offsets([name]))[name]
            reported: list[tuple[str, int]] = []
            while len(reported) < end:
                taken = await consumer.getmany(timeout_ms=1_000)
                for record in taken.get(name, []):
                    assert record.key is not None and record.value is not None
                    reported.append((record.key.decode(), INTEGER.decode(record.value)))
            return reported

    async def batches(self) -> list[FetchedBatch]:
        """What the sink has, as it was written."""
        name = TopicPartition(self.sink, 0)
        async with Consumer(self.bench.bootstrap, offset_reset="earliest") as consumer:
            consumer.assign([name])
            end = (await consumer.end_offsets([name]))[name]
            found: list[FetchedBatch] = []
            while not found or found[-1].next_offset < end:
                found += await consumer.getbatches(timeout_ms=1_000)
            return found

    async def restored(self) -> tuple[dict[str, int], Positions]:
        """The state that a restore at this moment would find."""
        store = self.bench.store(f"{self.id}-{next(self.folders)}")
        await self.bench.restorer.begin(self.task, self.changelog, store).complete()
        return counts(store), store.positions()


class Bench:
    """Clients that all tasks of a test share."""

    def __init__(self, bootstrap: str, folder: Path, opened: AsyncExitStack) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        self.clock = SystemClock()
        # It sends nothing before it is flushed, so what is there was.
        self.outputs = Producer(bootstrap, gapless=True, linger_ms=60_000)
        self.changelogs = Producer(bootstrap)
        self.restorer = Restorer(bootstrap, settings={})
        self.admin = Admin(bootstrap)
        self.opened = opened

    @classmethod
    async def open(cls, bootstrap: str, folder: Path, opened: AsyncExitStack) -> Self:
        bench = cls(bootstrap, folder, opened)
        for client in (bench.outputs, bench.changelogs, bench.restorer, bench.admin):
            await opened.enter_async_context(client)
        return bench

    def store(self, folder: str) -> TaskStore:
        """Closed at the end of the test, if not before."""
        store = TaskStore.open(self.folder / folder, "a changelog")
        self.opened.callback(store.close)
        return store

    async def counted(self) -> Counted:
        """With an empty changelog, and a sink."""
        app = f"app-{uuid4().hex[:8]}"
        counted = Counted(self, counting(f"{app}-source", f"{app}-{SINK}"), app)
        await self._create(counted)
        return counted

    async def counted_behind_a_repartition(self) -> Counted:
        """The same of what another task would repartition."""
        app = f"app-{uuid4().hex[:8]}"
        topology = Topology()
        again = topology.source(f"{app}-lines", key=STRING, value=STRING).repartition(
            "again", key=STRING, value=STRING
        )
        again.count(COUNTS).to(f"{app}-{SINK}", key=STRING, value=INTEGER)
        counted = Counted(self, topology, app)
        assert counted.subtopology.reads_repartition
        await self._create(counted)
        return counted

    async def _create(self, counted: Counted) -> None:
        await self.admin.create_topic(counted.changelog.topic, 1, 1, {"cleanup.policy": "compact"})
        await self.admin.create_topic(counted.sink, 1)


def counts(store: TaskStore) -> dict[str, int]:
    prefix = state_key(COUNTS, b"")
    return {
        key[len(prefix) :].decode(): INTEGER.decode(value)
        for key, value in store.range(prefix, None)
        if key.startswith(prefix)
    }


class Dies(Awaitable[bool]):
    """Does this work until it would wait for the time number `at`, and no further: as if its process had died
    there. True if it came to its end before."""

    def __init__(self, work: Coroutine[Any, Any, None], at: int) -> None:
        self._work = work
        self._at = at

    def __await__(self) -> Generator[Any, None, bool]:
        for _ in range(self._at):
            try:
                waits = self._work.send(None)
            except StopIteration:
                return True
            yield waits
        try:
            self._work.send(None)
        except StopIteration:
            return True
        try:
            self._work.throw(asyncio.CancelledError())
        except asyncio.CancelledError:
            return False
        raise AssertionError("it continues though it is dead")


async def refused(work: Awaitable[None]) -> bool:
    """True if another writer has extended the changelog."""
    try:
        await work
    except UnexpectedOffset:
        return True
    return False
