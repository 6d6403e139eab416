"""Plans what to move off a drained broker: leaderships, and replicas if the drain includes them.

A drain is a state and this is its step: from the present state it computes the next moves, so that any
controller can continue it, and the partitions that cannot move, with reasons. No move is requested twice:
once a leadership has moved the survey differs, and a replica that moves has a reassignment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from strandline.controller.core.placement import ReplicaAssignment
from strandline.controller.core.survey import Survey, SurveyedPartition
from strandline.ids import BrokerId
from strandline.vocabulary.admin import DrainProgress
from strandline.vocabulary.metadata import Reassignment
from strandline.vocabulary.state_changes import AskedBy


@dataclass(frozen=True, slots=True)
class LeadershipMove:
    """A drained leader, and the in-sync replica that takes over."""

    partition: SurveyedPartition
    give_to: BrokerId
    by: AskedBy | None
    """Who asked for the drain."""


@dataclass(frozen=True, slots=True)
class ReplicaMove:
    """A partition with a replica on a broker that is emptied, and its new AR."""

    partition: SurveyedPartition
    replicas: ReplicaAssignment
    throttle_bytes_per_s: int
    by: AskedBy | None
    """Who asked for the drain; for that of the first emptied broker in AR order, if there are several."""


@dataclass(frozen=True, slots=True)
class DrainPlan:
    leaderships: Sequence[LeadershipMove]
    replicas: Sequence[ReplicaMove]
    progress: Mapping[BrokerId, DrainProgress]
    leaving: Collection[BrokerId]
    """Brokers whose replicas are drained, and that have one whose partition moves now."""
    busy: Collection[BrokerId]
    """Drained brokers that have moves under way, or moves that can begin now."""


def plan_drains(survey: Survey, *, moving_max: int) -> DrainPlan:
    """The next step of all drains in force. At most `moving_max` partitions move replicas at a time."""
    return _Planner(survey, moving_max).plan()


def ended_by_restart(survey: Survey) -> Sequence[BrokerId]:
    """The brokers that were to be drained until their restart, and live another life now."""
    return [
        broker
        for broker, drain in survey.drains.items()
        if drain.until_restart and broker in survey.live and survey.live[broker].epoch != drain.broker_epoch
    ]


class _Planner:
    def __init__(self, survey: Survey, moving_max: int) -> None:
        self._survey = survey
        self._drained = {broker for broker in survey.drains if survey.is_drained(broker)}
        self._emptied = {broker for broker in self._drained if survey.is_emptied(broker)}
        self._problems: dict[BrokerId, list[str]] = {broker: [] for broker in self._drained}
        self._permanent: dict[BrokerId, list[str]] = {broker: [] for broker in self._drained}
        self._leads: Counter[BrokerId] = Counter()
        self._has: Counter[BrokerId] = Counter()
        self._load: Counter[BrokerId] = Counter()
        self._room = moving_max
        for partition in survey.partitions:
            self._load.update({*partition.assigned, *partition.wanted})
            self._room -= partition.reassignment is not None

    def plan(self) -> DrainPlan:
        leaderships: list[LeadershipMove] = []
        replicas: list[ReplicaMove] = []
        for partition in self._survey.partitions if self._drained else ():
            if self._survey.is_led(partition):
                self._leads[partition.state.leader] += 1
            self._has.update(partition.assigned)
            if partition.state.leader in self._drained:
                leaderships += self._move_leadership(partition)
            if not self._emptied.isdisjoint(partition.assigned):
                replicas += self._move_replicas(partition)
        progress = {
            broker: DrainProgress(
                self._leads[broker],
                self._has[broker],
                [*problems, *self._permanent[broker]],
                len(self._permanent[broker]),
            )
            for broker, problems in sorted(self._problems.items())
        }
        leaving = {
            broker
            for partition in self._survey.partitions
            if partition.reassignment is not None
            for broker in self._emptied.intersection(partition.assigned)
        }
        beginning = (each.partition.assigned for each in replicas)
        busy = {each.partition.state.leader for each in leaderships}
        busy |= leaving.union(*(self._emptied.intersection(assigned) for assigned in beginning))
        return DrainPlan(leaderships, replicas, progress, leaving, busy)

    def _move_leadership(self, partition: SurveyedPartition) -> list[LeadershipMove]:
        """Moves it to the first other replica in AR order that may lead now."""
        leader = partition.state.leader
        if not self._survey.is_led(partition):
            if self._survey.may_be_led(partition) or leader in self._emptied:
                return []  # it elects a leader by itself; emptied brokers get the problem with their replicas
            self._problems[leader].append(
                f"{partition} cannot be led by another: {self._why_not_led(partition)}"
            )
            return []
        for broker in partition.assigned:
            if broker != leader and broker not in self._drained and self._survey.is_live(partition, broker):
                return [LeadershipMove(partition, broker, self._survey.drains[leader].by)]
        if partition.assigned == partition.wanted == (leader,) and leader not in self._emptied:
            self._permanent[leader].append(f"{partition} cannot be led by another: it has no other replica")
            return []
        self._problems[leader].append(
            f"{partition} cannot be led by another: its ISR is {_listed(partition.state.isr_ids)} of the "
            f"replicas {_listed(partition.assigned)}, and no other of them is alive, in sync and not drained"
        )
        return []

    def _move_replicas(self, partition: SurveyedPartition) -> list[ReplicaMove]:
        leaving = [broker for broker in partition.assigned if broker in self._emptied]
        if partition.reassignment is not None:
            if stays := self._emptied.intersection(partition.wanted):
                self._add_problem(
                    stays,
                    f"{partition} is being reassigned to {_listed(partition.wanted)}: it moves after that",
                )
                return []
            if (obstacle := self._obstacle(partition)) is not None:
                self._add_problem(
                    leaving, f"{partition} moves to {_listed(partition.wanted)}, but {obstacle}"
                )
            return self._throttled(partition, partition.reassignment, leaving)
        if not self._survey.may_be_led(partition):
            self._add_problem(leaving, f"{partition} cannot move: {self._why_not_led(partition)}")
            return []
        replicas = self._replaced(partition)
        if replicas is None:
            self._add_problem(
                leaving,
                f"{partition} has the replicas {_listed(partition.assigned)}, and no other broker is alive "
                "and not drained that could take one over",
            )
            return []
        if self._room <= 0:
            return []  # it moves later: no problem
        self._room -= 1
        self._load.update(set(replicas) - set(partition.assigned))
        drains = [self._survey.drains[broker] for broker in leaving]
        throttle = max(drain.throttle_bytes_per_s for drain in drains)
        return [ReplicaMove(partition, replicas, throttle, drains[0].by)]

    def _throttled(
        self, partition: SurveyedPartition, moving: Reassignment, leaving: Sequence[BrokerId]
    ) -> list[ReplicaMove]:
        """The same move with the drain's present throttle; a throttle set by others stays."""
        drains = [self._survey.drains[broker] for broker in leaving]
        throttle = max(drain.throttle_bytes_per_s for drain in drains)
        had = moving.throttle_bytes_per_s
        earlier = any(had in drain.earlier_throttles for drain in drains)
        if moving.reverting or had == throttle or not earlier:
            return []
        return [ReplicaMove(partition, moving.replicas, throttle, drains[0].by)]

    def _obstacle(self, partition: SurveyedPartition) -> str | None:
        """Why a reassignment in progress makes no progress; None if it can."""
        if not self._survey.may_be_led(partition):
            return self._why_not_led(partition)
        dead = [broker for broker in partition.wanted if broker not in self._survey.live]
        return f"waits for {_named(dead)}, which {_are(dead)} not alive" if dead else None

    def _why_not_led(self, partition: SurveyedPartition) -> str:
        in_sync = sorted(partition.state.isr_ids)
        return (
            f"nobody leads it, and only {_named(in_sync)} {'was' if len(in_sync) == 1 else 'were'} in sync, "
            f"which {_are(in_sync)} not alive"
        )

    def _replaced(self, partition: SurveyedPartition) -> ReplicaAssignment | None:
        """AR with another broker in the place of each emptied one; None if there are too few.

        Racks are kept apart first, as in placement; then the broker with the fewest replicas is taken.
        """
        racks = {registration.id: registration.endpoint.rack for registration in self._survey.hosts}
        staying = [broker for broker in partition.assigned if broker not in self._emptied]
        used = Counter(self._rack(broker) for broker in staying)
        free = [
            registration.id
            for registration in self._survey.hosts
            if registration.id not in partition.assigned
        ]
        replicas = list(partition.assigned)
        for place, broker in enumerate(partition.assigned):
            if broker in self._emptied:
                if not free:
                    return None
                chosen = min(free, key=lambda b: (used[racks[b]], self._load[b], b))
                free.remove(chosen)
                used[racks[chosen]] += 1
                replicas[place] = chosen
        return tuple(replicas)

    def _rack(self, broker: BrokerId) -> str:
        registration = self._survey.live.get(broker)
        return (
            f"of broker {broker}, which is not alive" if registration is None else registration.endpoint.rack
        )

    def _add_problem(self, brokers: Sequence[BrokerId] | set[BrokerId], problem: str) -> None:
        for broker in brokers:
            self._problems[broker].append(problem)


def _named(brokers: Sequence[BrokerId]) -> str:
    return f"{'broker' if len(brokers) == 1 else 'brokers'} {_listed(brokers)}"


def _are(brokers: Sequence[BrokerId]) -> str:
    return "is" if len(brokers) == 1 else "are"


def _listed(brokers: Sequence[BrokerId]) -> str:
    return ",".join(map(str, brokers)) or "empty"
