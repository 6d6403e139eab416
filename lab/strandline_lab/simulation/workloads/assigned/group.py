"""A group whose coordinator assigns reads a topic that stays, and others that come and go.

Its members join, leave in order, are killed, paused and doubled; each record of the topic that stays is
handled.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from strandline.auditing.checks import Finding
from strandline.auditing.history import Handled
from strandline.client.admin.admin import Admin
from strandline.errors import FencedInstanceId, StrandlineError, UnreleasedInstanceId
from strandline.host import Host
from strandline.ids import OFFSETS_TOPIC, TopicPartition
from strandline.simulation.cluster import KAFKA_PORT
from strandline_lab.auditing import commits, handling
from strandline_lab.auditing.commits import Committed
from strandline_lab.simulation.judging.judge import Problem
from strandline_lab.simulation.member_records import MemberRecord
from strandline_lab.simulation.stage import SYNCED, Stage
from strandline_lab.simulation.workloads.assigned import ownership
from strandline_lab.simulation.workloads.assigned.decisions import Written, findings
from strandline_lab.simulation.workloads.assigned.member import Among, AssignedLife, AssignedMember
from strandline_lab.simulation.workloads.assigned.timing import (
    INTERVAL_MS,
    PEACE_S_MAX,
    RECONCILE_MS,
    SESSION_MS,
)
from strandline_lab.simulation.workloads.assigned.topics import ChangingTopics
from strandline_lab.simulation.workloads.assigned.written import decisions
from strandline_lab.simulation.workloads.lives import Lives
from strandline_lab.simulation.workloads.topic import ClosedTopic
from strandline_lab.simulation.workloads.workload import Count, Pause, Workload, WorkloadPlan, joined

MEMBERS_MAX: Final = 5
PARTITIONS_MAX: Final = 6
OTHERS_MAX: Final = 3
LOOK_S: Final = 0.5
"""Between two looks at the committed offsets."""
STABLE: Final = "Stable"
FORMED_S_MAX: Final = 10.0
"""How long faults wait until the members have all partitions: members come and go already."""


class Assigned(WorkloadPlan, frozen=True):
    """One group, its topics, and who writes there."""

    kind: Literal["assigned"] = "assigned"
    partitions: Count
    """Of the topic that stays, at first; it grows."""
    others: Annotated[int, Field(ge=0, le=100)]
    """Topics that are made, grow, are deleted, and are made anew."""
    writers: Count
    """Producers to the topic that stays."""
    pause_s: Pause
    """Between two records of a writer, on average."""
    synced: bool
    """Each record and each committed offset is synced before it is acknowledged."""
    members: Annotated[tuple[AssignedMember, ...], Field(min_length=1)]
    """Each of them has many lives."""
    change_s: Pause
    """Between two changes of the members, on average."""
    topics_change_s: Pause
    """Between two changes of the topics, on average."""
    formed: bool
    """Faults begin once members own all partitions."""

    @staticmethod
    def drawn(random: Random, name: str) -> Assigned:
        static = random.choice((0.0, 0.0, 0.5, 1.0))
        return Assigned(
            name=name,
            partitions=random.randint(1, PARTITIONS_MAX),
            others=random.randint(0, OTHERS_MAX),
            writers=random.randint(1, 2),
            pause_s=random.choice((0.1, 0.3)),
            synced=random.random() < 1 / 2,
            members=tuple(
                AssignedMember.drawn(random, static) for _ in range(random.randint(2, MEMBERS_MAX))
            ),
            change_s=random.choice((0.5, 2.0, 8.0)),
            topics_change_s=random.choice((1.0, 4.0)),
            formed=random.random() < 2 / 3,
        )

    @property
    def has_group(self) -> bool:
        return True

    @property
    def survives_power_loss(self) -> bool:
        return self.synced

    @property
    def broker_settings(self) -> dict[str, Any]:
        kafka = {"kafka_port": KAFKA_PORT} if any(each.kafka for each in self.members) else {}
        return kafka | {
            "group_consumer_session_timeout_ms": SESSION_MS,
            "group_consumer_heartbeat_interval_ms": INTERVAL_MS,
            "reconcile_ms": RECONCILE_MS,
        }

    def workload(self, stage: Stage) -> Workload:
        return _Group(self, stage)


class _Group(Workload):
    def __init__(self, plan: Assigned, stage: Stage) -> None:
        self._plan = plan
        self._stage = stage
        self._topic = ClosedTopic(stage, plan.name, plan.partitions)
        others = tuple(f"{plan.name}-other-{number}" for number in range(plan.others))
        self._changing = ChangingTopics(stage, plan.name, self._topic, others)
        self._wrong: list[str] = []
        self._among = Among(f"{plan.name} group", plan.name, others, stage, self._wrong)
        self._admin = stage.client(f"{plan.name} admin")
        self._observer = stage.client(f"{plan.name} observer")
        self._operator = stage.client(f"{plan.name} operator")
        self._written = asyncio.Event()
        """Every producer has finished, and the topics stay as they are."""
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
        self._decided: list[Written] = []
        """What coordinators wrote of the group."""

    async def prepare(self) -> None:
        await self._admin.run(self._prepare(self._admin.host))

    async def _prepare(self, host: Host) -> None:
        """The offsets of groups survive what the topic survives."""
        await self._topic.create(host, synced=self._plan.synced)
        if self._plan.synced:
            async with Admin(self._stage.cluster.bootstrap, host=host) as admin:
                await admin.group_offsets(self._among.group)  # this creates the topic
                await admin.alter_topic(OFFSETS_TOPIC, set=SYNCED)

    async def run(self) -> None:
        plan, topic = self._plan, self._topic
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._lives.run())
            tasks.create_task(joined(self._observer.run(self._observe(self._observer.host))))
            async with asyncio.TaskGroup() as writing:
                changes = self._changing.run(self._operator.host, plan.topics_change_s)
                writing.create_task(joined(self._operator.run(changes)))
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
                while not self._shared(dict.fromkeys([self._topic.name], self._plan.partitions)):
                    await self._admin.host.clock.sleep(LOOK_S)

    async def finish(self) -> None:
        await self._written.wait()
        self._lives.resume()
        for life in self._lives.doubles:
            if life.static:
                life.leave.set()  # as long as it is there, its instance is not free
        await self._admin.run(self._finish(self._admin.host))
        self._over.set()
        await self._lives.end()

    def _start(self, number: int, life: int) -> AssignedLife:
        name = f"{self._plan.name} member {number}"
        process = self._stage.client(f"{name} life {life}")
        recorder = self._topic.recorder(process.name)
        begun = AssignedLife(self._plan.members[number], name, process, recorder, self._among)
        process.start(begun.run)
        process.ended.add_done_callback(lambda _: begun.record.ends())
        return begun

    # --- what is seen ------------------------------------------------------------------------

    async def _observe(self, host: Host) -> None:
        async with Admin(self._stage.cluster.bootstrap, host=host) as admin:
            while not self._over.is_set():
                with suppress(StrandlineError):
                    offsets = await admin.group_offsets(self._among.group)
                    now_ms = int(self._stage.now_s * 1000)
                    # A lost offset counts as one that fell.
                    reached = {p: o.offset for p, o in offsets.items()}
                    self._committed += [
                        Committed(now_ms, self._among.group, *place, reached.get(place, 0))
                        for place in self._topic.partitions
                    ]
                await asyncio.sleep(LOOK_S)

    async def _finish(self, host: Host) -> None:
        await self._topic.read_all(host)
        await self._until_peace(host)
        self._decided = await decisions(self._stage, host, self._among.group)

    async def _until_peace(self, host: Host) -> None:
        until_s = self._stage.now_s + PEACE_S_MAX
        async with Admin(self._stage.cluster.bootstrap, host=host) as admin:
            while missing := await self._missing(admin):
                self._stage.awaited = f"{self._among.group}: {missing}"
                if self._stage.now_s > until_s:
                    self._wrong.append(f"after {PEACE_S_MAX:g} s at peace {missing}")
                    return
                await host.clock.sleep(LOOK_S)

    async def _missing(self, admin: Admin) -> str:
        """Empty once everything is committed, and the members share the partitions: no instance has two of
        them."""
        if any(life.static for life in self._lives.doubles):
            return "an instance has two processes"
        try:
            offsets = await admin.group_offsets(self._among.group)
            state = (await admin.describe_group(self._among.group)).group.state
            there = {topic.name: len(topic.partitions) for topic in (await admin.metadata()).topics}
        except StrandlineError as error:
            return repr(error)
        done = {name: 0 if name not in offsets else offsets[name].offset for name in self._topic.partitions}
        behind = [name for name, (_, end) in self._topic.spans.items() if done[TopicPartition(*name)] < end]
        if state != STABLE:
            return f"the group is {state}"
        if not self._shared({name: count for name, count in there.items() if self._wanted(name)}):
            return "not every partition has one owner"
        return f"not all of {behind} is committed" if behind else ""

    def _wanted(self, topic: str) -> bool:
        """Whether a member subscribes to this topic."""
        of_group = topic in (self._topic.name, *self._among.others)
        return of_group and any(life.wants(topic) for life in self._lives.running)

    def _shared(self, topics: dict[str, int]) -> bool:
        """Each partition has one owner."""
        owned = [name for life in self._lives.running for name in life.owned]
        return sorted(owned) == sorted(
            TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)
        )

    # --- judgement ---------------------------------------------------------------------------

    def problems(self) -> list[Problem]:
        lives = [life for life, _ in self._lives.ended]
        acknowledged = [commit for life in lives for commit in life.acknowledged]
        handled: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
        for history in self._topic.histories:
            for event in history.events:
                if isinstance(event, Handled):
                    handled[event.topic, event.partition].add(event.offset)
        log: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        for record in self._topic.log:
            log[record.topic, record.partition].append(record.offset)
        found: list[Finding] = [
            *commits.findings(self._committed, {self._among.group: handled}, log, acknowledged),
            *handling.findings(self._topic.histories),
        ]
        lines = self._topic.problems() + [each.sentence for each in found] + self._lives.defects
        lines += dict.fromkeys(self._wrong)
        lines += self._ended()
        lines += self._misassigned([life.record for life in lives])
        for place, offsets in log.items():
            if missing := sorted(set(offsets) - handled[place]):
                lines.append(f"{place} has {len(missing)} records that no member handled, first {missing[0]}")
        return [Problem(self._plan.kind, line) for line in lines]

    def _misassigned(self, records: list[MemberRecord]) -> Iterator[str]:
        """What coordinators knew may be lost by design, and then that of members is gone too."""
        lossy = self._stage.isr_history.losses()
        if any(topic == OFFSETS_TOPIC for topic, _ in lossy):
            return
        yield from ownership.two_owners(records)
        yield from ownership.unsaid(records)
        yield from ownership.fallen_epochs(records)
        yield from findings(self._decided, [each for record in records for each in record.commits])

    def _ended(self) -> Iterator[str]:
        """Only another process of its instance ends a member."""
        for life, error in self._lives.errors():
            if not (life.static and isinstance(error, FencedInstanceId | UnreleasedInstanceId)):
                yield f"{life.process.name} has ended for no reason: {error!r}"

    def counts(self) -> dict[str, int]:
        return {
            "records": len(self._topic.log),
            "handled": sum(isinstance(e, Handled) for h in self._topic.histories for e in h.events),
            "decisions": len(self._decided),
            "lives": len(self._lives.ended),
            "heartbeats": sum(len(life.record.beats) for life, _ in self._lives.ended),
            "partitions given": sum(len(life.record.held) for life, _ in self._lives.ended),
            **{f"topics {kind}": count for kind, count in self._changing.done.items()},
            **self._lives.counts("partitions"),
        }
