"""Plans of faults: what is drawn from the same lots is the same, and can be done."""

from __future__ import annotations

import itertools
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_lab.chaos.core.faults import OPERATED, FaultKind, Member, Role, Target
from strandline_lab.chaos.core.plan import APART_S, AT_ONCE, Plan, Setting, TopicPlan, draw, dump, load, moved

TOPICS = (TopicPlan("swell", 4), TopicPlan("ebb", 2))


def members(brokers: int = 3, controllers: int = 2, zookeepers: int = 1, clients: int = 7) -> list[Member]:
    sizes = {
        Role.BROKER: brokers,
        Role.CONTROLLER: controllers,
        Role.ZOOKEEPER: zookeepers,
        Role.CLIENT: clients,
    }
    return [Member(role, number) for role, size in sizes.items() for number in range(1, size + 1)]


settings = st.builds(
    Setting,
    seconds=st.floats(5, 300),
    members=st.builds(members, *(st.integers(low, high) for low, high in ((1, 5), (0, 3), (0, 3), (0, 7)))),
    topics=st.just(TOPICS),
    groups=st.integers(0, 3),
    can=st.frozensets(st.sampled_from(FaultKind)),
)
seeds = st.integers(0, 2**31)


def plan_of(seed: int, setting: Setting) -> Plan:
    return draw(Random(seed).random, seed, setting)


@given(seeds, settings)
def test_the_same_lots_give_the_same_plan(seed: int, setting: Setting) -> None:
    assert plan_of(seed, setting) == plan_of(seed, setting)


@given(seeds, settings)
def test_every_fault_is_within_the_round_and_in_order(seed: int, setting: Setting) -> None:
    faults = plan_of(seed, setting).faults
    assert all(0 <= fault.begins_s <= fault.ends_s <= setting.seconds for fault in faults)
    assert [fault.begins_s for fault in faults] == sorted(fault.begins_s for fault in faults)


@given(seeds, settings)
def test_no_member_is_meant_for_two_faults_at_a_time(seed: int, setting: Setting) -> None:
    meant = [
        (Member(fault.role, number), fault)
        for fault in plan_of(seed, setting).faults
        if fault.target is Target.ANY
        for number in {fault.number, fault.other} - {-1}
    ]
    for (one, fault), (two, other) in itertools.combinations(meant, 2):
        if one == two and fault != other:
            first, second = sorted((fault, other), key=lambda each: each.begins_s)
            assert second.begins_s >= first.ends_s + APART_S - 0.01


@given(seeds, settings)
def test_a_fault_fits_its_target_and_the_target_exists(seed: int, setting: Setting) -> None:
    for fault in plan_of(seed, setting).faults:
        assert fault.kind in setting.can
        assert setting.of_role(fault.role)
        match fault.target:
            case Target.ANY:
                assert Member(fault.role, fault.number) in setting.members
            case Target.LEADER | Target.FOLLOWER:
                assert 0 <= fault.number < setting.partitions
            case Target.COORDINATOR:
                assert 0 <= fault.number < setting.groups
        if fault.role is Role.CLIENT:
            assert fault.kind in {FaultKind.KILL, FaultKind.TERMINATE, FaultKind.PAUSE}
        if fault.kind is FaultKind.ONE_WAY:
            assert Member(fault.role, fault.other) in setting.members
            assert fault.other != fault.number
        assert (fault.lasts_s == 0) == (fault.kind in AT_ONCE)


@given(seeds, settings)
def test_a_plan_that_was_written_down_is_read_as_it_was(seed: int, setting: Setting) -> None:
    plan = plan_of(seed, setting)
    assert load(dump(plan)) == plan


@pytest.mark.parametrize("kind", FaultKind)
def test_each_kind_is_drawn_by_some_seed_among_all(kind: FaultKind) -> None:
    setting = Setting(60, members(), TOPICS, 3, frozenset(FaultKind))
    drawn = (fault.kind for seed in range(100) for fault in plan_of(seed, setting).faults)
    assert kind in drawn


@pytest.mark.parametrize("kind", FaultKind)
def test_each_kind_is_drawn_where_there_is_nothing_else(kind: FaultKind) -> None:
    setting = Setting(60, members(), TOPICS, 3, {kind})
    kinds = {fault.kind for seed in range(20) for fault in plan_of(seed, setting).faults}
    assert kinds == {kind}


@given(seeds, settings)
def test_what_an_operator_does_changes_no_other_fault(seed: int, setting: Setting) -> None:
    with_operator = plan_of(seed, replace(setting, can={*setting.can, *OPERATED}))
    without = plan_of(seed, replace(setting, can=set(setting.can) - OPERATED))
    kinds = [fault.kind for fault in with_operator.faults if fault.kind in OPERATED]
    assert len(kinds) == len(set(kinds))
    assert tuple(fault for fault in with_operator.faults if fault.kind not in OPERATED) == without.faults


def test_each_role_and_each_target_is_drawn_by_some_seed() -> None:
    setting = Setting(60, members(zookeepers=3), TOPICS, 3, frozenset(FaultKind))
    faults = [fault for seed in range(100) for fault in plan_of(seed, setting).faults]
    assert {fault.role for fault in faults} == set(Role)
    assert {fault.target for fault in faults} == set(Target)


def test_some_plans_have_no_fault_some_take_all_brokers_at_once_and_some_the_quorum() -> None:
    setting = Setting(60, members(zookeepers=3), TOPICS, 3, {FaultKind.KILL})
    plans = [plan_of(seed, setting) for seed in range(200)]
    assert any(not plan.faults for plan in plans)
    assert any(_down_at_once(plan, Role.BROKER) == 3 for plan in plans)
    assert any(_down_at_once(plan, Role.ZOOKEEPER) == 2 for plan in plans)


def _down_at_once(plan: Plan, role: Role) -> int:
    """How many of a role are at some moment under faults that are meant for them."""
    meant = [each for each in plan.faults if each.target is Target.ANY and each.role is role]
    return max(
        (
            len({each.number for each in meant if each.begins_s <= fault.begins_s < each.ends_s})
            for fault in meant
        ),
        default=0,
    )


def test_the_number_of_a_partition_counts_through_the_topics() -> None:
    plan = Plan(1, 60, (), TOPICS, ())
    assert [plan.partition(number) for number in (0, 3, 4, 5)] == [
        ("swell", 0), ("swell", 3), ("ebb", 0), ("ebb", 1),
    ]  # fmt: skip


@given(st.integers(1, 5), st.integers(1, 3), st.data())
def test_a_partition_that_moves_keeps_a_replica_and_loses_or_gets_one(
    brokers: int, factor: int, data: st.DataObject
) -> None:
    factor = min(brokers, factor)
    ids = range(1, brokers + 1)
    before = data.draw(st.permutations(ids).map(lambda order: order[: max(1, factor)]))
    for _ in range(4):
        after = moved(before, ids, factor)
        assert len(set(after)) == len(after)
        assert set(after) <= set(ids)
        assert len(after) >= 1
        assert set(after) != set(before) or brokers == 1
        assert set(after) & set(before) or len(before) == 1
        before = list(after)
