"""A group with static members, at random: a returning member has its partitions, and no other member has them
(KIP-345).

Real members and the broker's own coordinator, as in `test_group_walk`. Processes end and come back under
their instance's name, for the same topics or for others, while everything else continues.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from strandline.consumer.core.leader_note import DIGEST_BYTES, note
from strandline.consumer.core.member_effects import Effect
from strandline.consumer.core.member_states import State
from strandline.consumer.core.membership import Membership
from strandline.vocabulary.parsing.consumer_protocol import COOPERATIVE_STICKY, Assignment
from tests.consumer.core.support.group_world import Node, Violation
from tests.consumer.core.support.real_coordinator import RealCoordinator
from tests.consumer.core.walks.test_group_walk import CHAOS, VERSIONS, Walk

INSTANCES = ("one", "two", "three")
WALKS = 150
STEPS = 150
BOUNCES = 4
WALKS_TO_NOTICE_MAX = 100
ENDED = (State.LEFT, State.FATAL)


class StaticWalk(Walk):
    """As `Walk`, and most members have an instance.

    Each instance has one process at a time, and its calls arrive in the order in which it sent them:
    otherwise an old join would fence it, which is rightly fatal.
    """

    def __init__(self, versions: str, assignor: str, membership: type[Membership] = Membership) -> None:
        super().__init__(versions, assignor, RealCoordinator(), (membership,))
        self.last: dict[str, Node] = {}
        self.returned = 0
        self.returned_for_others = 0

    def step(self, action: str, n: int) -> None:
        world = self.world
        if action in ("happen", "fail") and world.todo:
            todo = world.todo[n % len(world.todo)]
            if todo.node.instance is not None and todo.what.startswith("→"):
                sent = [one for one in world.todo if one.node is todo.node and one.what.startswith("→")]
                todo = sent[0]
            if action == "happen":
                world.happen(todo)
            else:
                world.fail(todo, late=n % 2 == 0 and todo.node.instance is None)
        else:
            super().step(action, n)

    def start(self, n: int) -> None:
        self.started += 1
        cooperative = {"cooperative": True, "eager": False, "mixed": n % 2 == 0}[self.versions]
        instance = (*INSTANCES, None)[n % 4]
        if instance is not None and instance in self.last:
            before = self.last[instance]
            if before.alive and before.membership.state not in ENDED:
                return
            if before.alive:
                self.world.crash(before.name)
            self.world.todo = [todo for todo in self.world.todo if todo.node is not before]
        topics = self.some_topics(n // 2)
        (kind,) = self.kinds
        node = self.world.start(
            f"n{self.started}", topics, cooperative=cooperative, instance=instance, kind=kind
        )
        if instance is not None:
            self.last[instance] = node

    def bounce(self, random: Random) -> None:
        """In peace, a process with an instance ends and another takes its place."""
        world = self.world
        statics = [node for node in world.nodes.values() if node.instance is not None]
        if not statics:
            return
        gone = random.choice(statics)
        topics = random.choice([gone.membership.topics, self.some_topics(random.randrange(60))])
        cooperative = random.choice([True, False]) if self.versions == "mixed" else gone.cooperative
        generation = world.coordinator.generation
        world.crash(gone.name)
        (kind,) = self.kinds
        back = world.start(
            f"{gone.name}b", topics, cooperative=cooperative, instance=gone.instance, kind=kind
        )
        world.run()
        self.check()
        if back.membership.topics == gone.membership.topics:
            self.returned += 1
            if world.coordinator.generation != generation:
                raise Violation(f"{back.name} came back for the same, and the group rebalanced: {world}")
        else:
            self.returned_for_others += 1


def walk(
    seed: int, versions: str, assignor: str = "sticky", membership: type[Membership] = Membership
) -> StaticWalk:
    random = Random(f"static {versions} {seed}")
    walked = StaticWalk(versions, assignor, membership)
    for _ in range(STEPS):
        walked.step(random.choice((*CHAOS, "start", "start", "crash", "leave")), random.randrange(60))
    walked.heal()
    for _ in range(BOUNCES):
        walked.bounce(random)
    return walked


@pytest.mark.parametrize(
    ("assignor", "versions"),
    [
        *(("sticky", versions) for versions in VERSIONS),
        *((COOPERATIVE_STICKY, versions) for versions in ("cooperative", "mixed")),
    ],
)
def test_no_walk_with_static_members_gives_a_partition_two_owners(assignor: str, versions: str) -> None:
    """KIP-345, KIP-429, CORRECTNESS G13: when everything heals, each member owns only what it subscribes to,
    and each partition has one owner; a member that then comes back for the same topics costs no generation.
    """
    returned = returned_for_others = 0
    for seed in range(WALKS):
        try:
            walked = walk(seed, versions, assignor)
        except Violation as violation:
            raise AssertionError(f"walk {seed}: {violation}") from violation
        returned += walked.returned
        returned_for_others += walked.returned_for_others
    assert returned > WALKS
    assert returned_for_others > WALKS // 3


class IgnoresTheNote(Membership):
    """A member that comes back believes that what it is given was made for it."""

    def synced(self, number: int, data: bytes, now_ms: int) -> list[Effect]:
        if data:
            given = Assignment.decode(data)
            believed = note(self.topics) + given.user_data[DIGEST_BYTES:]
            data = replace(given, user_data=believed).encode()
        return super().synced(number, data, now_ms)


@pytest.mark.parametrize("versions", ["cooperative", "eager"])
def test_a_walk_whose_members_ignore_the_note_finds_a_violation(versions: str) -> None:
    """Returning members do not compare their subscription: the note is needed, and the walk notices its
    absence."""
    for seed in range(WALKS_TO_NOTICE_MAX):
        try:
            walk(seed, versions, membership=IgnoresTheNote)
        except Violation as violation:
            print(f"walk {seed}: {str(violation)[:160]}")
            return
    pytest.fail(f"{WALKS_TO_NOTICE_MAX} walks without the note found nothing wrong")
