"""A whole group at random whose members give partitions up before they join, and ask for rebalances.

As `test_group_walk`, with an assignor that does all that a user's may do, and looks at what it hears.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from strandline.consumer.core.assignors.assignor import MemberSubscription, released_first
from strandline.consumer.core.assignors.registry import BUILT_IN
from strandline.consumer.core.member_effects import Effect
from strandline.consumer.core.membership import Membership
from strandline.errors import InvalidRequest
from strandline.ids import TopicPartition
from tests.consumer.core.support.group_world import NOW_MS, Node, Violation
from tests.consumer.core.support.real_coordinator import RealCoordinator
from tests.consumer.core.walks.test_group_walk import (
    CHAOS,
    PARTITIONS_MAX,
    STEPS,
    TOPICS,
    VERSIONS,
    WALKS,
    WALKS_TO_NOTICE_MAX,
    Walk,
)

ACTIONS = (*CHAOS, *["enforce"] * 3)


class Whimsical:
    """Lets any member release any partition, and sends each member the partitions that it will get."""

    def __init__(self, seed: str) -> None:
        self.name = "whimsical"
        self._random = Random(seed)
        self.released = 0
        self.heard = 0

    def assign(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> dict[str, list[TopicPartition]]:
        return BUILT_IN["sticky"].assign(members, partitions)

    def assign_with_user_data(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> tuple[dict[str, list[TopicPartition]], dict[str, bytes]]:
        answer = self.assign(members, partitions)
        known = " ".join(f"{topic}{n}" for topic, count in partitions.items() for n in range(count))
        sent = {
            member: f"{' '.join(f'{t}{n}' for t, n in given)}|{known}" for member, given in answer.items()
        }
        return answer, {member: text.encode() for member, text in sent.items()}

    def release_before_join(self) -> frozenset[TopicPartition]:
        names = [TopicPartition(topic, n) for topic in TOPICS for n in range(PARTITIONS_MAX)]
        self.released += 1
        return frozenset(self._random.sample(names, self._random.choice((0, 0, 3, 9))))

    def on_assignment(self, user_data: bytes, assigned: frozenset[TopicPartition], generation: int) -> None:
        """Among the partitions that the leader knew, a member owns in the end only those that it was sent."""
        if not user_data:
            return  # a mixed group, or a leader that had forgotten this member
        wanted, known = (set(part.split()) for part in user_data.decode().split("|"))
        others = {f"{topic}{n}" for topic, n in assigned} & known - wanted
        if others:
            raise Violation(f"generation {generation} sent {wanted} to who has {others} too")
        self.heard += 1


class WhimsicalWalk(Walk):
    """Members that ask for rebalances, too."""

    def step_of(self, node: Node, action: str, n: int) -> None:
        if action != "enforce":
            return super().step_of(node, action, n)
        try:
            effects = node.membership.enforced("wanted", NOW_MS)
        except InvalidRequest:
            return  # it has left
        self.world.carry_out(node, effects)


def walk(
    seed: int,
    versions: str,
    coordinator: RealCoordinator | None = None,
    membership: type[Membership] = Membership,
) -> tuple[WhimsicalWalk, Whimsical]:
    random = Random(f"{versions} {seed}")
    assignor = Whimsical(f"whims {seed}")
    walked = WhimsicalWalk(versions, assignor, coordinator, (membership,))
    for _ in range(STEPS):
        walked.step(random.choice(ACTIONS), random.randrange(60))
    walked.heal()
    return walked, assignor


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("versions", VERSIONS)
def test_no_walk_gives_a_partition_two_owners(versions: str, real: bool) -> None:
    """KIP-429, CORRECTNESS G2 to G5, also by what is reported; and once all is well it settles."""
    released = heard = 0
    for seed in range(WALKS):
        try:
            _, assignor = walk(seed, versions, RealCoordinator() if real else None)
        except Violation as violation:
            raise AssertionError(f"walk {seed}: {violation}") from violation
        released += assignor.released
        heard += assignor.heard
    assert heard > WALKS
    assert released > WALKS // 2 or versions == "eager"


class JoinsWithoutIt(Membership):
    """A member claims no more what it is to give up, and joins before it has."""

    def _send_join(self, now_ms: int, *, released: bool = False) -> list[Effect]:
        if not released and self._settings.cooperative:
            self._owned.release(released_first(self._assignors.values(), self.owned))
        return super()._send_join(now_ms, released=True)


def test_a_walk_without_the_release_finds_a_violation() -> None:
    """CORRECTNESS G5: the walk notices the absence."""
    for seed in range(WALKS_TO_NOTICE_MAX):
        try:
            walk(seed, "cooperative", membership=JoinsWithoutIt)
        except Violation:
            return
    pytest.fail(f"{WALKS_TO_NOTICE_MAX} walks found nothing wrong")
