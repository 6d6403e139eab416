"""A group reads a topic: members join, leave in order, are killed and paused; each record is handled."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import Field

from strandline.auditing.checks import Finding
from strandline.auditing.history import Handled
from strandline.client.admin.admin import Admin
from strandline.errors import FencedInstanceId, StrandlineError
from strandline.host import Host
from strandline.ids import OFFSETS_TOPIC, TopicPartition
from strandline.simulation.cluster import KAFKA_PORT
from strandline_lab.auditing import commits, handling, member_ownership
from strandline_lab.auditing.commits import Committed
from strandline_lab.auditing.member_ownership import MemberHistory
from strandline_lab.auditing.ownership import GroupEvent
from strandline_lab.simulation.internal_topics import group_events
from strandline_lab.simulation.judging.judge import Problem
from strandline_lab.simulation.stage import SYNCED, Stage
from strandline_lab.simulation.workloads import removals
from strandline_lab.simulation.workloads.lives import Lives
from strandline_lab.simulation.workloads.member import MemberLife, MemberPlan, Membership, consumer_of
from strandline_lab.simulation.workloads.topic import ClosedTopic
from strandline_lab.simulation.workloads.workload import Count, Pause, Workload, WorkloadPlan, joined

Assignor = Literal["range", "roundrobin", "sticky", "cooperative-sticky"]
ASSIGNORS: Final[tuple[Assignor, ...]] = ("range", "roundrobin", "sticky")
RELEASED: Final = "cooperative-sticky"
"""The assignor of KIP-429 as it was released, which Kafka's clients have too."""
Protocol = Literal["eager", "cooperative", "mixed"]

LOOK_S: Final = 0.5
"""Between two looks at the committed offsets."""
STABLE: Final = "Stable"
FORMED_S_MAX: Final = 10.0
"""How long faults wait for a first generation: members come and go already."""


class Groups(WorkloadPlan, frozen=True):
    """One group, its topic, and who writes there."""

    kind: Literal["groups"] = "groups"
    partitions: Count
    """Of its topic."""
    writers: Count
    """Producers."""
    pause_s: Pause
    """Between two records of a writer, on average."""
    synced: bool
    """Each record and each committed offset is synced before it is acknowledged."""
    assignor: Assignor
    """Shares the partitions among the members."""
    members: Annotated[tuple[MemberPlan, ...], Field(min_length=1)]
    """Each of them has many lives."""
    change_s: Pause
    """Between two changes of its members, on average."""
    formed: bool = False
    """Faults begin once members own all partitions. Otherwise they often keep the group from that."""

    @staticmethod
    def drawn(random: Random, name: str) -> Groups:
        protocol: Protocol = random.choice(get_args(Protocol))
        static = random.choice((0.0, 0.0, 0.5, 1.0))
        return Groups(
            name=name,
            partitions=random.randint(1, 6),
            writers=random.randint(1, 2),
            pause_s=random.choice((0.1, 0.3)),
            synced=random.random() < 1 / 2,
            assignor=random.choice(ASSIGNORS),
            members=tuple(MemberPlan.drawn(random, protocol, static) for _ in range(random.randint(1, 4))),
            change_s=random.choice((0.5, 2.0, 8.0)),
        )

    @property
    def has_group(self) -> bool:
        return True

    @property
    def survives_power_loss(self) -> bool:
        return self.synced

    @property
    def broker_settings(self) -> dict[str, Any]:
        return {"kafka_port": KAFKA_PORT} if any(each.kafka for each in self.members) else {}

    def with_kafka_clients(self, random: Random) -> Groups:
        """The same with Kafka clients among the members. Under `range` these are eager, so all are."""
        members = []
        for each in self.members:
            given: dict[str, Any] = (
                {"protocol": "eager", "becomes": "eager"} if self.assignor != RELEASED else {}
            )
            if random.random() < 1 / 2:
                given |= {"kafka": True, "by_hand": True}
            members.append(each.model_copy(update=given))
        return self.model_copy(update={"members": tuple(members)})

    def formed_first(self) -> Groups:
        """The same with faults that wait for its first generation."""
        return self.model_copy(update={"formed": True})

    def left_mixed(self) -> Groups:
        """The same without the end of an upgrade: each member keeps its first protocol."""
        members = tuple(each.model_copy(update={"becomes": each.protocol}) for each in self.members)
        return self.model_copy(update={"members": members})

    def workload(self, stage: Stage) -> Workload:
        return _Group(self, stage)


class _Group(Workload):
    def __init__(self, plan: Groups, stage: Stage) -> None:
        self._plan = plan
        self._stage = stage
        self._group = f"{plan.name} group"
        self._topic = ClosedTopic(stage, plan.name, plan.partitions)
        self._admin = stage.client(f"{plan.name} admin")
        self._observer = stage.client(f"{plan.name} observer")
        self._written = asyncio.Event()
        """Every producer has finished."""
        self._over = asyncio.Event()
        """The group has nothing left to do."""
        self._lives = Lives(
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
        self._events: list[GroupEvent] = []

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
                while not self._shared:
                    await self._admin.host.clock.sleep(LOOK_S)

    async def finish(self) -> None:
        await self._written.wait()
        self._lives.resume()
        await self._admin.run(self._finish(self._admin.host))
        self._over.set()
        await self._lives.end()

    def _start(self, number: int, life: int) -> MemberLife:
        plan, member = self._plan, self._plan.members[number]
        name = f"{plan.name} member {number}"
        process = self._stage.client(f"{name} life {life}")
        recorder = self._topic.recorder(process.name)
        begun = MemberLife(member, name, process, recorder, self._stage, self._wrong)
        protocol = member.protocol if life == 1 else member.becomes
        among = Membership(self._group, plan.name, plan.partitions, plan.assignor, self._stage, self._wrong)
        process.start(
            lambda host: begun.run(consumer_of(member, name, process, protocol, among), host, plan.name)
        )
        return begun

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
        async with Admin(self._stage.cluster.bootstrap, host=host) as admin:
            while not await self._is_through(admin):
                await host.clock.sleep(LOOK_S)
        self._events = [each for each in await group_events(self._stage, host) if each.group == self._group]

    async def _is_through(self, admin: Admin) -> bool:
        """Everything is committed, and the members share the partitions: no instance has two of them."""
        if any(life.static for life in self._lives.doubles):
            return False
        try:
            offsets = await admin.group_offsets(self._group)
            state = (await admin.describe_group(self._group)).group.state
        except StrandlineError:
            return False
        done = {name: 0 if name not in offsets else offsets[name].offset for name in self._topic.partitions}
        if state != STABLE or any(
            done[TopicPartition(*name)] < end for name, (_, end) in self._topic.spans.items()
        ):
            return False
        return self._shared

    @property
    def _shared(self) -> bool:
        """Each partition has one owner."""
        owned = [name for life in self._lives.running for name in life.owned]
        return sorted(owned) == self._topic.partitions

    # --- judgement ---------------------------------------------------------------------------

    def problems(self) -> list[Problem]:
        histories = [
            MemberHistory(life.process.name, self._group, life.changes, ended_ms)
            for life, ended_ms in self._lives.ended
        ]
        instances = {life.process.name: life.name for life, _ in self._lives.ended if life.static}
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
            *member_ownership.findings(histories, removals.placed(self._events, histories, instances)),
            *commits.findings(self._committed, {self._group: handled}, log, acknowledged),
            *handling.findings(self._topic.histories),
        ]
        lines = self._topic.problems() + [each.sentence for each in found] + self._lives.defects
        lines += dict.fromkeys(self._wrong)
        lines += self._stopped()
        for place, offsets in log.items():
            if missing := sorted(set(offsets) - handled[place]):
                lines.append(
                    f"{place} has {len(missing)} records that nobody has handled, first {missing[0]}"
                )
        return [Problem(self._plan.kind, line) for line in lines]

    def _stopped(self) -> Iterator[str]:
        """Only the next life of a static member ends one, and partitions stop for a reason."""
        for life, error in self._lives.errors():
            if not (life.static and isinstance(error, FencedInstanceId)):
                yield f"{life.process.name} has ended for no reason: {error!r}"
        if said := self._lives.stops.too_many(self._lives.changes + self._stage.faults_begun):
            yield said

    def counts(self) -> dict[str, int]:
        return {
            "records": len(self._topic.log),
            "handled": sum(isinstance(e, Handled) for h in self._topic.histories for e in h.events),
            "lives": len(self._lives.ended),
            "changes of owners": sum(len(life.changes) for life, _ in self._lives.ended),
            **self._lives.counts("partitions"),
        }
