"""A group reads a topic that producers write: from its first member to the judgement of what it handled."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final, Generic, TypeVar

from pydantic import Field

from strandline.auditing.checks import Finding
from strandline.auditing.history import Handled
from strandline.auditing.recording import Recorder
from strandline.client.admin.admin import Admin
from strandline.errors import StrandlineError
from strandline.host import Host
from strandline.ids import OFFSETS_TOPIC, TopicPartition
from strandline.simulation.cluster import KAFKA_PORT
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline_lab.auditing import commits, handling
from strandline_lab.auditing.commits import Committed
from strandline_lab.simulation.judging.judge import Problem
from strandline_lab.simulation.stage import SYNCED, Stage
from strandline_lab.simulation.workloads.lives import Lives
from strandline_lab.simulation.workloads.reading.life import WorkerPlan, WorkingLife
from strandline_lab.simulation.workloads.topic import ClosedTopic
from strandline_lab.simulation.workloads.workload import Count, Pause, Workload, WorkloadPlan, joined

LOOK_S: Final = 0.5
"""Between two looks at the committed offsets."""
STABLE: Final = "Stable"
FORMED_S_MAX: Final = 10.0
"""How long faults wait until the members have all partitions: members come and go already."""


class GroupPlan(WorkloadPlan, frozen=True):
    """One group, the topic that it reads, and who writes there."""

    kind: str
    partitions: Count
    """Of the topic, at first."""
    writers: Count
    """Producers to it."""
    pause_s: Pause
    """Between two records of a writer, on average."""
    synced: bool
    """Each record and each committed offset is synced before it is acknowledged."""
    members: Annotated[tuple[WorkerPlan, ...], Field(min_length=1)]
    """Each of them has many lives."""
    change_s: Pause
    """Between two changes of the members, on average."""
    formed: bool = False
    """Faults begin once members own all partitions. Otherwise they often keep the group from that."""

    @property
    def has_group(self) -> bool:
        return True

    @property
    def survives_power_loss(self) -> bool:
        return self.synced

    @property
    def broker_settings(self) -> dict[str, Any]:
        return {"kafka_port": KAFKA_PORT} if any(each.kafka for each in self.members) else {}


PlanT = TypeVar("PlanT", bound=GroupPlan)
LifeT = TypeVar("LifeT", bound=WorkingLife)


class ReadingGroup(Workload, Generic[PlanT, LifeT]):
    """Subclasses begin the lives of members, and say what has to be true of these."""

    ends_static: tuple[type[StrandlineError], ...]
    """Errors with which another process of its instance ends a member. Any other ends none."""
    peace_s_max: float
    """From the end of faults and writes: until each partition has one owner, and all is committed."""

    def __init__(self, plan: PlanT, stage: Stage) -> None:
        self._plan = plan
        self._stage = stage
        self._group = f"{plan.name} group"
        self._topic = ClosedTopic(stage, plan.name, plan.partitions)
        self._admin = stage.client(f"{plan.name} admin")
        self._observer = stage.client(f"{plan.name} observer")
        self._written = asyncio.Event()
        """Every producer has finished, and the topics stay as they are."""
        self._over = asyncio.Event()
        """The group has nothing left to do."""
        self._lives: Lives[LifeT] = Lives(
            stage,
            f"{plan.name} members",
            len(plan.members),
            plan.change_s,
            self._start,
            doubles=True,
            holds=lambda life: map(str, life.owned),
        )
        self._committed: list[Committed] = []
        self._wrong: list[str] = []

    # --- what subclasses say -----------------------------------------------------------------

    @abstractmethod
    def _begin(self, number: int, life: int, process: SimulatedProcess, recorder: Recorder) -> LifeT:
        """Begins life `life`, from 1, of member `number`, as this process."""

    def _beside_writers(self) -> Iterable[Coroutine[Any, Any, None]]:
        """What else happens while records are written."""
        return ()

    async def _wanted(self, admin: Admin) -> Sequence[TopicPartition]:
        """What the members are to share once nothing changes, sorted. Raises StrandlineError."""
        return self._topic.partitions

    async def _look_back(self, host: Host) -> None:
        """Reads what the judgement needs, once all is handled."""

    def _findings(self) -> Iterable[Finding]:
        """What else was wrong with members."""
        return ()

    def _sentences(self) -> Iterable[str]:
        """What was wrong besides, in words."""
        return ()

    def _own_counts(self) -> Mapping[str, int]:
        return {}

    # --- the workload ------------------------------------------------------------------------

    async def prepare(self) -> None:
        await self._admin.run(self._prepare(self._admin.host))

    async def _prepare(self, host: Host) -> None:
        """The offsets of groups survive what the topic survives."""
        await self._topic.create(host, synced=self._plan.synced)
        if self._plan.synced:
            async with Admin(self._stage.cluster.bootstrap, host=host) as admin:
                await admin.group_offsets(self._group)  # this creates the topic
                await admin.alter_topic(OFFSETS_TOPIC, set=SYNCED)

    async def run(self) -> None:
        plan, topic = self._plan, self._topic
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._lives.run())
            tasks.create_task(joined(self._observer.run(self._observe(self._observer.host))))
            async with asyncio.TaskGroup() as writing:
                for other in self._beside_writers():
                    writing.create_task(other)
                for number in range(plan.writers):
                    client = self._stage.client(f"{plan.name} writer {number}")
                    written = client.run(topic.write(client.name, client.host, plan.pause_s))
                    writing.create_task(joined(written))
            self._written.set()

    async def begun(self) -> None:
        if not self._plan.formed:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(FORMED_S_MAX):
                while self._owned() != self._first_partitions:
                    await self._admin.host.clock.sleep(LOOK_S)

    async def finish(self) -> None:
        await self._written.wait()
        self._lives.resume()
        self._resumed()
        await self._admin.run(self._finish(self._admin.host))
        self._over.set()
        await self._lives.end()

    def _resumed(self) -> None:
        """No member is paused from here on."""

    def _start(self, number: int, life: int) -> LifeT:
        process = self._stage.client(f"{self._name_of(number)} life {life}")
        return self._begin(number, life, process, self._topic.recorder(process.name))

    def _name_of(self, number: int) -> str:
        return f"{self._plan.name} member {number}"

    # --- what is seen ------------------------------------------------------------------------

    async def _observe(self, host: Host) -> None:
        async with Admin(self._stage.cluster.bootstrap, host=host) as admin:
            while not self._over.is_set():
                with suppress(StrandlineError):
                    offsets = await admin.group_offsets(self._group)
                    now_ms = int(self._stage.now_s * 1000)
                    # A lost offset counts as one that fell.
                    reached = {p: o.offset for p, o in offsets.items()}
                    self._committed += [
                        Committed(now_ms, self._group, *place, reached.get(place, 0))
                        for place in self._topic.partitions
                    ]
                await asyncio.sleep(LOOK_S)

    async def _finish(self, host: Host) -> None:
        await self._topic.read_all(host)
        await self._until_peace(host)
        await self._look_back(host)

    async def _until_peace(self, host: Host) -> None:
        until_s = self._stage.now_s + self.peace_s_max
        async with Admin(self._stage.cluster.bootstrap, host=host) as admin:
            while missing := await self._missing(admin):
                self._stage.awaited = f"{self._group}: {missing}"
                if self._stage.now_s > until_s:
                    self._wrong.append(f"after {self.peace_s_max:g} s at peace {missing}")
                    return
                await host.clock.sleep(LOOK_S)

    async def _missing(self, admin: Admin) -> str:
        """Empty once everything is committed, and the members share the partitions: no instance has two of
        them."""
        if any(life.static for life in self._lives.doubles):
            return "an instance has two processes"
        try:
            offsets = await admin.group_offsets(self._group)
            state = (await admin.describe_group(self._group)).group.state
            wanted = await self._wanted(admin)
        except StrandlineError as error:
            return repr(error)
        done = {name: 0 if name not in offsets else offsets[name].offset for name in self._topic.partitions}
        behind = [name for name, (_, end) in self._topic.spans.items() if done[TopicPartition(*name)] < end]
        if state != STABLE:
            return f"the group is {state}"
        if self._owned() != wanted:
            return "not every partition has one owner"
        return f"not all of {behind} is committed" if behind else ""

    def _owned(self) -> list[TopicPartition]:
        """Of all members, sorted. A partition with two owners stands here twice."""
        return sorted(name for life in self._lives.running for name in life.owned)

    @property
    def _first_partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self._topic.name, number) for number in range(self._plan.partitions)]

    # --- judgement ---------------------------------------------------------------------------

    def problems(self) -> list[Problem]:
        acknowledged = [commit for life, _ in self._lives.ended for commit in life.acknowledged]
        handled: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
        for history in self._topic.histories:
            for event in history.events:
                if isinstance(event, Handled):
                    handled[event.topic, event.partition].add(event.offset)
        log: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        for record in self._topic.log:
            log[record.topic, record.partition].append(record.offset)
        found: list[Finding] = [
            *self._findings(),
            *commits.findings(self._committed, {self._group: handled}, log, acknowledged),
            *handling.findings(self._topic.histories),
        ]
        lines = self._topic.problems() + [each.sentence for each in found] + self._lives.defects
        lines += dict.fromkeys(self._wrong)
        lines += self._ended()
        lines += self._sentences()
        for place, offsets in log.items():
            if missing := sorted(set(offsets) - handled[place]):
                lines.append(f"{place} has {len(missing)} records that no member handled, first {missing[0]}")
        return [Problem(self._plan.kind, line) for line in lines]

    def _ended(self) -> Iterator[str]:
        """Only another process of its instance ends a member."""
        for life, error in self._lives.errors():
            if not (life.static and isinstance(error, self.ends_static)):
                yield f"{life.process.name} has ended for no reason: {error!r}"

    def counts(self) -> dict[str, int]:
        return {
            "records": len(self._topic.log),
            "handled": sum(isinstance(e, Handled) for h in self._topic.histories for e in h.events),
            "lives": len(self._lives.ended),
            **self._own_counts(),
            **self._lives.counts("partitions"),
        }
