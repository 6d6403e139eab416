"""A whole group, at random: no partition has two owners at any instant (KIP-429).

Real members and a model of a coordinator (`group_world`). Members come, leave, crash, are expelled while
they live, change what they subscribe to, and see topics late; requests, answers, releases and pauses happen
in any order, or are lost. Then all heals. The same walk with one rule broken finds a violation: so the walk
would notice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.consumer.core.assignors.assignor import Assignor
from strandline.consumer.core.member_effects import Effect, SendSync
from strandline.consumer.core.member_settings import MemberSettings
from strandline.consumer.core.member_states import State
from strandline.consumer.core.membership import Membership
from strandline.consumer.core.ownership import Ownership, Received
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.vocabulary.parsing.consumer_protocol import Assignment
from tests.consumer.core.support.group_world import NOW_MS, Node, Violation, World
from tests.consumer.core.support.real_coordinator import RealCoordinator

TOPICS = ("t", "u", "v")
NODES_MAX = 5
PARTITIONS_MAX = 6
WALKS = 200
STEPS = 150
WALKS_TO_NOTICE_MAX = 400


class Walk:
    """Turns numbers into events of a group. Events that are impossible at the moment are skipped."""

    def __init__(
        self,
        versions: str,
        assignor: str | Assignor = "sticky",
        coordinator: RealCoordinator | None = None,
        kinds: Sequence[type[Membership]] = (Membership,),
    ) -> None:
        topics = {"t": 3, "u": 2}
        self.world = World(topics, assignor=assignor, coordinator=coordinator)
        self.versions = versions
        self.kinds = kinds
        self.started = 0

    def step(self, action: str, n: int) -> None:
        world = self.world
        nodes = list(world.nodes.values())
        if action == "start" and len(nodes) < NODES_MAX:
            self.start(n)
        elif action == "happen" and world.todo:
            world.happen(world.todo[n % len(world.todo)])
        elif action == "fail" and world.todo:
            world.fail(world.todo[n % len(world.todo)], late=n % 2 == 0)
        elif action == "come late" and world.late:
            world.come_late(world.late[n % len(world.late)])
        elif action == "expire" and world.coordinator.members:
            world.expire([*world.coordinator.members][n % len(world.coordinator.members)])
        elif action == "topics":
            self.change_topics(n)
        elif action == "rebalance":
            world.coordinator.rebalance("wanted")
            world.settle_calls()
        elif action == "time is up":
            world.coordinator.time_is_up()
            world.settle_calls()
        elif action == "hand over":
            world.hand_over()
        elif nodes:
            self.step_of(nodes[n % len(nodes)], action, n)

    def step_of(self, node: Node, action: str, n: int) -> None:
        core = node.membership
        if action == "beat":
            self.world.beat(node)
        elif action == "leave":
            self.world.carry_out(node, core.leave("closing", NOW_MS))
        elif action == "crash":
            self.world.crash(node.name)
        elif action == "subscribe":
            self.world.carry_out(node, core.subscribed(self.some_topics(n), NOW_MS))
        elif action == "refresh":
            self.world.refresh(node)
        elif action == "cut":
            self.world.cut(node)
        elif action == "overdue":
            self.world.carry_out(node, core.poll_overdue(NOW_MS))
        elif action == "poll":
            self.world.carry_out(node, core.polled(NOW_MS))
        elif action == "lose coordinator":
            self.world.carry_out(node, core.coordinator_lost(NOW_MS))

    def start(self, n: int) -> None:
        self.started += 1
        cooperative = {"cooperative": True, "eager": False, "mixed": n % 2 == 0}[self.versions]
        kind = self.kinds[self.started % len(self.kinds)]
        self.world.start(f"n{self.started}", self.some_topics(n // 2), cooperative=cooperative, kind=kind)

    def some_topics(self, n: int) -> tuple[str, ...]:
        """Mostly all of them; never none."""
        return TOPICS if n % 3 else tuple(t for place, t in enumerate(TOPICS) if (n // 3 + 1) >> place & 1)

    def change_topics(self, n: int) -> None:
        topic = TOPICS[n % 3]
        if n % 4 == 3:
            self.world.topics.pop(topic, None)
        else:
            self.world.topics[topic] = min(self.world.topics.get(topic, 0) + 1, PARTITIONS_MAX)

    def heal(self) -> None:
        """Nothing is lost any longer, sessions of the dead end, and every member sees all topics and
        polls."""
        world = self.world
        while world.late:
            world.come_late(world.late[0])
        for node in world.nodes.values():
            world.carry_out(node, node.membership.polled(NOW_MS))
            world.cut(node)
        for _ in range(3):
            world.run()
            living = {node.membership.member for node in world.nodes.values()}
            for member in [member for member in world.coordinator.members if member not in living]:
                world.expire(member)
            world.run()
            world.wait_a_session()
            world.run()
            for node in world.nodes.values():
                world.refresh(node)
        for name in [n for n, node in world.nodes.items() if node.membership.state is State.LEFT]:
            del world.nodes[name]
        world.run()
        self.check()

    def check(self) -> None:
        """Every partition with a subscriber has one owner, and all members agree on it."""
        owners: dict[TopicPartition, list[str]] = {}
        for node in self.world.nodes.values():
            core = node.membership
            if core.state is not State.STABLE:
                raise Violation(f"not stable: {self.world}")
            if not core.owned == node.holds == node.reported:
                raise Violation(
                    f"{node.name} owns {core.owned}, holds {node.holds}, notified of {node.reported}"
                )
            for partition in core.owned:
                owners.setdefault(partition, []).append(node.name)
                if partition.topic not in core.topics:
                    raise Violation(f"{node.name} owns {partition}, subscribes to {core.topics}")
        topics = {topic for node in self.world.nodes.values() for topic in node.membership.topics}
        for topic in topics & self.world.topics.keys():
            for partition in (TopicPartition(topic, n) for n in range(self.world.topics[topic])):
                if len(owners.get(partition, [])) != 1:
                    raise Violation(f"{partition} belongs to {owners.get(partition)}: {self.world}")

    def owned(self) -> dict[str, frozenset[TopicPartition]]:
        return {name: node.membership.owned for name, node in self.world.nodes.items()}


CHAOS = (
    *["happen"] * 30,
    *["start"] * 4,
    *["beat"] * 6,
    *["refresh"] * 3,
    *["fail"] * 3,
    *["come late"] * 2,
    "leave", "crash", "expire", "subscribe", "topics", "rebalance", "time is up", "hand over",
    "cut", "overdue", "poll", "lose coordinator",
)  # fmt: skip
VERSIONS = ("cooperative", "eager", "mixed")
ASSIGNORS = ("sticky", "range", "roundrobin")


def walk(
    seed: int,
    versions: str,
    assignor: str = "sticky",
    coordinator: RealCoordinator | None = None,
    kinds: Sequence[type[Membership]] = (Membership,),
) -> Walk:
    random = Random(f"{versions} {seed}")
    walked = Walk(versions, assignor, coordinator, kinds)
    for _ in range(STEPS):
        walked.step(random.choice(CHAOS), random.randrange(60))
    walked.heal()
    return walked


@pytest.mark.parametrize("versions", VERSIONS)
def test_no_walk_gives_a_partition_two_owners(versions: str) -> None:
    """KIP-429, CORRECTNESS G2, G3, G4, G5: and once all is well, each partition has one owner, in groups
    of one version, of the other, and of both."""
    generations = 0
    for seed in range(WALKS):
        try:
            walked = walk(seed, versions, ASSIGNORS[seed % 3])
        except Violation as violation:
            raise AssertionError(f"walk {seed}: {violation}") from violation
        generations += walked.world.coordinator.generation
    assert generations > 5 * WALKS


@pytest.mark.parametrize("versions", VERSIONS)
def test_no_walk_with_the_brokers_own_coordinator_does(versions: str) -> None:
    """The same with both sides as they are; a handover reads the group from its log."""
    generations = 0
    for seed in range(WALKS):
        try:
            walked = walk(seed, versions, ASSIGNORS[seed % 3], RealCoordinator())
        except Violation as violation:
            raise AssertionError(f"walk {seed}: {violation}") from violation
        generations += walked.world.coordinator.generation
    assert generations > 3 * WALKS


@given(
    st.sampled_from(VERSIONS),
    st.lists(st.tuples(st.sampled_from(sorted(set(CHAOS))), st.integers(0, 59)), max_size=60),
)
def test_no_walk_that_hypothesis_thinks_of_does(versions: str, steps: list[tuple[str, int]]) -> None:
    """The same, with a short script to look at if one does."""
    walked = Walk(versions)
    for action, n in steps:
        walked.step(action, n)
    walked.heal()


# --- what a rebalance costs ---------------------------------------------------------------------


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_a_change_settles_within_two_generations(assignor: str) -> None:
    """docs/design.md: a member more, a member less, a crash, a new subscription, more partitions, a topic
    gone; in a group of cooperative members, from stable to stable."""
    most = 0
    for seed in range(WALKS):
        random = Random(seed)
        walked = walk(seed, "cooperative", assignor)
        world = walked.world
        for _ in range(4):
            before = world.coordinator.generation
            one_change(walked, random)
            walked.check()
            took = world.coordinator.generation - before
            assert took <= 2, f"walk {seed}: {took} generations: {world}"
            most = max(most, took)
    assert most == 2


def one_change(walked: Walk, random: Random) -> None:
    world = walked.world
    nodes = list(world.nodes.values())
    action = random.choice(["start", "leave", "crash", "subscribe", "topics"])
    if not nodes or action == "start":
        walked.start(random.randrange(60))
    elif action == "topics":
        walked.change_topics(random.randrange(60))
    elif action == "crash":
        node = random.choice(nodes)
        world.crash(node.name)
        world.expire(node.membership.member)
    else:
        walked.step_of(random.choice(nodes), action, random.randrange(60))
    world.run()
    for node in world.nodes.values():
        world.refresh(node)
    world.run()
    for name in [n for n, node in world.nodes.items() if node.membership.state is State.LEFT]:
        del world.nodes[name]


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_a_rebalance_without_a_change_moves_nothing(assignor: str) -> None:
    """And one generation is enough for it."""
    for seed in range(WALKS):
        walked = walk(seed, "cooperative", assignor)
        before, generation = walked.owned(), walked.world.coordinator.generation
        walked.step("rebalance", 0)
        walked.world.run()
        walked.check()
        assert walked.owned() == before, f"walk {seed}"
        assert walked.world.coordinator.generation <= generation + 1


def test_a_mixed_group_takes_nothing_from_cooperative_members() -> None:
    """KIP-429: "just giving back their existing assigned-partitions"."""
    kept = 0
    for seed in range(WALKS):
        walked = walk(seed, "mixed")
        world = walked.world
        if {node.cooperative for node in world.nodes.values()} != {True, False}:
            continue
        before = walked.owned()
        world.start("more", TOPICS, cooperative=False)
        world.run()
        walked.check()
        for name, node in world.nodes.items():
            if node.cooperative:
                kept += len(before[name])
                assert walked.owned()[name] >= before[name]
    assert kept > WALKS // 3


BOUNCED = 10
SHARED = 60


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("back", [False, True], ids=["to cooperative", "back to eager"])
def test_in_a_bounce_to_the_other_protocol_no_member_carries_more_than_its_share(
    assignor: str, back: bool
) -> None:
    """KIP-429, second bounce: what eager members revoked goes to members of both kinds, by the assignor's
    output. Nine members at least share the partitions, so none has more than seven, neither the last
    eager one nor a cooperative one, which loses nothing before all agree."""
    walked = Walk("mixed", assignor)
    world = walked.world = World({"t": SHARED}, assignor=assignor)
    names = [f"n{number}" for number in range(BOUNCED)]
    for name in names:
        world.start(name, ["t"], cooperative=back)
    world.run()
    for place, name in enumerate(names):
        for step in ("stop", "start"):
            mixed = {node.cooperative for node in world.nodes.values()} == {True, False}
            before = walked.owned()
            if step == "stop":
                world.carry_out(world.nodes[name], world.nodes[name].membership.leave("closing", NOW_MS))
                world.run()
                del world.nodes[name]
            else:
                world.start(name, ["t"], cooperative=not back)
                world.run()
            walked.check()
            mixed = mixed and {node.cooperative for node in world.nodes.values()} == {True, False}
            for member, node in world.nodes.items():
                owned = node.membership.owned
                assert len(owned) <= -(-SHARED // (BOUNCED - 1)), f"{member} at {step} {place}: {world}"
                assert not (mixed and node.cooperative) or owned >= before.get(member, frozenset())
    assert {len(owned) for owned in walked.owned().values()} == {SHARED // BOUNCED}


# --- each rule is needed ------------------------------------------------------------------------


class GivesAtOnce(Membership):
    """The leader gives what moves to its new owner without a generation in between."""

    def metadata(self, number: int, partitions: Mapping[str, int], now_ms: int) -> list[Effect]:
        effects = super().metadata(number, partitions, now_ms)
        return [self._hasty(effect) if isinstance(effect, SendSync) else effect for effect in effects]

    def _hasty(self, sync: SendSync) -> SendSync:
        given = {name: Assignment.decode(data) for name, data in sync.request.assignments.items()}
        freed = [partition for assignment in given.values() for partition in assignment.revoked]
        heirs = [name for name, assignment in given.items() if not assignment.revoked]
        if heirs:
            heir = given[heirs[0]]
            given[heirs[0]] = replace(heir, assigned=(*heir.assigned, *freed))
        hasty = {name: assignment.encode() for name, assignment in given.items()}
        return replace(sync, request=replace(sync.request, assignments=hasty))


class KeepsWhenExpelled(Membership):
    """A member that the group forgot keeps its partitions, and claims them."""

    def _expelled(self, error: StrandlineError, what: str, now_ms: int) -> list[Effect]:
        kept, self._owned = self._owned, Ownership()
        effects = super()._expelled(error, what, now_ms)
        self._owned = kept
        return effects


class JoinsBeforeRelease(Membership):
    """A member joins without what it is to release while it still reads it."""

    def __init__(self, settings: MemberSettings, assignors: Sequence[Assignor]) -> None:
        super().__init__(settings, assignors)
        self._owned = ReleasedAtOnce()


class ReleasedAtOnce(Ownership):
    def receive(self, assignment: Assignment, generation: int) -> Received:
        received = super().receive(assignment, generation)
        self.release(received.removed)
        return replace(received, removed=())


class EagerWithoutRelease(Membership):
    """An eager member joins without having released anything."""

    def _rejoin(self, reason: str, now_ms: int) -> list[Effect]:
        self._why = reason
        return self._send_join(now_ms)


@pytest.mark.parametrize(
    ("broken", "versions"),
    [
        (GivesAtOnce, "cooperative"),
        (KeepsWhenExpelled, "cooperative"),
        (JoinsBeforeRelease, "cooperative"),
        (EagerWithoutRelease, "eager"),
    ],
)
def test_a_walk_without_one_rule_finds_a_violation(broken: type[Membership], versions: str) -> None:
    """CORRECTNESS G3, G5: each of these rules is needed, and the walk notices its absence."""
    for seed in range(WALKS_TO_NOTICE_MAX):
        try:
            walk(seed, versions, kinds=(broken,))
        except Violation as violation:
            print(f"{broken.__name__}, walk {seed}: {str(violation)[:160]}")
            return
    pytest.fail(f"{WALKS_TO_NOTICE_MAX} walks with {broken.__name__} found nothing wrong")
