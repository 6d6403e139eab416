"""Groups of strandline's members and Kafka clients, at random: no partition has two owners at any instant,
and once all is well each has one, whichever side leads (KIP-429; CORRECTNESS G2, G4, G5, G17).

The Kafka clients are played by their bytes (`kafka_member`), of every version that is in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from strandline.consumer.core.member_effects import Effect, SendJoin
from strandline.consumer.core.membership import Membership
from strandline.consumer.core.ownership import Partitions
from strandline.vocabulary.parsing.consumer_protocol import COOPERATIVE_STICKY, Subscription
from tests.consumer.core.support.group_world import Violation, World
from tests.consumer.core.support.kafka_member import KafkaMember, Members, Wanted
from tests.consumer.core.support.real_coordinator import RealCoordinator
from tests.consumer.core.walks.test_group_walk import WALKS, WALKS_TO_NOTICE_MAX, walk

BOTH: Sequence[type[Membership]] = (Membership, KafkaMember)
GROUPS = [
    ("range", "eager"),
    ("roundrobin", "eager"),
    ("sticky", "eager"),
    (COOPERATIVE_STICKY, "cooperative"),
    (COOPERATIVE_STICKY, "mixed"),
]
"""Under `cooperative-sticky` members of both protocols may meet, as in the second half of Kafka's upgrade."""


@pytest.mark.parametrize("real", [False, True], ids=["model", "real coordinator"])
@pytest.mark.parametrize(("assignor", "versions"), GROUPS)
def test_no_walk_of_both_kinds_of_members_gives_a_partition_two_owners(
    assignor: str, versions: str, real: bool
) -> None:
    generations, led = 0, set[type[Membership]]()
    for seed in range(WALKS // 2):
        try:
            walked = walk(seed, versions, assignor, RealCoordinator() if real else None, BOTH)
        except Violation as violation:
            raise AssertionError(f"walk {seed}: {violation}") from violation
        generations += walked.world.coordinator.generation
        led |= {type(n.membership) for n in walked.world.nodes.values() if n.membership.watched}
    assert generations > 3 * WALKS // 2
    assert led == set(BOTH), "each side led"


@pytest.mark.parametrize("first", BOTH)
def test_a_join_and_a_leave_move_what_has_to_move_in_two_generations(first: type[Membership]) -> None:
    """docs/use/groups.md: a rebalance moves only the partitions that change owners; either side leads."""
    world = World({"t": 12}, assignor=COOPERATIVE_STICKY)
    second = KafkaMember if first is Membership else Membership
    for name, kind in (("a", first), ("b", second), ("c", first)):
        world.start(name, ["t"], kind=kind)
        world.run()
    before = {name: node.membership.owned for name, node in world.nodes.items()}
    generation = world.coordinator.generation
    world.start("d", ["t"], kind=second)
    world.run()
    assert world.coordinator.generation == generation + 2
    assert [len(node.membership.owned) for node in world.nodes.values()] == [3, 3, 3, 3]
    assert all(world.nodes[name].membership.owned < owned for name, owned in before.items())
    world.crash("d")
    world.expire(next(name for name in world.coordinator.members if name.startswith("d")))
    world.run()
    assert world.coordinator.generation == generation + 3
    assert [len(node.membership.owned) for node in world.nodes.values()] == [4, 4, 4]


# --- each rule is needed ------------------------------------------------------------------------


class GivesMovesAtOnce(KafkaMember):
    """The leader gives what moves to its new owner without a generation in between."""

    def without_moves(self, members: Members, wanted: Wanted) -> Wanted:
        return wanted


class StaysAfterARevocation(Membership):
    """A member that has revoked what moves waits for the others to begin the next generation."""

    def _release(self, partitions: Partitions, reason: str, then: Any) -> list[Effect]:
        moves = reason == "partitions move between members"
        return super()._release(partitions, reason, type(then).STAY if moves else then)


class ClaimsNothing(Membership):
    """A member keeps its partitions, and does not say so."""

    def _send_join(self, now_ms: int, *, released: bool = False) -> list[Effect]:
        effects = super()._send_join(now_ms, released=released)
        return [_silent(effect) if isinstance(effect, SendJoin) else effect for effect in effects]


def _silent(effect: SendJoin) -> SendJoin:
    (only,) = effect.request.protocols
    silent = replace(Subscription.decode(only.metadata), owned=())
    protocols = (replace(only, metadata=silent.encode()),)
    return replace(effect, request=replace(effect.request, protocols=protocols))


@pytest.mark.parametrize("broken", [GivesMovesAtOnce, StaysAfterARevocation, ClaimsNothing])
def test_a_walk_without_one_rule_finds_a_violation(broken: type[Membership]) -> None:
    """CORRECTNESS G2: each of these rules is needed, and the walk notices its absence."""
    for seed in range(WALKS_TO_NOTICE_MAX):
        try:
            walk(seed, "cooperative", COOPERATIVE_STICKY, kinds=(broken, Membership))
        except Violation as violation:
            print(f"{broken.__name__}, walk {seed}: {str(violation)[:160]}")
            return
    pytest.fail(f"{WALKS_TO_NOTICE_MAX} walks with {broken.__name__} found nothing wrong")
