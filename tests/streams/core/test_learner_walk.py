"""Stream tasks in a whole consumer group, at random: no task has two owners at any instant.

Real members of a consumer group with their real leader, and a model of a coordinator, or the broker's own
(`group_world`); their task reports are exchanged as bytes. Members come, leave, crash, hand everything over,
are expelled while they live, see topics late and catch up in any order; topics of one subtopology have
different numbers of partitions, grow, and are deleted; requests and answers are lost. Then all faults end,
all members catch up, and the group comes to rest. The same walk with one rule broken finds a violation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest

from strandline.consumer.core.assignors.assignor import Assignor, MemberSubscription
from strandline.consumer.core.member_effects import Effect, Lose
from strandline.consumer.core.member_settings import MemberSettings
from strandline.consumer.core.member_states import IN_GROUP, Awaited
from strandline.consumer.core.membership import Membership
from strandline.ids import TopicPartition
from strandline.streams.core.assignor import LearnerAssignor
from strandline.streams.core.member import Received, StreamMember
from strandline.streams.core.protocol import MemberData
from strandline.streams.core.task import TaskId
from tests.consumer.core.support.group_world import NOW_MS, Node, Violation, World
from tests.consumer.core.support.real_coordinator import RealCoordinator
from tests.consumer.core.walks.test_group_walk import CHAOS, Walk

SOURCES = {"joined": ("t", "u"), "single": ("v",)}
TOPICS = ("t", "u", "v")
WALKS = 200
STEPS = 150
WALKS_TO_NOTICE_MAX = 300


class StreamsMembership(Membership):
    """A member with the tasks that its partitions are, as a stream application drives it."""

    assignor: type[LearnerAssignor] = LearnerAssignor

    def __init__(self, settings: MemberSettings, assignors: Sequence[Assignor]) -> None:
        self.stream: StreamMember[TaskId] = StreamMember()
        self.learner = self.assignor(
            self.stream,
            SOURCES,
            num_standbys=int(settings.client_id.partition("/")[2]),
            application_server=f"{settings.client_id}:80",
            on_received=self._hear,
        )
        self._assignment: Received[TaskId] | None = None
        super().__init__(settings, [self.learner])

    def _hear(self, received: Received[TaskId]) -> None:
        self._assignment = received

    def synced(self, number: int, data: bytes, now_ms: int) -> list[Effect]:
        effects = super().synced(number, data, now_ms)
        assignment, self._assignment = self._assignment, None
        if assignment is not None and assignment.over:
            return effects + self.leave("everything is handed over", now_ms)
        return effects + (self.wanted(now_ms) if assignment is not None and assignment.asks else [])

    def released(self, number: int, now_ms: int) -> list[Effect]:
        if self._pending.counts(Awaited.RELEASE, number):
            self.stream.taken(self.learner.tasks_of(self._releasing))
        return super().released(number, now_ms)

    def wanted(self, now_ms: int) -> list[Effect]:
        return self.enforced("tasks move", now_ms) if self.state in IN_GROUP and not self._leaving else []

    def caught_up(self, task: TaskId) -> list[Effect]:
        return self.wanted(NOW_MS) if self.stream.caught_up(task) else []

    def drain(self) -> list[Effect]:
        return self.wanted(NOW_MS) if self.stream.leave() else []

    @property
    def copies(self) -> list[TaskId]:
        return sorted(self.stream.learning | self.stream.standbys)

    def check(self, name: str) -> None:
        """Exactly the owned tasks run, except those that are being released."""
        runs, owned = self.stream.assigned, self.learner.tasks_of(self.owned)
        if not runs <= owned:
            raise Violation(f"{name} runs {runs - owned}, which it does not own")
        idle = self.learner.tasks_of(self.owned.difference(self._releasing)) - runs - self.stream.revoked
        if idle:
            raise Violation(f"{name} owns {idle} and runs nothing of it: {self.state}")


class StreamsWorld(World):
    def of(self, node: Node) -> StreamsMembership:
        assert isinstance(node.membership, StreamsMembership)
        return node.membership

    def _carry_out(self, node: Node, effect: Effect) -> None:
        super()._carry_out(node, effect)
        if isinstance(effect, Lose):
            self.of(node).stream.lost()

    def _take(self, node: Node, added: frozenset[TopicPartition]) -> None:
        super()._take(node, added)
        learner = self.of(node).learner
        for other in self.nodes.values():
            both = learner.tasks_of(other.holds) & learner.tasks_of(node.holds)
            if other is not node and both:
                raise Violation(f"{node.name} is assigned some of {both}, which {other.name} runs")


class StreamsWalk(Walk):
    def __init__(
        self, standbys: int, membership: type[StreamsMembership], coordinator: RealCoordinator | None
    ) -> None:
        topics = {"t": 3, "u": 2, "v": 2}
        self.streams = StreamsWorld(topics, coordinator=coordinator, membership=membership)
        self.world = self.streams
        self.standbys = standbys
        self.started = 0

    def members(self) -> dict[str, StreamsMembership]:
        return {name: self.streams.of(node) for name, node in self.world.nodes.items()}

    def start(self, n: int) -> None:
        self.started += 1
        self.world.start(f"n{self.started}/{self.standbys}", TOPICS)

    def step(self, action: str, n: int) -> None:
        super().step(action, n)
        for name, member in self.members().items():
            member.check(name)

    def step_of(self, node: Node, action: str, n: int) -> None:
        member = self.streams.of(node)
        if action == "catch up" and member.copies:
            self.world.carry_out(node, member.caught_up(member.copies[n % len(member.copies)]))
        elif action == "fall behind" and member.copies:
            member.stream.fell_behind(member.copies[n % len(member.copies)])
        elif action == "drain":
            self.world.carry_out(node, member.drain())
        elif action != "subscribe":
            super().step_of(node, action, n)

    def rest(self) -> None:
        """One more member starts, so that one stays; all catch up, until nothing moves any longer."""
        self.start(0)
        self.heal()
        for _ in range(sum(self.world.topics.values()) + 6):
            for node in list(self.world.nodes.values()):
                for task in self.streams.of(node).copies:
                    self.world.carry_out(node, self.streams.of(node).caught_up(task))
            if not self.world.todo:
                break
            self.heal()
        else:
            raise Violation(f"it comes to no rest: {self.world}")
        self.check_rest()
        before = self.owned()
        self.step("rebalance", 0)
        self.heal()
        if self.owned() != before:
            raise Violation(f"a rebalance moves {before} to {self.owned()}")
        self.check_rest()

    def check_rest(self) -> None:
        """Even, whole, and with as many standbys as possible. A member that still leaves has the deleted
        tasks."""
        members, topics = self.members(), self.world.topics
        tasks = {
            TaskId(name, number)
            for name, sources in SOURCES.items()
            for number in range(max(topics.get(topic, 0) for topic in sources))
        }
        runs = {name: member.stream.assigned & tasks for name, member in members.items()}
        staying = [name for name, member in members.items() if not member.stream.leaving]
        if Counter(task for name in staying for task in runs[name]) != Counter(tasks):
            raise Violation(f"{tasks} are run {runs}, staying {staying}")
        if max(len(runs[name]) for name in staying) - min(len(runs[name]) for name in staying) > 1:
            raise Violation(f"uneven: {runs}, staying {staying}")
        if any(member.stream.learning for member in members.values()):
            raise Violation(f"a member still learns: {self.world}")
        kept = Counter(task for member in members.values() for task in member.stream.standbys)
        if kept != Counter(dict.fromkeys(tasks, min(self.standbys, len(staying) - 1))):
            raise Violation(f"standbys: {kept}")
        ids = {member.member: name for name, member in members.items()}
        for member in members.values():
            assignment = {task: ids[owner] for task, owner in member.learner.owners.items()}
            if assignment != {task: name for name, mine in runs.items() for task in mine}:
                raise Violation(f"assignment {assignment}, they run {runs}")
            if member.learner.servers != {name: f"{ids[name]}:80" for name in ids}:
                raise Violation(f"servers {member.learner.servers}")


STREAMS_CHAOS = (*CHAOS, *["catch up"] * 8, *["fall behind"] * 2, *["drain"] * 2, "topics")


def walk(
    seed: int,
    standbys: int,
    coordinator: RealCoordinator | None = None,
    membership: type[StreamsMembership] = StreamsMembership,
) -> StreamsWalk:
    random = Random(f"{standbys} {seed}")
    walked = StreamsWalk(standbys, membership, coordinator)
    for _ in range(STEPS):
        walked.step(random.choice(STREAMS_CHAOS), random.randrange(60))
    walked.rest()
    return walked


@pytest.mark.parametrize("standbys", [0, 1, 2])
def test_no_walk_gives_a_task_two_owners(standbys: int) -> None:
    """KIP-429, CORRECTNESS S1, S5."""
    generations = 0
    for seed in range(WALKS):
        try:
            walked = walk(seed, standbys)
        except Violation as violation:
            raise AssertionError(f"walk {seed}: {violation}") from violation
        generations += walked.world.coordinator.generation
    assert generations > 5 * WALKS


@pytest.mark.parametrize("standbys", [0, 1])
def test_no_walk_with_the_brokers_own_coordinator_does(standbys: int) -> None:
    """The same with both sides as they are; a handover reads the group from its log."""
    for seed in range(WALKS // 2):
        try:
            walk(seed, standbys, RealCoordinator())
        except Violation as violation:
            raise AssertionError(f"walk {seed}: {violation}") from violation


# --- each rule is needed ------------------------------------------------------------------------


class SaysNothingOfWhatItRuns(LearnerAssignor):
    """The leader goes by partitions alone, also where it has not heard of their topic."""

    def subscription_user_data(self) -> bytes:
        return replace(MemberData.decode(super().subscription_user_data()), assigned=frozenset()).encode()


class SplitsTasks(LearnerAssignor):
    """Partitions of one task go to different members."""

    def assign_with_user_data(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> tuple[dict[str, list[TopicPartition]], dict[str, bytes]]:
        assigned, assignment = super().assign_with_user_data(members, partitions)
        first, last = min(assigned), max(assigned)
        moved = [partition for partition in assigned[first] if partition.topic == "u"]
        if first != last:
            assigned[first] = [partition for partition in assigned[first] if partition.topic != "u"]
            assigned[last] = sorted((*assigned[last], *moved))
        return assigned, assignment


class TellsNobody(LearnerAssignor):
    def assign_with_user_data(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> tuple[dict[str, list[TopicPartition]], dict[str, bytes]]:
        return super().assign_with_user_data(members, partitions)[0], {}


class ReleasesNothing(LearnerAssignor):
    """Gives up what others learn, and keeps its partitions."""

    def release_before_join(self) -> frozenset[TopicPartition]:
        super().release_before_join()
        return frozenset()


class GivesNothingUp(LearnerAssignor):
    """A ready learner waits forever."""

    def release_before_join(self) -> frozenset[TopicPartition]:
        self._owns = True
        return frozenset()


@pytest.mark.parametrize(
    "broken", [SaysNothingOfWhatItRuns, SplitsTasks, TellsNobody, ReleasesNothing, GivesNothingUp]
)
def test_a_walk_without_one_rule_finds_a_violation(broken: type[LearnerAssignor]) -> None:
    """Each of these rules is needed, and the walk notices its absence."""

    class Broken(StreamsMembership):
        assignor = broken

    for seed in range(WALKS_TO_NOTICE_MAX):
        try:
            walk(seed, 0, membership=Broken)
        except Violation as violation:
            print(f"{broken.__name__}, walk {seed}: {str(violation)[:160]}")
            return
    pytest.fail(f"{WALKS_TO_NOTICE_MAX} walks with {broken.__name__} found nothing wrong")
