"""Faults that upkeep finds, the time of their repair, and those that it leaves alone (CORRECTNESS E8, Q7)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace

import pytest

from strandline.controller.core.survey import StandingReassignment, Survey, SurveyedPartition
from strandline.controller.core.upkeep.repairs import (
    RETRY_FACTOR_MAX,
    CallElection,
    DropNotices,
    DropReassignment,
    Repair,
    RepairPlanner,
    StartReplica,
)
from strandline.ids import BrokerId, PartitionId, PartitionKey, TopicId
from strandline.vocabulary.metadata import LogCondition, LogStatement
from tests.controller.core.support.surveys import TOPIC_ID, leads_nothing, life, partition, survey

AFTER_MS = 1_000

Queued = Mapping[BrokerId, set[PartitionKey]]


def lasting(given_survey: Survey, queued: Queued | None = None) -> list[Repair]:
    """The repairs of a symptom that lasts long enough."""
    planner = RepairPlanner(AFTER_MS)
    assert planner.plan(given_survey, queued or {}, 0) == []
    return planner.plan(given_survey, queued or {}, AFTER_MS)


def elections(mends: list[Repair]) -> list[int]:
    return [mend.broker for mend in mends if isinstance(mend, CallElection)]


def starts(mends: list[Repair]) -> list[int]:
    return [mend.broker for mend in mends if isinstance(mend, StartReplica)]


def test_nothing_is_wrong_with_a_cluster_at_rest() -> None:
    assert lasting(survey(partition(0, [1, 2, 3]), noticed={1: 2}, drains={2: leads_nothing(2)})) == []


@pytest.mark.parametrize(
    ("isr", "leader", "live", "heir"),
    [
        ([1, 2], -1, [1, 2], 1),  # handed over, and no broker took it
        ([3, 2, 1], 3, [1, 2], 1),  # its leader is gone; AR order decides
        ([2, 3], -1, [1, 2, 3], 2),
    ],
)
def test_without_a_leader_the_first_live_member_of_the_isr_is_notified(
    isr: list[int], leader: int, live: list[int], heir: int
) -> None:
    found = lasting(survey(partition(0, [1, 2, 3], isr, leader=leader), live=live, dead=(3,)))
    assert elections(found) == [heir]


def said(number: int, isr: list[int], *ends: tuple[int, int, LogCondition]) -> SurveyedPartition:
    """A partition without a leader, with these statements: broker, log end, condition."""
    found = partition(number, [1, 2, 3], isr, leader=-1, lives=dict.fromkeys(isr, 50))
    statements = tuple(
        LogStatement(BrokerId(broker), life(broker), condition, 5, 0, end, end)
        for broker, end, condition in ends
    )
    return replace(found, state=replace(found.state, statements=statements))


def test_a_partition_that_waits_for_a_broker_or_an_operator_is_left_alone() -> None:
    """CORRECTNESS E2, E18: whose members said that they cannot lead needs no election and no request; these
    would come again and again, and drown the history in `__state_changes`."""
    lost = said(0, [1], (1, 0, LogCondition.ABSENT))
    one_is_away = said(1, [1, 2], (1, 9, LogCondition.UNSURE))
    assert lasting(survey(lost, one_is_away, live=(1, 3), dead=(2,))) == []


def test_the_longest_log_gets_the_notice_once_all_are_back() -> None:
    """CORRECTNESS E2, E8: its own notice may have been lost."""
    all_back = said(0, [1, 2], (1, 8, LogCondition.UNSURE), (2, 9, LogCondition.UNSURE))
    assert elections(lasting(survey(all_back))) == [2]


def test_a_leader_in_another_life_than_it_was_elected_in_counts_as_none() -> None:
    """CORRECTNESS E4. Only that broker knows whether its log is whole, so it is notified last."""
    found = lasting(survey(partition(0, [1, 2], [1, 2], lives={1: 50})))
    assert elections(found) == [2]
    alone = lasting(survey(partition(0, [1], [1], lives={1: 50})))
    assert elections(alone) == [1]


def test_without_a_live_member_of_the_isr_no_request_is_made() -> None:
    """No mend makes an unclean leader."""
    assert lasting(survey(partition(0, [1, 2], [1]), live=[2], dead=[1])) == []


def test_a_drained_member_gets_the_notice_only_if_there_is_no_other() -> None:
    drains = {1: leads_nothing(1)}
    assert elections(lasting(survey(partition(0, [1, 2], leader=-1), drains=drains))) == [2]
    assert elections(lasting(survey(partition(0, [1, 2], [1], leader=-1), drains=drains))) == [1]


def test_an_assigned_replica_out_of_sync_without_a_request_is_asked_to_start() -> None:
    """A replica that no request ever started: its request was lost with a queue, or bounded away (Q4)."""
    shown = survey(partition(0, [1, 2, 3], [1, 2]))
    assert starts(lasting(shown)) == [3]
    asked = {BrokerId(3): {PartitionKey(TOPIC_ID, PartitionId(0))}}
    assert starts(lasting(shown, asked)) == []
    other = {BrokerId(3): {PartitionKey(TOPIC_ID, PartitionId(1))}}
    assert starts(lasting(shown, other)) == [3]


def test_brokers_that_are_gone_or_stopping_are_not_asked_to_start() -> None:
    assert lasting(survey(partition(0, [1, 2, 3], [1]), live=[1, 2], dead=[3], leaving=[2])) == []


def test_without_a_leader_all_replicas_are_asked() -> None:
    """The heir may have no replica either: a notice alone would find nothing."""
    found = lasting(survey(partition(0, [1, 2], [1, 2], leader=-1, epoch=-1)))
    assert (elections(found), starts(found)) == ([1], [1, 2])


def test_a_new_partition_waits_for_the_start_of_its_first_leader() -> None:
    """Thousands that were created at once got a notice each, long before their brokers came to them."""
    new, led_before = (partition(0, [1, 2], [1, 2], leader=-1, epoch=epoch) for epoch in (-1, 7))
    for waiting in (BrokerId(1), BrokerId(2)):
        queued = {waiting: {new.key}}
        assert elections(lasting(survey(new), queued)) == ([] if waiting == 1 else [1])
        assert elections(lasting(survey(led_before), queued)) == [1]


def test_a_replica_that_a_reassignment_closes_is_not_started_again() -> None:
    shown = survey(partition(0, [1, 2], [2, 3], to=[2, 3]))
    assert lasting(shown) == []
    reverted = survey(partition(0, [1, 2], [1, 2], to=[2, 3], reverting=True))
    assert lasting(reverted) == []


def test_a_replica_that_a_reassignment_closes_is_started_if_it_has_to_lead() -> None:
    """CORRECTNESS Q8: it has closed, and those that replace it are gone; a notice would find nothing."""
    found = lasting(survey(partition(0, [1, 2], [1, 2, 3], to=[3, 2], leader=3), live=(1,), dead=(2, 3)))
    assert (elections(found), starts(found)) == ([1], [1])


def test_a_replica_that_a_reassignment_adds_is_not_missed_while_it_catches_up() -> None:
    """Under a throttle that takes hours; the request that starts it was written with the reassignment."""
    growing = survey(partition(0, [1, 2], [1, 2], to=[2, 3]))
    assert lasting(growing) == []
    behind = survey(partition(0, [1, 2], [1], to=[2, 3]))
    assert starts(lasting(behind)) == [2], "it was there before, and is missed as ever"
    target, now = (BrokerId(2), BrokerId(4)), (1, 2, 3, 4)
    replaced = partition(0, [1, 2], [1, 2], to=[2, 3])
    assert replaced.reassignment is not None
    replaced = replace(
        replaced,
        assigned=tuple(map(BrokerId, now)),
        reassignment=replace(replaced.reassignment, replicas=target),
    )
    assert lasting(survey(replaced, live=now)) == []


def test_an_added_replica_that_is_to_lead_is_asked_to_start() -> None:
    """It may have joined the ISR, and the notice alone would find nothing."""
    found = lasting(survey(partition(0, [1, 2], [3], to=[2, 3], leader=-1)))
    assert (elections(found), starts(found)) == ([3], [2, 3])


def test_a_reassignment_of_an_incarnation_that_is_gone_is_dropped() -> None:
    def standing(topic: str, topic_id: TopicId) -> StandingReassignment:
        return StandingReassignment(topic, PartitionId(0), topic_id, 4)

    old, lost = standing("t", TopicId("b" * 32)), standing("u", TOPIC_ID)
    found = lasting(survey(reassignments=[standing("t", TOPIC_ID), old, lost]))
    assert found == [DropReassignment(old), DropReassignment(lost)]


def test_notices_of_the_dead_are_dropped() -> None:
    assert lasting(survey(live=[1], dead=[2], noticed={1: 3, 2: 5})) == [DropNotices(BrokerId(2), 5)]


def test_a_problem_that_clears_meanwhile_starts_its_wait_again() -> None:
    wrong, right = survey(partition(0, [1, 2], [1])), survey(partition(0, [1, 2]))
    planner = RepairPlanner(AFTER_MS)
    assert planner.plan(wrong, {}, 0) == []
    assert planner.plan(right, {}, AFTER_MS - 1) == []
    assert planner.plan(wrong, {}, AFTER_MS) == []
    assert planner.plan(wrong, {}, 2 * AFTER_MS - 1) == []
    assert starts(planner.plan(wrong, {}, 2 * AFTER_MS)) == [2]


def test_a_repair_that_did_not_help_is_retried_with_doubling_waits_up_to_a_bound() -> None:
    """A replica that catches up for hours looks like one that never started."""
    wrong = survey(partition(0, [1, 2], [1]))
    planner = RepairPlanner(AFTER_MS)
    tries = [now for now in range(0, 400 * AFTER_MS, AFTER_MS) if planner.plan(wrong, {}, now)]
    gaps = [(later - earlier) // AFTER_MS for earlier, later in itertools.pairwise(tries)]
    assert gaps[:7] == [2, 4, 8, 16, 32, RETRY_FACTOR_MAX, RETRY_FACTOR_MAX]
