"""The cluster in numbers, as in the active controller's metrics (docs/run/metrics.md)."""

from __future__ import annotations

from strandline.controller.core.upkeep.census import take_census
from tests.controller.core.support.surveys import leads_nothing, partition, survey

NOBODY = -1


def test_a_healthy_cluster_has_nothing_to_worry_about() -> None:
    census = take_census(survey(partition(0, (1, 2, 3)), partition(1, (2, 3, 1))))
    assert (census.topics, census.partitions, census.brokers_alive) == (1, 2, 3)
    assert (census.offline, census.not_preferred, census.overdue) == (0, 0, 0)
    assert (census.brokers_gone, census.brokers_drained) == (0, 0)


def test_a_partition_is_offline_without_a_leader_that_is_alive_in_the_life_that_was_elected() -> None:
    """No leader on record; a dead leader; or one that came back, and does not lead in its new life
    (CORRECTNESS E4)."""
    nobody = partition(0, (1, 2), leader=NOBODY)
    gone = partition(1, (4, 2))
    reborn = partition(2, (1, 2), lives={1: 7})
    led = partition(3, (1, 2))
    assert take_census(survey(nobody, gone, reborn, led)).offline == 3


def test_led_by_another_than_the_first_replica_is_distinguished_from_not_led() -> None:
    census = take_census(survey(partition(0, (1, 2), leader=2), partition(1, (4, 1))))
    assert (census.not_preferred, census.offline) == (1, 1)


def test_absent_members_are_counted() -> None:
    moving = partition(0, (1, 2), to=(2, 3))
    census = take_census(survey(moving, dead=(4, 5), drains={1: leads_nothing(1)}))
    assert (census.brokers_gone, census.brokers_drained) == (2, 1)
