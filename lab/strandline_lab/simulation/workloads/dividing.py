"""An operator asks for what is too large for one write: topics of many partitions, and many topics at once.

The limits of a `multi` are small, so what is asked for is written in parts; faults hit between them. What is
answered with success is so. What fails may be so for each topic of the request, as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from strandline.client.admin.admin import Admin
from strandline.config.limits import KIB
from strandline.errors import StrandlineError
from strandline.host import Host
from strandline.ids import BrokerId, TopicPartition
from strandline.vocabulary.admin import NewTopic
from strandline_lab.simulation.judging.judge import Problem
from strandline_lab.simulation.stage import SYNCED, Stage
from strandline_lab.simulation.workloads.operator import AGAIN_S, Operation, Operator
from strandline_lab.simulation.workloads.workload import BROKERS_MIN, Count, Pause, Workload, WorkloadPlan

REPLICAS: Final = 2
"""So that each move by hand has a broker to go to."""
MULTI_KIB: Final = (72, 80)
"""`multi_bytes_max` of the controllers, in KiB: 64 are reserved, and a partition takes about 2."""


class Dividing(WorkloadPlan, frozen=True):
    """An operation every `pause_s` seconds on average, each on many partitions."""

    kind: Literal["dividing"] = "dividing"
    topics: Count
    """Its own, which it creates and deletes, some or all at once."""
    partitions: Count
    """Of each topic, at most."""
    pause_s: Pause
    """Between two operations, on average."""
    multi_kib: Annotated[int, Field(ge=MULTI_KIB[0], le=896)]
    """KiB of one `multi` of a controller, of which it reserves 64."""
    merged: Annotated[int, Field(ge=1, le=500)]
    """How many operations of several callers a process sends as one `multi`."""

    @staticmethod
    def drawn(random: Random, name: str) -> Dividing:
        return Dividing(
            name=name,
            topics=random.randint(2, 6),
            partitions=random.choice((8, 16, 24)),
            pause_s=random.choice((0.2, 1.0)),
            multi_kib=random.randint(*MULTI_KIB),
            merged=random.choice((1, 8, 20)),
        )

    @property
    def survives_power_loss(self) -> bool:
        return True  # it writes no records

    @property
    def controller_settings(self) -> dict[str, Any]:
        return {"multi_bytes_max": self.multi_kib * KIB}

    @property
    def operations_merged_max(self) -> int:
        return self.merged

    def workload(self, stage: Stage) -> Workload:
        return _Divider(self, stage)


class _Divider(Operator):
    def __init__(self, plan: Dividing, stage: Stage) -> None:
        super().__init__(plan.name, plan.pause_s, stage)
        self._plan = plan
        self._possible: dict[str, set[int]] = {f"{plan.name}-{n}": {0} for n in range(plan.topics)}
        """How many partitions each topic may have; 0: it does not exist."""
        self._placed: dict[TopicPartition, Sequence[int]] = {}
        """The replicas that partitions were given, and that nothing else may have changed since."""
        self._found: dict[str, int] = {}

    def problems(self) -> list[Problem]:
        found = [
            f"{topic} has {self._found[topic]} partitions, and by the answers one of {sorted(possible)}"
            for topic, possible in self._possible.items()
            if self._found[topic] not in possible
        ]
        return [Problem(self._plan.kind, line) for line in (*found, *self._wrong)]

    def counts(self) -> dict[str, int]:
        answered = self._done["answered"]
        failed = sum(self._done.values()) - answered
        return {"divided operations answered": answered, "divided operations failed": failed}

    # --- operations --------------------------------------------------------------------------

    def _kinds(self) -> Sequence[Operation]:
        return [self._create, self._create, self._grow, self._move, self._prefer, self._delete]

    async def _alter(
        self, topics: Sequence[str], becomes: Callable[[str, int], int], request: Awaitable[object]
    ) -> None:
        """Do the request, which has this effect on each of these topics."""
        after = {topic: {becomes(topic, each) for each in self._possible[topic]} for topic in topics}
        for topic in topics:
            self._possible[topic] |= after[topic]
            self._forget_places(topic)
        await request
        self._possible |= after

    def _forget_places(self, topic: str) -> None:
        self._placed = {name: replicas for name, replicas in self._placed.items() if name.topic != topic}

    def _some(self, fits: Callable[[set[int]], bool]) -> list[str]:
        """Some of its topics of which this may be so; none if there are none."""
        found = [topic for topic, possible in self._possible.items() if fits(possible)]
        return self._random.sample(found, self._random.randint(1, len(found))) if found else []

    async def _create(self, admin: Admin) -> None:
        counts = {
            topic: self._random.randint(1, self._plan.partitions)
            for topic in self._some(lambda possible: 0 in possible)
        }
        if counts:
            asked = [NewTopic(topic, count, REPLICAS, SYNCED) for topic, count in counts.items()]
            wait = self._random.random() < 1 / 2
            request = admin.create_topics(asked, wait=wait)
            await self._alter(list(counts), lambda topic, before: counts[topic], request)

    async def _delete(self, admin: Admin) -> None:
        topics = self._some(lambda possible: possible != {0})
        if topics:
            await self._alter(topics, lambda topic, before: 0, admin.delete_topics(topics))

    async def _grow(self, admin: Admin) -> None:
        topics = self._some(lambda possible: possible != {0})
        if topics:
            topic, count = topics[0], max(self._possible[topics[0]]) + self._plan.partitions
            if count > 2 * self._plan.partitions:
                return
            request = admin.alter_topic(topic, partitions=count)
            await self._alter([topic], lambda _, before: count if before else 0, request)

    async def _move(self, admin: Admin) -> None:
        """All partitions of some topics."""
        described = await admin.describe_topics(self._some(lambda possible: 0 not in possible))
        brokers = range(BROKERS_MIN)
        wanted: Mapping[TopicPartition, Sequence[BrokerId]] = {
            TopicPartition(topic.name, each.partition): [
                BrokerId(broker) for broker in self._random.sample(brokers, REPLICAS)
            ]
            for topic in described
            for each in topic.partitions
        }
        if wanted:
            for topic in described:
                self._forget_places(topic.name)
            _ = await admin.reassign(wanted)
            self._placed |= wanted

    # --- the end -----------------------------------------------------------------------------

    async def _end_moves(self, host: Host) -> None:
        while True:
            try:
                async with self._admin(host) as admin:
                    if not await admin.list_reassignments():
                        return
            except StrandlineError:
                pass
            await host.clock.sleep(AGAIN_S)

    async def _look(self, host: Host) -> None:
        async with self._admin(host) as admin:
            described = {topic.name: topic for topic in await admin.describe_topics()}
        for name in self._possible:
            self._found[name] = len(described[name].partitions) if name in described else 0
        now = {
            TopicPartition(topic.name, each.partition): list(each.replicas)
            for topic in described.values()
            for each in topic.partitions
        }
        self._wrong += [
            f"{name} was given the replicas {list(replicas)}, and has {now.get(name)}"
            for name, replicas in self._placed.items()
            if now.get(name) != list(replicas)
        ]
