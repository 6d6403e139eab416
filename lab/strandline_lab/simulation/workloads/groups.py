"""A group reads a topic: members join, leave in order, are killed and paused; each record is handled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import Field

from strandline.auditing.checks import Finding
from strandline.auditing.recording import Recorder
from strandline.errors import FencedInstanceId
from strandline.host import Host
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline_lab.auditing import member_ownership
from strandline_lab.auditing.member_ownership import MemberHistory
from strandline_lab.auditing.ownership import GroupEvent
from strandline_lab.simulation.internal_topics import group_events
from strandline_lab.simulation.stage import Stage
from strandline_lab.simulation.workloads import removals
from strandline_lab.simulation.workloads.member import MemberLife, MemberPlan, Membership, consumer_of
from strandline_lab.simulation.workloads.reading.group import GroupPlan, ReadingGroup
from strandline_lab.simulation.workloads.workload import Workload

Assignor = Literal["range", "roundrobin", "sticky", "cooperative-sticky"]
ASSIGNORS: Final[tuple[Assignor, ...]] = ("range", "roundrobin", "sticky")
RELEASED: Final = "cooperative-sticky"
"""The assignor of KIP-429 as it was released, which Kafka's clients have too."""
Protocol = Literal["eager", "cooperative", "mixed"]


class Groups(GroupPlan, frozen=True):
    """One group, its topic, and who writes there."""

    kind: Literal["groups"] = "groups"
    assignor: Assignor
    """Shares the partitions among the members."""
    members: Annotated[tuple[MemberPlan, ...], Field(min_length=1)]
    """Each of them has many lives."""

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


class _Group(ReadingGroup[Groups, MemberLife]):
    ends_static = (FencedInstanceId,)
    peace_s_max = math.inf

    def __init__(self, plan: Groups, stage: Stage) -> None:
        super().__init__(plan, stage)
        self._events: list[GroupEvent] = []

    def _begin(self, number: int, life: int, process: SimulatedProcess, recorder: Recorder) -> MemberLife:
        plan, name = self._plan, self._name_of(number)
        member = plan.members[number]
        begun = MemberLife(member, name, process, recorder, self._stage, self._wrong)
        protocol = member.protocol if life == 1 else member.becomes
        among = Membership(self._group, plan.name, plan.partitions, plan.assignor, self._stage, self._wrong)
        process.start(
            lambda host: begun.run(consumer_of(member, name, process, protocol, among), host, plan.name)
        )
        return begun

    async def _look_back(self, host: Host) -> None:
        self._events = [each for each in await group_events(self._stage, host) if each.group == self._group]

    def _findings(self) -> Iterable[Finding]:
        histories = [
            MemberHistory(life.process.name, self._group, life.changes, ended_ms)
            for life, ended_ms in self._lives.ended
        ]
        instances = {life.process.name: life.name for life, _ in self._lives.ended if life.static}
        return member_ownership.findings(histories, removals.placed(self._events, histories, instances))

    def _sentences(self) -> Iterator[str]:
        """Partitions stop for a reason."""
        if said := self._lives.stops.too_many(self._lives.changes + self._stage.faults_begun):
            yield said

    def _own_counts(self) -> Mapping[str, int]:
        return {"changes of owners": sum(len(life.changes) for life, _ in self._lives.ended)}
