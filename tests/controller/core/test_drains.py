"""The next requests of a drain, and the partitions that it reports as immovable (USERS 11)."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from strandline.controller.core.drains import DrainPlan, ended_by_restart, plan_drains
from strandline.controller.core.survey import Survey
from strandline.ids import BrokerEpoch, BrokerId
from strandline.vocabulary.metadata import Drain
from strandline.vocabulary.state_changes import AskedBy
from tests.controller.core.support.surveys import has_nothing, leads_nothing, life, partition, survey


def plan(given_survey: Survey, moving_max: int = 20) -> DrainPlan:
    return plan_drains(given_survey, moving_max=moving_max)


def takers(found: DrainPlan) -> list[tuple[int, int]]:
    return [(move.partition.key.partition, move.give_to) for move in found.leaderships]


def targets(found: DrainPlan) -> list[tuple[int, tuple[int, ...]]]:
    return [(move.partition.key.partition, move.replicas) for move in found.replicas]


def test_without_a_drain_nothing_moves() -> None:
    found = plan(survey(partition(0, [1, 2, 3])))
    assert (found.leaderships, found.replicas, found.progress) == ([], [], {})


def test_a_drain_until_a_restart_is_over_in_another_life_of_its_broker() -> None:
    def until_restart(epoch: int) -> Drain:
        return Drain(BrokerEpoch(epoch), replicas=False, until_restart=True)

    found = survey(
        drains={
            1: until_restart(life(1)),
            2: until_restart(life(2) - 1),
            3: Drain(BrokerEpoch(life(3) - 1), replicas=False),
            4: until_restart(life(4)),
        },
        dead=(4,),
    )
    assert ended_by_restart(found) == [2]


def test_leaderships_go_to_the_first_other_in_sync_replica_in_ar_order() -> None:
    found = plan(
        survey(
            partition(0, [1, 3, 2]),
            partition(1, [2, 1, 3], [1, 3, 2]),  # led by 1, though 2 is preferred
            partition(2, [1, 2, 3], [1, 3]),  # 2 is not in sync
            partition(3, [3, 1, 2]),  # led by another
            drains={1: leads_nothing(1)},
        )
    )
    assert takers(found) == [(0, 3), (1, 2), (2, 3)]
    assert found.replicas == []
    progress = found.progress[BrokerId(1)]
    assert (progress.leaderships, progress.replicas, progress.problems) == (3, 4, [])


def test_a_broker_that_stops_or_is_drained_or_has_another_life_takes_no_leadership() -> None:
    """CORRECTNESS I6, I7: a replica that could not join the ISR is never asked to lead."""
    found = plan(
        survey(
            partition(0, [1, 2, 3]),
            partition(1, [1, 4, 3], lives={4: 99}),
            partition(2, [1, 2]),
            live=(1, 2, 3, 4),
            leaving=(2,),
            drains={1: leads_nothing(1), 3: leads_nothing(3)},
        )
    )
    assert takers(found) == []
    problems = found.progress[BrokerId(1)].problems
    assert [problem.split()[0] for problem in problems] == ["t-0", "t-1", "t-2"]
    assert "ISR is 1,2,3 of the replicas 1,2,3" in problems[0]


def test_leaderships_of_partitions_without_another_replica_are_distinguished() -> None:
    """No waiting moves them, unless the replica moves: by a reassignment, or by a drain of replicas."""
    alone, behind, moving = partition(0, [1]), partition(1, [1, 2], [1]), partition(2, [1], to=[2])
    shown = survey(alone, behind, moving, drains={1: leads_nothing(1)})
    progress = plan(shown).progress[BrokerId(1)]
    assert [problem.split()[0] for problem in progress.problems] == ["t-1", "t-2", "t-0"], (
        "those that pass first"
    )
    assert "it has no other replica" in progress.problems[-1]
    assert (progress.leaderships, progress.permanent) == (3, 1)
    emptied = plan(survey(alone, drains={1: has_nothing(1)}))
    assert emptied.progress[BrokerId(1)].permanent == 0
    assert targets(emptied) == [(0, (2,))]


def test_a_drain_of_leaderships_continues_in_every_life_of_its_broker() -> None:
    """It belongs to the broker, not to a session, which ends whenever ZooKeeper or a network pauses."""
    found = plan(survey(partition(0, [1, 2]), drains={1: Drain(BrokerEpoch(1), replicas=False)}))
    assert [move.give_to for move in found.leaderships] == [2]
    assert found.progress[BrokerId(1)].leaderships == 1


def test_a_drain_of_a_dead_broker_names_what_cannot_move() -> None:
    """No live replica has the data: a reassignment could not complete."""
    alone, shared, moving = partition(0, [1]), partition(1, [1, 2], [1, 2]), partition(2, [1], to=[3])
    shown = survey(alone, shared, moving, live=(2, 3), dead=(1,), drains={1: has_nothing(1)})
    found = plan(shown)
    assert targets(found) == [(1, (3, 2))]
    progress = found.progress[BrokerId(1)]
    assert (progress.leaderships, progress.replicas) == (0, 3), "it leads nothing, even if `isr` names it"
    why = "nobody leads it, and only broker 1 was in sync, which is not alive"
    assert list(progress.problems) == [f"t-0 cannot move: {why}", f"t-2 moves to 3, but {why}"]
    stays = plan(survey(alone, live=(2, 3), dead=(1,), drains={1: leads_nothing(1)}))
    assert list(stays.progress[BrokerId(1)].problems) == [f"t-0 cannot be led by another: {why}"]


def test_a_move_that_waits_for_a_dead_target_reports_it() -> None:
    shown = survey(partition(0, [1, 2], to=[3, 2]), live=(1, 2), dead=(3,), drains={1: has_nothing(1)})
    (problem,) = plan(shown).progress[BrokerId(1)].problems
    assert problem == "t-0 moves to 3,2, but waits for broker 3, which is not alive"


def test_another_throttle_also_applies_to_the_active_moves() -> None:
    """It applies to the drain's own moves, which have its earlier throttle; a throttle that an operator set
    stays."""
    own, others, back = (
        partition(number, [1, 2], to=[3, 2], throttle=throttle, reverting=reverting)
        for number, throttle, reverting in ((0, 10, False), (1, 77, False), (2, 10, True))
    )
    drain = Drain(life(1), replicas=True, throttle_bytes_per_s=5_000, earlier_throttles=(10, 20))
    found = plan(survey(own, others, back, drains={1: drain}))
    assert [(m.partition.key.partition, m.replicas, m.throttle_bytes_per_s) for m in found.replicas] == [
        (0, (3, 2), 5_000)
    ]


def test_each_move_names_the_caller_that_asked_for_its_drain() -> None:
    """A17: a replica moves for the drain of replicas, also where an earlier one in AR leads nothing."""
    alice, bob = AskedBy("User:alice", "192.0.2.1"), AskedBy("User:bob", "192.0.2.2")
    drains = {1: Drain(life(1), replicas=False, by=alice), 2: Drain(life(2), replicas=True, by=bob)}
    found = plan(survey(partition(0, [1, 2, 3]), live=(1, 2, 3, 4), drains=drains))
    assert [(move.give_to, move.by) for move in found.leaderships] == [(3, alice)]
    assert [(move.replicas, move.by) for move in found.replicas] == [((1, 4, 3), bob)]


def test_a_drain_of_replicas_continues_in_every_life_and_in_none() -> None:
    old = Drain(BrokerEpoch(1), replicas=True)
    assert targets(plan(survey(partition(0, [1, 2]), drains={1: old}))) == [(0, (3, 2))]
    gone = survey(partition(0, [1, 2], [2]), live=(2, 3), dead=(1,), drains={1: old})
    assert targets(plan(gone)) == [(0, (3, 2))]


def test_a_replica_is_replaced_in_its_place_by_the_broker_with_the_fewest() -> None:
    """The broker that replaces the preferred replica becomes preferred: leaderships stay even."""
    found = plan(
        survey(
            partition(0, [1, 2]),
            partition(1, [2, 1]),
            partition(2, [3, 2]),
            live=(1, 2, 3, 4),
            drains={1: has_nothing(1, 5_000)},
        )
    )
    assert targets(found) == [(0, (4, 2)), (1, (2, 3))]
    assert {move.throttle_bytes_per_s for move in found.replicas} == {5_000}


def test_racks_are_kept_apart_before_loads_are_kept_even() -> None:
    found = plan(
        survey(
            partition(0, [1, 2]),
            partition(1, [4, 2]),
            partition(2, [4, 3]),
            live=(1, 2, 3, 4),
            racks={1: "a", 2: "b", 3: "b", 4: "a"},
            drains={1: has_nothing(1)},
        )
    )
    assert targets(found) == [(0, (4, 2))]


def test_partitions_that_move_already_are_left_alone() -> None:
    found = plan(
        survey(
            partition(0, [1, 2], to=[3, 2]),
            partition(1, [2, 3], [2, 3], to=[1, 3]),
            live=(1, 2, 3),
            drains={1: has_nothing(1)},
        )
    )
    assert found.replicas == []
    problems = found.progress[BrokerId(1)].problems
    assert len(problems) == 1
    assert problems[0].startswith("t-1 is being reassigned to 1,3")


def test_with_too_few_brokers_the_problem_names_partition_and_replicas() -> None:
    found = plan(survey(partition(4, [1, 2, 3]), drains={1: has_nothing(1)}))
    assert found.replicas == []
    assert "t-4 has the replicas 1,2,3" in found.progress[BrokerId(1)].problems[0]


def test_the_limit_of_moves_counts_those_that_others_began() -> None:
    moving = partition(0, [2, 3], to=[2, 4])
    waiting = [partition(number, [1, 2]) for number in range(1, 9)]
    found = plan(survey(moving, *waiting, live=(1, 2, 3, 4), drains={1: has_nothing(1)}), moving_max=3)
    assert len(found.replicas) == 2
    assert found.progress[BrokerId(1)].problems == []


@given(st.data())
def test_a_target_has_the_same_number_of_replicas_none_twice_none_drained_and_keeps_those_that_stay(
    data: st.DataObject,
) -> None:
    live = data.draw(st.sets(st.integers(1, 8), min_size=2))
    emptied = data.draw(st.sets(st.sampled_from(sorted(live)), min_size=1, max_size=3))
    assigned = st.lists(st.sampled_from(sorted(live)), min_size=1, max_size=len(live), unique=True)
    placed = data.draw(st.lists(assigned, max_size=6))
    racks = {broker: data.draw(st.sampled_from("ab")) for broker in live}
    found = plan(
        survey(
            *(partition(number, replicas) for number, replicas in enumerate(placed)),
            live=live,
            racks=racks,
            drains={broker: has_nothing(broker) for broker in emptied},
        )
    )
    moved = dict(targets(found))
    for number, before in enumerate(placed):
        leaving = emptied.intersection(before)
        room = len(live - emptied - set(before))
        assert (number in moved) == bool(leaving and len(leaving) <= room)
        after = moved.get(number, tuple(before))
        assert len(set(after)) == len(before)
        if number in moved:
            assert emptied.isdisjoint(after)
            assert all(a == b for a, b in zip(after, before, strict=True) if b not in emptied)
    assert Counter(len(replicas) for replicas in moved.values()) == Counter(len(placed[n]) for n in moved)
