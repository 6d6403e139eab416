"""Static members that come back within their session: nothing moves (KIP-345, KIP-814; CORRECTNESS G13).

Real members, and the broker's own coordinator.
"""

from __future__ import annotations

import pytest

from strandline.consumer.core.member_states import State
from strandline.ids import TopicPartition
from tests.consumer.core.support.group_world import NOW_MS, Node, Violation, World
from tests.consumer.core.support.real_coordinator import RealCoordinator


def group(*, cooperative: bool) -> tuple[World, Node, Node]:
    """A leader and a follower, each with two partitions of four. `u` has no subscriber yet."""
    world = World({"t": 4, "u": 2}, coordinator=RealCoordinator(), log=[])
    leader = world.start("a", ["t"], cooperative=cooperative, instance="one")
    world.run()
    follower = world.start("b", ["t"], cooperative=cooperative, instance="two")
    world.run()
    assert leader.membership.watched and not follower.membership.watched
    assert len(leader.membership.owned) == len(follower.membership.owned) == 2
    return world, leader, follower


@pytest.mark.parametrize("cooperative", [True, False])
@pytest.mark.parametrize("who", ["a", "b"])
@pytest.mark.parametrize("how", ["crash", "stop"])
def test_a_static_member_that_comes_back_has_what_it_had(cooperative: bool, who: str, how: str) -> None:
    """In the same generation; and the other one keeps what it has, and hears nothing of it."""
    world, leader, follower = group(cooperative=cooperative)
    gone, stays = (leader, follower) if who == "a" else (follower, leader)
    had, kept = gone.membership.owned, stays.membership.owned
    generation = world.coordinator.generation
    if how == "stop":
        world.carry_out(gone, gone.membership.leave("closing", NOW_MS))
        world.run()
        assert gone.membership.state is State.LEFT
    world.crash(who)
    back = world.start(who, ["t"], cooperative=cooperative, instance="one" if who == "a" else "two")
    world.run()
    assert back.membership.state is stays.membership.state is State.STABLE
    assert (back.membership.owned, stays.membership.owned) == (had, kept)
    assert world.coordinator.generation == back.membership.generation == generation


@pytest.mark.parametrize("cooperative", [True, False])
def test_a_leader_that_comes_back_continues_to_watch(cooperative: bool) -> None:
    """Partitions that are added later are assigned, in a new generation."""
    world, _leader, follower = group(cooperative=cooperative)
    world.crash("a")
    back = world.start("a", ["t"], cooperative=cooperative, instance="one")
    world.run()
    world.topics["t"] = 6
    world.refresh(back)
    world.run()
    assert len(back.membership.owned | follower.membership.owned) == 6


@pytest.mark.parametrize("cooperative", [True, False])
def test_a_leader_that_comes_back_notices_what_was_added_meanwhile(cooperative: bool) -> None:
    """CORRECTNESS G13: its plan was made by its former life, with the counts of then."""
    world, _leader, follower = group(cooperative=cooperative)
    world.crash("a")
    world.topics["t"] = 6
    back = world.start("a", ["t"], cooperative=cooperative, instance="one")
    world.run()
    owned = back.membership.owned | follower.membership.owned
    assert owned == {TopicPartition("t", n) for n in range(6)}


@pytest.mark.parametrize("cooperative", [True, False])
@pytest.mark.parametrize("who", ["a", "b"])
@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("wanted", [["t", "u"], ["u"]])
def test_a_static_member_that_comes_back_for_other_topics_gets_those(
    cooperative: bool, who: str, moves: bool, wanted: list[str]
) -> None:
    """KIP-345 gives it what its former life had, unasked: it sees that this was made for other topics, takes
    none that it does not want, and joins again; also if another broker coordinates by then."""
    world, leader, follower = group(cooperative=cooperative)
    stays = follower if who == "a" else leader
    generation = world.coordinator.generation
    world.crash(who)
    said: list[str] = []
    world.log = said
    back = world.start(who, wanted, cooperative=cooperative, instance="one" if who == "a" else "two")
    while back.membership.member not in world.coordinator.members:
        world.happen(world.todo[0])
    if moves:
        world.hand_over()
    world.run()
    assert world.coordinator.generation > generation
    owned = back.membership.owned | stays.membership.owned
    assert owned == {TopicPartition(t, n) for t, count in {"t": 4, "u": 2}.items() for n in range(count)}
    assert {name.topic for name in back.membership.owned} >= {"u"}
    taken = [line for line in said if line.startswith(f"  {who}: on_assigned")]
    assert any(" t" in line or "(t" in line for line in taken) is ("t" in wanted)
    joins = [line.partition(": ")[2] for line in said if line.startswith(f"  {who}: join as")]
    assert sum(join.endswith(": its subscription changed while it was away") for join in joins) == 1


def test_a_second_process_with_the_same_instance_fences_the_first() -> None:
    """KIP-345: the first hears FENCED_INSTANCE_ID, and that is fatal for it."""
    world, leader, _follower = group(cooperative=True)
    del world.nodes["a"]
    leader.holds.clear()
    world.start("a2", ["t"], instance="one")
    world.run()
    world.beat(leader)
    with pytest.raises(Violation, match="instance 'one' of group g is member 'a2-"):
        world.run()
    assert leader.membership.state is State.FATAL
    assert not leader.membership.owned
