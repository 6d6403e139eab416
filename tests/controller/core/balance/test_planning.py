"""The moves of a balance: an even spread with the fewest copies, racks kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations, product
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strandline.config.limits import MIB
from strandline.controller.core.balance.planning import MOVES_MAX, fewest_copies, plan_balance
from strandline.controller.core.survey import Survey
from strandline.errors import InvalidRequest, UnknownTopicOrPartition
from strandline.ids import BrokerId, TopicPartition
from strandline.vocabulary.admin import BalancePlan, BrokerLoad
from tests.controller.core.support.surveys import has_nothing, leads_nothing, partition, survey

GIB = 1024 * MIB
Replicas = tuple[int, ...]


def targets(plan: BalancePlan) -> dict[int, Replicas]:
    return {move.name.partition: move.after for move in plan.moves}


def numbers(plan: BalancePlan) -> list[tuple[int, int, int]]:
    """Of each broker after the balance: its id, replicas, preferred leaderships."""
    return [(load.broker, load.replicas_after, load.leads_after) for load in plan.loads]


def placed(*replicas: Sequence[int], **given: object) -> Survey:
    return survey(
        *(partition(number, each) for number, each in enumerate(replicas)),
        **given,  # type: ignore[arg-type]
    )


def test_a_new_broker_gets_its_share_with_one_copy_for_each_replica() -> None:
    ar = [(1, 2, 3), (2, 3, 1), (3, 1, 2)] * 4
    plan = plan_balance(placed(*ar, live=(1, 2, 3, 4)))
    assert numbers(plan) == [(1, 9, 3), (2, 9, 3), (3, 9, 3), (4, 9, 3)]
    assert plan.copies == len(plan.moves) == 9
    before = {(load.replicas_before, load.leads_before) for load in plan.loads}
    assert before == {(12, 4), (0, 0)}


def test_leaders_are_spread_by_the_order_of_replicas_alone() -> None:
    plan = plan_balance(placed((1, 2, 3), (1, 2, 3), (1, 2, 3)))
    assert numbers(plan) == [(1, 3, 1), (2, 3, 1), (3, 3, 1)]
    assert plan.copies == 0
    assert all(sorted(move.before) == sorted(move.after) for move in plan.moves)


def test_an_even_spread_stays_as_it_is() -> None:
    assert plan_balance(placed((1, 2), (2, 3), (3, 1))).moves == ()


def test_what_moves_is_led_first_where_leaders_are_too_many() -> None:
    """A replica that is copied anyway takes its leadership with it: no partition changes for that alone."""
    plan = plan_balance(placed((1, 2), (2, 1), (1, 2), (2, 1), (1, 2), (2, 1), live=(1, 2, 3)))
    assert numbers(plan) == [(1, 4, 2), (2, 4, 2), (3, 4, 2)]
    assert plan.copies == len(plan.moves) == 4


def test_only_chosen_topics_and_brokers_take_part() -> None:
    cluster = placed((1, 2), (1, 2), (1, 2), (1, 2), live=(1, 2, 3, 4))
    plan = plan_balance(cluster, brokers=[BrokerId(1), BrokerId(3)])
    assert {broker for move in plan.moves for broker in move.added} == {3}
    assert {broker for move in plan.moves for broker in move.removed} == {1}
    assert plan_balance(cluster, topics=["t"]) == plan_balance(cluster)
    with pytest.raises(UnknownTopicOrPartition, match="'u' does not exist"):
        plan_balance(cluster, topics=["t", "u"])


@pytest.mark.parametrize("named", [(1, 5), (1, 3), (1, 4), (1, 6)])
def test_a_broker_that_can_get_no_replicas_is_refused_with_those_that_can(named: tuple[int, ...]) -> None:
    cluster = placed(
        (1, 2),
        live=(1, 2, 3, 4, 5),
        dead=(6,),
        leaving=(5,),
        drains={3: has_nothing(3), 4: leads_nothing(4)},
    )
    with pytest.raises(InvalidRequest, match=f"broker {named[1]} can get no replicas: only 1, 2 are"):
        plan_balance(cluster, brokers=[BrokerId(each) for each in named])
    with pytest.raises(InvalidRequest, match="there is only 1"):
        plan_balance(placed((1,), live=(1,)))


def test_brokers_that_take_no_part_are_shown_with_the_reason() -> None:
    cluster = placed(
        (4, 1), (5, 1), (7, 2), (1, 2), (1, 2),
        live=(1, 2, 3, 4, 5, 6), leaving=(6,), dead=(7, 8), drains={4: has_nothing(4), 5: leads_nothing(5)},
    )  # fmt: skip
    sizes = {TopicPartition("t", 2): 9}
    plan = plan_balance(cluster, brokers=[BrokerId(1), BrokerId(2)], sizes=sizes)
    kept = {load.broker: load for load in plan.loads if load.kept_because}
    assert {broker: load.kept_because for broker, load in kept.items()} == {
        3: "not named", 4: "drained", 5: "drained", 6: "about to stop", 7: "not alive", 8: "not alive",
    }  # fmt: skip
    assert kept[7] == BrokerLoad(7, 1, 1, 9, 1, 1, 9, "not alive")
    assert [load.broker for load in plan.loads] == [*range(1, 9)]


def test_what_moves_already_or_is_deleted_or_has_no_leader_counts_where_it_will_be_and_stays() -> None:
    cluster = survey(
        partition(0, [1, 2], to=[3, 2]),
        partition(1, [1, 5], isr=[5], leader=5),  # no broker that is alive can lead it
        partition(2, [1, 2]),
        partition(3, [1, 2]),
        live=(1, 2, 3),
        dead=(5,),
    )
    assert plan_balance(cluster, deleted=["t"]).moves == ()
    plan = plan_balance(cluster)
    assert set(targets(plan)) <= {2, 3}
    assert [load.replicas_before for load in plan.loads] == [3, 3, 1, 1]
    assert [load.replicas_after for load in plan.loads] in ([3, 2, 2, 1], [2, 3, 2, 1])


def test_replicas_stay_in_as_many_racks() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    plan = plan_balance(placed(*[(1, 3)] * 8, live=racks, racks=racks))
    assert [load[1] for load in numbers(plan)] == [4, 4, 4, 4]
    assert all({racks[b] for b in move.after} == {"a", "b"} for move in plan.moves)
    alone = {1: "a", 2: "a", 3: "b"}
    plan = plan_balance(placed(*[(1, 3)] * 8, live=alone, racks=alone))
    assert [load[1] for load in numbers(plan)] == [4, 4, 8], "the only broker of a rack keeps its replicas"


def test_a_replica_goes_over_a_broker_in_between_if_racks_forbid_the_straight_way() -> None:
    """Broker 4 may not have what 1 has, but what 2 has, and 2 may have what 1 has."""
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    cluster = placed((1, 3), (1, 3), (1, 3), (2, 1), (2, 1), live=racks, racks=racks)
    assert [load[1] for load in numbers(plan_balance(cluster))] in ([3, 2, 3, 2], [3, 2, 2, 3], [2, 3, 3, 2])


def test_bytes_become_even_by_the_choice_of_replicas() -> None:
    sizes = {TopicPartition("t", number): (10 if number < 4 else 1) * GIB for number in range(16)}
    plan = plan_balance(placed(*[(1,), (2,)] * 8, live=(1, 2, 3, 4)), sizes=sizes)
    assert plan.copies == 8
    assert max(load.bytes_after for load in plan.loads) <= 1.5 * sum(sizes.values()) / 4
    assert plan.copied_bytes == sum(move.bytes for move in plan.moves)


def test_replicas_change_places_if_a_disk_has_far_more_than_the_others() -> None:
    sizes = {TopicPartition("t", number): (40 if number % 2 == 0 else 2) * GIB for number in range(12)}
    plan = plan_balance(placed(*[(1,), (2,)] * 6, live=(1, 2)), sizes=sizes)
    assert [load.bytes_before // GIB for load in plan.loads] == [240, 12]
    assert [load.bytes_after // GIB for load in plan.loads] == [126, 126]
    assert numbers(plan) == [(1, 6, 6), (2, 6, 6)]
    small = {name: size // 1024 for name, size in sizes.items()}
    assert plan_balance(placed(*[(1,), (2,)] * 6, live=(1, 2)), sizes=small).moves == ()


def test_a_plan_has_a_bound_and_counts_the_rest() -> None:
    plan = plan_balance(placed(*[(1,)] * (2 * MOVES_MAX + 20), live=(1, 2)))
    assert (len(plan.moves), plan.left_out) == (MOVES_MAX, 10)


# --- properties ---------------------------------------------------------------------------------


@st.composite
def clusters(draw: st.DrawFn, brokers_max: int = 7, partitions_max: int = 30) -> Survey:
    brokers = range(1, draw(st.integers(2, brokers_max)) + 1)
    racks = draw(st.integers(1, 3))
    count = draw(st.integers(1, partitions_max))
    replicas = [
        draw(st.lists(st.sampled_from(brokers), min_size=1, max_size=min(3, len(brokers)), unique=True))
        for _ in range(count)
    ]
    return placed(*replicas, live=brokers, racks={b: f"r{b % racks}" for b in brokers})


def crowding(replicas: Replicas, racks: Mapping[int, str]) -> int:
    """The more the replicas stand in the same racks, the higher."""
    return sum(number**2 for number in Counter(racks[b] for b in replicas).values())


def racks_of(cluster: Survey) -> dict[int, str]:
    return {broker: registration.endpoint.rack for broker, registration in cluster.live.items()}


@given(clusters(), st.randoms(use_true_random=False))
def test_a_plan_keeps_partitions_whole_and_never_makes_the_spread_worse(
    cluster: Survey, random: Random
) -> None:
    sizes = {each.name: random.randrange(50) * GIB for each in cluster.partitions}
    plan = plan_balance(cluster, sizes=sizes)
    racks = racks_of(cluster)
    for move in plan.moves:
        assert len(set(move.after)) == len(move.after) == len(move.before)
        assert crowding(move.after, racks) <= crowding(move.before, racks)
    for before, after in (
        ([load.replicas_before for load in plan.loads], [load.replicas_after for load in plan.loads]),
        ([load.bytes_before for load in plan.loads], [load.bytes_after for load in plan.loads]),
    ):
        assert sum(before) == sum(after)
    replicas = [load.replicas_after for load in plan.loads]
    assert max(replicas) - min(replicas) <= max(
        1, max(load.replicas_before for load in plan.loads) - min(load.replicas_before for load in plan.loads)
    )
    counted: Counter[int] = Counter()
    changed = targets(plan)
    for each in cluster.partitions:
        counted.update(changed.get(each.key.partition, each.assigned))
    assert [counted[load.broker] for load in plan.loads] == replicas


@given(clusters())
def test_without_racks_replicas_and_leaders_differ_by_one_and_copies_are_the_fewest(cluster: Survey) -> None:
    flat = placed(*(each.assigned for each in cluster.partitions), live=cluster.live)
    plan = plan_balance(flat)
    replicas = [load.replicas_after for load in plan.loads]
    wide = max(len(each.assigned) for each in flat.partitions) == len(flat.live)
    if not wide:
        assert max(replicas) - min(replicas) <= 1
    fewest = fewest_copies({BrokerId(load.broker): load.replicas_before for load in plan.loads})
    assert plan.copies <= 1.1 * fewest or wide
    again = plan_balance(after(flat, plan))
    assert again.moves == (), "a balanced cluster is left alone"


def after(cluster: Survey, plan: BalancePlan) -> Survey:
    changed = targets(plan)
    racks = racks_of(cluster)
    return placed(
        *(changed.get(each.key.partition, each.assigned) for each in cluster.partitions),
        live=cluster.live,
        racks=racks,
    )


@example(
    # A move that spreads the third over another rack comes first; 2, 2, 2, 2 would have to undo that.
    placed((1, 3), (2, 1, 3), (3, 4, 1), live=(1, 2, 3, 4), racks={1: "r1", 2: "r2", 3: "r0", 4: "r1"})
)
@given(clusters(brokers_max=4, partitions_max=4))
def test_no_other_plan_is_more_even_or_as_even_with_fewer_copies(cluster: Survey) -> None:
    """Against every assignment that spreads each partition over racks as well as the plan does."""
    racks = racks_of(cluster)
    now = [each.assigned for each in cluster.partitions]
    plan = plan_balance(cluster)
    changed = targets(plan)
    planned = [changed.get(number, old) for number, old in enumerate(now)]
    best = min(
        (
            unevenness(sets, cluster.live),
            sum(len(set(new) - set(old)) for new, old in zip(sets, now, strict=True)),
        )
        for sets in every_assignment(planned, racks)
    )
    assert unevenness(planned, cluster.live) == best[0]
    assert plan.copies <= best[1] + (best[1] > 0 and len(set(racks.values())) > 1)


def every_assignment(planned: Sequence[Replicas], racks: Mapping[int, str]) -> Iterator[Sequence[Replicas]]:
    def allowed(given: Replicas) -> list[Replicas]:
        bound = crowding(given, racks)
        return [new for new in combinations(sorted(racks), len(given)) if crowding(new, racks) <= bound]

    return product(*(allowed(given) for given in planned))


def unevenness(assigned: Sequence[Replicas], brokers: Collection[int]) -> int:
    counted = Counter(broker for replicas in assigned for broker in replicas)
    return sum(counted[broker] ** 2 for broker in brokers)
