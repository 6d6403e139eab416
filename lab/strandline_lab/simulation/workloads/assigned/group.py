"""A group whose coordinator assigns reads a topic that stays, and others that come and go.

Its members join, leave in order, are killed, paused and doubled; each record of the topic that stays is
handled.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from random import Random
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from strandline.auditing.recording import Recorder
from strandline.client.admin.admin import Admin
from strandline.errors import FencedInstanceId, UnreleasedInstanceId
from strandline.host import Host
from strandline.ids import OFFSETS_TOPIC, TopicPartition
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline_lab.simulation.stage import Stage
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
from strandline_lab.simulation.workloads.reading.group import GroupPlan, ReadingGroup
from strandline_lab.simulation.workloads.workload import Pause, Workload, joined

MEMBERS_MAX: Final = 5
PARTITIONS_MAX: Final = 6
OTHERS_MAX: Final = 3


class Assigned(GroupPlan, frozen=True):
    """One group, its topics, and who writes there."""

    kind: Literal["assigned"] = "assigned"
    others: Annotated[int, Field(ge=0, le=100)]
    """Topics that are made, grow, are deleted, and are made anew; the one that stays grows."""
    members: Annotated[tuple[AssignedMember, ...], Field(min_length=1)]
    """Each of them has many lives."""
    topics_change_s: Pause
    """Between two changes of the topics, on average."""

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
    def broker_settings(self) -> dict[str, Any]:
        return super().broker_settings | {
            "group_consumer_session_timeout_ms": SESSION_MS,
            "group_consumer_heartbeat_interval_ms": INTERVAL_MS,
            "reconcile_ms": RECONCILE_MS,
        }

    def workload(self, stage: Stage) -> Workload:
        return _Group(self, stage)


class _Group(ReadingGroup[Assigned, AssignedLife]):
    ends_static = (FencedInstanceId, UnreleasedInstanceId)
    peace_s_max = PEACE_S_MAX

    def __init__(self, plan: Assigned, stage: Stage) -> None:
        super().__init__(plan, stage)
        others = tuple(f"{plan.name}-other-{number}" for number in range(plan.others))
        self._changing = ChangingTopics(stage, plan.name, self._topic, others)
        self._among = Among(self._group, plan.name, others, stage, self._wrong)
        self._operator = stage.client(f"{plan.name} operator")
        self._decided: list[Written] = []
        """What coordinators wrote of the group."""

    def _begin(self, number: int, life: int, process: SimulatedProcess, recorder: Recorder) -> AssignedLife:
        member, name = self._plan.members[number], self._name_of(number)
        begun = AssignedLife(member, name, process, recorder, self._among)
        process.start(begun.run)
        process.ended.add_done_callback(lambda _: begun.record.ends())
        return begun

    def _beside_writers(self) -> Iterator[Coroutine[Any, Any, None]]:
        changes = self._changing.run(self._operator.host, self._plan.topics_change_s)
        yield joined(self._operator.run(changes))

    def _resumed(self) -> None:
        for life in self._lives.doubles:
            if life.static:
                life.leave.set()  # as long as it is there, its instance is not free

    async def _wanted(self, admin: Admin) -> Sequence[TopicPartition]:
        of_group = (self._topic.name, *self._among.others)
        return sorted(
            TopicPartition(topic.name, number)
            for topic in (await admin.metadata()).topics
            if topic.name in of_group and any(life.wants(topic.name) for life in self._lives.running)
            for number in range(len(topic.partitions))
        )

    async def _look_back(self, host: Host) -> None:
        self._decided = await decisions(self._stage, host, self._group)

    def _sentences(self) -> Iterator[str]:
        """What coordinators knew may be lost by design, and then that of members is gone too."""
        lossy = self._stage.isr_history.losses()
        if any(topic == OFFSETS_TOPIC for topic, _ in lossy):
            return
        records = [life.record for life, _ in self._lives.ended]
        yield from ownership.two_owners(records)
        yield from ownership.unsaid(records)
        yield from ownership.fallen_epochs(records)
        yield from findings(self._decided, [each for record in records for each in record.commits])

    def _own_counts(self) -> Mapping[str, int]:
        lives = [life for life, _ in self._lives.ended]
        return {
            "decisions": len(self._decided),
            "heartbeats": sum(len(life.record.beats) for life in lives),
            "partitions given": sum(len(life.record.held) for life in lives),
            **{f"topics {kind}": count for kind, count in self._changing.done.items()},
        }
