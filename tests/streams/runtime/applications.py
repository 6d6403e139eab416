"""An application that counts words, whose members run in this process."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

from strandline import Admin, Producer
from strandline.streams import INTEGER, STRING, Record, Streams, TaskId, Topology
from tests.waiting import eventually

COUNTS: Final = "counts"
SETTLE_S: Final = 30.0
QUICK: Final = {
    "commit_interval_ms": 20,
    "topics_refresh_ms": 200,
    "heartbeat_interval_ms": 200,
    "progress_interval_ms": 50,
}

See = Callable[[Record[str, str]], None]


class Application:
    """Its records are its words: a record's key is counted. `see` is called with each before it is."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        self.id = f"app-{uuid4().hex[:8]}"
        self.source, self.sink = f"{self.id}-words", f"{self.id}-counts"
        self.changelog = f"{self.id}-{self.source}-changelog"
        self.admin = Admin(bootstrap)
        self.producer = Producer(bootstrap)
        self.members: list[Streams] = []
        self.written: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        await self.admin.start()
        await self.producer.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            await member.stop()
        await self.producer.stop()
        await self.admin.stop()

    async def create(self, partitions: int = 1) -> None:
        """Its topics."""
        await self.admin.create_topic(self.source, partitions)
        await self.admin.create_topic(self.sink)

    def topology(self, see: See = lambda record: None) -> Topology:
        def seen(record: Record[str, str]) -> Record[str, str]:
            see(record)
            return record

        topology = Topology()
        words = topology.source(self.source, key=STRING, value=STRING).map(seen)
        words.count(COUNTS, key=STRING).to(self.sink, key=STRING, value=INTEGER)
        return topology

    def member(
        self, see: See = lambda record: None, topology: Topology | None = None, **settings: Any
    ) -> Streams:
        """One that is not started yet."""
        given = {**QUICK, "application_id": self.id, "state_dir": self.folder, **settings}
        member = Streams(topology or self.topology(see), self.bootstrap, **given)
        self.members.append(member)
        return member

    async def start(self, see: See = lambda record: None, **settings: Any) -> Streams:
        member = self.member(see, **settings)
        await member.start()
        return member

    async def write(self, words: Iterable[str], partition: int | None = None) -> None:
        """All acknowledged on return."""
        words = list(words)
        sent = [
            await self.producer.send(self.source, b"", word.encode(), partition=partition) for word in words
        ]
        for future in sent:
            await future
        self.written.update(words)

    async def counted(self, *members: Streams) -> None:
        """Return once these members have counted all that was written, neither more nor less."""

        def right() -> bool:
            return found(*members) == self.written

        await eventually(right, deadline_s=SETTLE_S, what=f"{self.written} is counted")

    async def running(self, member: Streams, partitions: Iterable[int]) -> None:
        """Return once this one runs just these."""
        wanted = {TaskId(self.source, partition) for partition in partitions}
        await eventually(
            lambda: running(member) == wanted and not _between(member),
            deadline_s=SETTLE_S,
            what=f"{member} runs {wanted}",
        )


def found(*members: Streams) -> Counter[str]:
    """The members' committed state."""
    return Counter(dict(row for member in members for row in member.store(COUNTS).range()))


def running(member: Streams) -> set[TaskId]:
    return {status.task for status in member.tasks() if status.role == "running"}


def _between(member: Streams) -> bool:
    return any(status.role in ("restoring", "suspended") for status in member.tasks())


def words(count: int) -> Iterator[str]:
    return (f"word-{number % 7}" for number in range(count))


def others() -> set[asyncio.Task[Any]]:
    """All tasks of the loop but this one."""
    return asyncio.all_tasks() - {current for current in [asyncio.current_task()] if current is not None}
