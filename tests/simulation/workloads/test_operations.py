"""An operator balances the brokers, and has some leave and come back, also under all faults."""

from __future__ import annotations

from typing import Final

import pytest

from strandline.client.admin.topics import PartitionDescription, TopicDescription
from strandline.ids import INTERNAL_PREFIX, TopicId, TopicPartition
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.run import run_quietly
from strandline_lab.simulation.workloads.operations import Operations, misplaced
from strandline_lab.simulation.workloads.writing import Writing

WRITING: Final = Writing(name="writing", partitions=4, writers=1, pause_s=0.1, min_insync=2, synced=False)


def topic(name: str, *replicas: int) -> TopicDescription:
    partition = PartitionDescription(
        0, replicas[0], 1, replicas, isr=replicas, high_watermark=0, log_end_offset=0
    )
    return TopicDescription(name, TopicId("id"), {}, (partition,))


def test_without_faults_brokers_are_balanced_and_some_leave() -> None:
    operating = Operations(name="operations", topics=2, pause_s=1.0, moves=False, balances=True)
    plan = Plan(
        seed=1, seconds=30.0, brokers=operating.brokers_min, workloads=(operating, WRITING), faults=()
    )
    outcome = run_quietly(plan)
    assert outcome.problems == ()
    assert outcome.counts["operations moves of balances"] > 0
    assert outcome.counts["operations brokers forgotten"] > 0


def test_each_partition_has_the_replicas_that_it_was_given_on_brokers_that_differ() -> None:
    sound = [topic("operations-0", 0, 1, 2), topic("writing", 2, 3, 0)]
    assert not list(misplaced(sound, {}, moves=False))
    two = [topic("writing", 2, 3), topic(f"{INTERNAL_PREFIX}x", 2, 3)]
    three = {TopicPartition(f"{INTERNAL_PREFIX}x", 0): 3}
    assert list(misplaced(two, three, moves=False)) == [
        "writing-0 has the replicas [2, 3]",
        "__x-0 has the replicas [2, 3]",
    ]
    assert list(misplaced(two, three, moves=True)) == ["__x-0 has the replicas [2, 3]"]
    assert list(misplaced([topic("writing", 1, 1, 2)], {}, moves=False))


def test_an_internal_topic_has_fewer_replicas_if_fewer_brokers_were_alive() -> None:
    """With seed 1200601 of 60 s, a broker was away when `__group_events` was created."""
    name = f"{INTERNAL_PREFIX}x"
    assert not list(misplaced([topic(name, 2, 3)], {TopicPartition(name, 0): 2}, moves=True))


def test_plans_in_which_brokers_are_balanced_have_a_broker_more() -> None:
    plans = [Plan.drawn(seed, 12.0) for seed in range(60)]
    balancing = [
        plan
        for plan in plans
        if any(isinstance(each, Operations) and each.balances for each in plan.workloads)
    ]
    operating = [plan for plan in plans if any(isinstance(each, Operations) for each in plan.workloads)]
    assert 0 < len(balancing) < len(operating)
    assert all(plan.brokers == 3 + (plan in balancing) for plan in plans)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [2000, 2010, 2123, 2144])
def test_under_faults_balances_end_and_nothing_is_lost(seed: int) -> None:
    plan = Plan.drawn(seed, 6.0)
    assert plan.brokers == 4
    outcome = run_quietly(plan)
    assert outcome.problems == (), "\n".join((*map(str, outcome.problems), *outcome.steps))


def test_a_broker_that_leaves_as_the_faults_end_is_not_stopped() -> None:
    """No fault would start it again."""
    operating = Operations(name="operations", topics=3, pause_s=3.0, moves=True, balances=True)
    plan = Plan(
        seed=8225,
        seconds=6.0,
        brokers=operating.brokers_min,
        controllers=1,
        workloads=(operating,),
        faults=(),
    )
    assert run_quietly(plan).problems == ()
