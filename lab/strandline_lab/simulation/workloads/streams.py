"""A stream application counts the lines of a topic, while its members leave, are killed and paused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from strandline.client.admin.admin import Admin
from strandline.consumer.consumer import Consumer
from strandline.host import Host
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline.streams.runtime.tasks.active import ProcessingFailed
from strandline.streams.storage.memory_stores import MemoryDisk
from strandline.streams.streams import Streams
from strandline_lab.simulation.judging.judge import Problem
from strandline_lab.simulation.judging.log_ends import LogEnds
from strandline_lab.simulation.stage import Stage
from strandline_lab.simulation.workloads.counting.member import Member
from strandline_lab.simulation.workloads.counting.reading import Names, Reading
from strandline_lab.simulation.workloads.counting.topology import COMPONENTS, counting
from strandline_lab.simulation.workloads.lives import Lives
from strandline_lab.simulation.workloads.topic import ClosedTopic, has_read
from strandline_lab.simulation.workloads.workload import Count, Pause, Workload, WorkloadPlan, joined

GET_MS_MAX: Final = 200
STATE_BYTES: Final = 8
USERS_FED: Final = 10
COMPONENTS_FED: Final = 4
LOOK_S: Final = 0.000_5
"""Between two looks for outputs."""
COMMIT_S_MAX: Final = 0.005
"""From the first copy of an output until its task has committed, if nothing is in the way."""
NOT_COMPACTED: Final = {"min.compaction.lag.ms": str(24 * 3600 * 1000)}
SETTINGS: Final[dict[str, Any]] = {
    "session_timeout_ms": 4_000,
    "heartbeat_interval_ms": 1_000,
    "commit_interval_ms": 200,
    "leave_timeout_ms": 15_000,
    "progress_interval_ms": 1_000,
}
EXACTLY_ONCE: Final[dict[str, Any]] = {
    "processing_guarantee": "exactly_once",
    "transaction_timeout_ms": 4_000,
}


class Counting(WorkloadPlan, frozen=True):
    """One application, its topics, and who writes there."""

    kind: Literal["counting"] = "counting"
    partitions: Count
    """Of the topic of lines and of that of counts."""
    pause_s: Pause
    """Between two lines, on average."""
    members: Count
    """Of the application. Each has many lives."""
    standbys: Annotated[int, Field(ge=0, le=10)]
    """Copies of each task's state, besides that of its owner."""
    acceptable_lag: Annotated[int, Field(ge=0)]
    """A learner is ready once its state is at most this number of records behind."""
    change_s: Pause
    """Between two changes of the members, on average."""
    exactly_once: bool = False
    """Commits are transactions, and the judge sees what is committed. No seed draws it."""

    @staticmethod
    def drawn(random: Random, name: str) -> Counting:
        return Counting(
            name=name,
            partitions=random.randint(1, 3),
            pause_s=random.choice((0.1, 0.3)),
            members=random.randint(1, 3),
            standbys=random.choice((0, 0, 1)),
            acceptable_lag=random.choice((0, 10, 1_000)),
            change_s=random.choice((2.0, 8.0, 30.0)),
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
    def __init__(self, plan: Counting, stage: Stage) -> None:
        self._plan = plan
        self._stage = stage
        self._lines = ClosedTopic(stage, f"{plan.name}-lines", plan.partitions)
        self._counts = ClosedTopic(stage, f"{plan.name}-counts", plan.partitions)
        self._names = Names(plan.name, self._lines.name, self._counts.name, plan.partitions)
        self._admin = stage.client(f"{plan.name} admin")
        self._disks = [MemoryDisk() for _ in range(plan.members)]
        self._lives = Lives(
            stage,
            f"{plan.name} members",
            plan.members,
            plan.change_s,
            self._start,
            moment=self._busy,
            holds=lambda member: member.runs,
        )
        self._ends = LogEnds(stage.cluster)
        self._reading = Reading(self._names, exactly_once=plan.exactly_once)
        self._written = asyncio.Event()
        """The producer has finished."""

    async def prepare(self) -> None:
        await self._admin.run(self._prepare(self._admin.host))

    async def _prepare(self, host: Host) -> None:
        """The judge looks at each commit of a changelog, so no changelog is compacted."""
        for topic in (self._lines, self._counts):
            await topic.create(host, synced=False)
        async with self._streams(self._admin, Path("/state/admin"), MemoryDisk()):
            pass  # it has created its topics
        async with Admin(self._stage.cluster.bootstrap, host=host) as admin:
            for changelog in (self._names.changelog(self._names.lines), self._names.changelog(COMPONENTS)):
                await admin.alter_topic(changelog, set=NOT_COMPACTED)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._lives.run())
            writer = self._stage.client(f"{self._plan.name} writer")
            written = self._lines.write(writer.name, writer.host, self._plan.pause_s, line=_line)
            await joined(writer.run(written))
            self._written.set()

    async def finish(self) -> None:
        await self._written.wait()
        self._lives.resume()
        await self._admin.run(self._lines.read_all(self._admin.host))
        await self._admin.run(self._read_all(self._admin.host))
        await self._lives.end()

    async def _busy(self, random: Random) -> None:
        """Outputs of a task have arrived, and its changelog has not all that they changed."""
        before, sleep = self._outputs_end(), self._admin.host.clock.sleep
        while self._outputs_end() == before and not self._stage.faults_ended.is_set():
            await sleep(LOOK_S)
        await sleep(random.uniform(0, COMMIT_S_MAX))

    def _outputs_end(self) -> int:
        """How many outputs there are, counted on all disks."""
        brokers = self._stage.cluster.broker_ids
        names = self._names.of(self._names.repartition)
        return sum(self._ends.end(broker, name) for broker in brokers for name in names)

    def _start(self, number: int, life: int) -> Member:
        disk = self._disks[number]
        disk.process_ended()
        process = self._stage.client(f"{self._plan.name} member {number} life {life}")
        member = Member(process, lambda: self._streams(process, Path(f"/state/{number}"), disk))
        process.start(lambda host: member.run())
        return member

    def _streams(self, process: SimulatedProcess, state: Path, disk: MemoryDisk) -> Streams:
        names, plan = self._names, self._plan
        topology = counting(
            names.lines,
            names.counts,
            state_bytes=STATE_BYTES,
            partitions=plan.partitions,
            look=lambda record: None,
        )
        return Streams(
            topology,
            self._stage.cluster.bootstrap,
            application_id=names.application,
            state_dir=state,
            host=process.host,
            open_stores=disk.open,
            client_id=process.name,
            num_standbys=plan.standbys,
            acceptable_lag=plan.acceptable_lag,
            **SETTINGS,
            **(EXACTLY_ONCE if plan.exactly_once else {}),
        )

    async def _read_all(self, host: Host) -> None:
        """Read all of the application's topics, once it has counted every line."""
        names, reading = self._names.everything, self._reading
        async with Consumer(
            self._stage.cluster.bootstrap,
            host=host,
            offset_reset="earliest",
            isolation_level="read_committed" if self._plan.exactly_once else "read_uncommitted",
        ) as consumer:
            consumer.assign(names)
            while True:
                for batch in await consumer.getbatches(timeout_ms=GET_MS_MAX):
                    reading.take(batch)
                ends = await consumer.end_offsets(names)
                if not reading.all_read(ends):
                    continue
                ends = await consumer.end_offsets(names)
                if await has_read(consumer, ends):
                    return

    def problems(self) -> list[Problem]:
        lines = [*self._lines.problems(), *self._reading.faults(), *self._lives.defects, *self._stopped()]
        return [Problem(self._plan.kind, line) for line in lines]

    def _stopped(self) -> Iterator[str]:
        """No input is made anew, and only an election with a loss cuts one; tasks stop for a reason."""
        cut = bool(self._stage.isr_history.losses())
        for member, error in self._lives.errors():
            if not (cut and isinstance(error, ProcessingFailed)):
                yield f"{member.process.name} has ended for no reason: {error!r}"
        if said := self._lives.stops.too_many(self._lives.changes + self._stage.faults_begun):
            yield said

    def counts(self) -> dict[str, int]:
        return {
            "records": len(self._lines.log),
            "lives": len(self._lives.ended),
            **self._lives.counts("tasks"),
        }


def _line(random: Random, unique: bytes) -> tuple[bytes, bytes]:
    """A user and a component."""
    return b"user-%d" % random.randrange(USERS_FED), b"component-%d" % random.randrange(COMPONENTS_FED)
