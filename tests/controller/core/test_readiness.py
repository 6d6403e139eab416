"""When a broker may be stopped: caught up, and min.insync.replicas hold without it (USERS 11)."""

from __future__ import annotations

import pytest

from strandline.controller.core.readiness import check_broker
from strandline.controller.core.survey import Survey
from strandline.ids import BrokerId
from strandline.vocabulary.admin import BrokerCheck
from tests.controller.core.support.surveys import partition, survey


def check(given_survey: Survey, broker: int = 1, unended: int = 0) -> BrokerCheck:
    return check_broker(given_survey, BrokerId(broker), unended)


def test_a_broker_in_sync_everywhere_whose_partitions_can_spare_it_is_ready() -> None:
    found = check(survey(partition(0, [1, 2, 3], min_insync=2), partition(1, [2, 1, 3], min_insync=2)))
    assert found == BrokerCheck(True, [], leaderships=1, replicas=2, permanent=[])


def test_a_broker_without_replicas_is_ready_and_an_unknown_one_is_not() -> None:
    assert check(survey()).ready
    found = check(survey(), broker=9)
    assert not found.ready
    assert found.problems == ["broker 9 is not registered; alive: 1, 2, 3"]


def test_a_broker_that_stops_or_has_requests_in_its_queue_is_not_ready() -> None:
    found = check(survey(leaving=(1,)), unended=3)
    assert found.problems == [
        "broker 1 is shutting down",
        "broker 1 has 3 state-change requests in its queue",
    ]


@pytest.mark.parametrize(
    ("isr", "lives", "said"),
    [
        ([2, 3], {}, "t-0: broker 1 is not in sync: the ISR is 2,3"),
        ([2, 1, 3], {1: 50}, "t-0: broker 1 is not in sync: the ISR is 2,3"),  # an earlier life of it
        ([1, 2], {}, "t-0: the ISR 1,2 without broker 1 would be 1, and min.insync.replicas is 2"),
        ([1, 2, 3], {3: 50}, "t-0: the ISR 1,2 without broker 1 would be 1, and min.insync.replicas is 2"),
    ],
)
def test_problems_name_the_partition_and_the_values(isr: list[int], lives: dict[int, int], said: str) -> None:
    """CORRECTNESS E4: a member of an earlier life does not count."""
    found = check(survey(partition(0, [1, 2, 3], isr, min_insync=2, lives=lives)))
    assert (found.ready, found.problems) == (False, [said])


def test_a_member_that_is_about_to_stop_does_not_count() -> None:
    """CORRECTNESS I7: two brokers at a time are not stopped."""
    found = check(survey(partition(0, [1, 2, 3], min_insync=2), leaving=(3,)))
    assert not found.ready


@pytest.mark.parametrize(("assigned", "bound"), [([1], 1), ([1, 2], 2)])
def test_a_partition_that_can_never_be_safe_is_named_as_such(assigned: list[int], bound: int) -> None:
    """With a replication factor of one, or equal to the bound, no rolling restart is ever safe: waiting for
    it would never end."""
    found = check(survey(partition(0, assigned, min_insync=bound)))
    (problem,) = found.problems
    assert found.permanent == [problem]
    assert "can ever be stopped safely" in problem
    assert f"replication factor is {len(assigned)} and min.insync.replicas {bound}" in problem


def test_passing_problems_come_first_and_permanent_ones_are_distinguished() -> None:
    lasting, behind = partition(0, [1]), partition(1, [1, 2, 3], [2, 3])
    found = check(survey(lasting, behind))
    assert [problem.split(":")[0] for problem in found.problems] == ["t-1", "t-0"]
    assert found.permanent == found.problems[1:]


@pytest.mark.parametrize(
    ("isr", "leader", "said"),
    [
        ([2], 2, "t-0: broker 1 is not in sync: the ISR is 2"),
        ([1], 1, "t-0: the ISR 1 without broker 1 would be 0, and its other replicas are 1"),
        ([1, 2], -1, "t-0: it has no leader"),
    ],
)
def test_a_partition_that_is_never_safe_is_still_not_made_worse(
    isr: list[int], leader: int, said: str
) -> None:
    """With --except-permanent, a restart still waits until its replicas are in sync, so that one is left to
    lead."""
    found = check(survey(partition(0, [1, 2], isr, leader=leader, min_insync=2)))
    assert (found.problems[0], len(found.permanent)) == (said, 1)


def test_a_single_replica_that_moves_away_stands_in_the_way_only_until_then() -> None:
    found = check(survey(partition(0, [1], to=[2])))
    assert found.permanent == []
    assert found.problems == ["t-0: the ISR 1 without broker 1 would be 0, and min.insync.replicas is 1"]


def test_a_partition_without_a_leader_is_a_problem() -> None:
    (problem,) = check(survey(partition(0, [1, 2, 3], leader=-1))).problems
    assert problem == "t-0: it has no leader"
    (problem,) = check(survey(partition(0, [3, 1, 2]), live=(1, 2))).problems
    assert problem == "t-0: it has no leader"


def test_partitions_of_others_do_not_matter() -> None:
    assert check(survey(partition(0, [2, 3], [2], min_insync=2))).ready


def test_a_replica_that_a_reassignment_takes_away_need_not_be_in_sync() -> None:
    found = check(survey(partition(0, [1, 2], [2, 3], to=[2, 3], min_insync=1)))
    assert found.ready
