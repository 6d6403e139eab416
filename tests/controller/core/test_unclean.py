"""Which replica leads with a loss if an operator wants that (CORRECTNESS E2, E15)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.controller.core.reassignment import Placed
from strandline.controller.core.topics import Brokers
from strandline.controller.core.unclean import plan_unclean
from strandline.errors import ElectionNotNeeded, EligibleLeadersNotAvailable, StrandlineError
from strandline.ids import NO_BROKER, NO_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition
from strandline.vocabulary.metadata import (
    Endpoint,
    IsrMember,
    LogCondition,
    LogStatement,
    PartitionState,
    Registration,
)

NAME = TopicPartition("t", 0)
AR = tuple(BrokerId(b) for b in (1, 2, 3))
UNSURE, OUTSIDE, ABSENT, DAMAGED = LogCondition


def live(*ids: int) -> Brokers:
    """In lives after those that are in sync."""
    registered = {BrokerId(i): Registration(Endpoint(i, "h", 1), BrokerEpoch(10 * i + 1)) for i in ids}
    return Brokers(registered, registered.keys())


def said(
    broker: int,
    end: int,
    condition: LogCondition = UNSURE,
    *,
    epoch: int = 5,
    watermark: int = 0,
    life: int = 1,
) -> LogStatement:
    return LogStatement(
        BrokerId(broker), BrokerEpoch(10 * broker + life), condition, epoch, 0, end, watermark
    )


def partition(*statements: LogStatement, isr: tuple[int, ...] = (1, 2), epoch: int = 5) -> Placed:
    """A partition without a leader; these brokers were in sync."""
    members = tuple(IsrMember(BrokerId(b), BrokerEpoch(10 * b)) for b in isr)
    state = PartitionState(NO_BROKER, LeaderEpoch(epoch), members, statements=statements)
    return Placed(0, AR, 0, state)


@pytest.mark.parametrize(
    ("statements", "chosen"),
    [
        ((said(1, 7), said(3, 9, OUTSIDE)), 3),
        ((said(1, 7, epoch=6), said(3, 9, OUTSIDE)), 1),
        ((said(1, 7), said(3, 7, OUTSIDE)), 1),
        ((said(1, 0, ABSENT, epoch=-1), said(3, 1, OUTSIDE)), 3),
        ((said(1, 0, ABSENT, epoch=-1),), 1),
        ((said(1, 9, DAMAGED), said(3, 1, OUTSIDE)), 3),
    ],
)
def test_the_longest_log_that_can_lead_is_chosen(statements: tuple[LogStatement, ...], chosen: int) -> None:
    """CORRECTNESS E15: a damaged log never leads; the empty one in the place of a lost one leads if no other
    has more."""
    plan = plan_unclean(NAME, partition(*statements), live(1, 3))
    assert plan.chosen.broker == chosen
    assert "broker 2 is not alive" in plan.missing


def test_the_known_loss_is_reported() -> None:
    """Also by a log that cannot lead."""
    plan = plan_unclean(NAME, partition(said(1, 7), said(3, 0, DAMAGED, watermark=12)), live(1, 3))
    assert str(plan.loss) == "committed records 7 to 11 are missing; more may be missing from 12 on"


def test_a_replica_that_may_lead_without_a_loss_is_waited_for() -> None:
    """CORRECTNESS E2: it is alive, was in sync, and has not said that it lacks anything."""
    with pytest.raises(EligibleLeadersNotAvailable, match="broker 2 was in sync, is alive, and has not said"):
        plan_unclean(NAME, partition(said(1, 7)), live(1, 2))
    with pytest.raises(EligibleLeadersNotAvailable, match="broker 1 was in sync"):
        plan_unclean(NAME, partition(said(1, 7, life=0), said(2, 7)), live(1, 2))


@pytest.mark.parametrize(
    ("now", "alive", "error", "says"),
    [
        (partition(), (), EligibleLeadersNotAvailable, r"none of its replicas \(brokers 1, 2, 3\) is alive"),
        (partition(said(1, 9, DAMAGED)), (1,), EligibleLeadersNotAvailable, "none of its replicas"),
        (partition(epoch=NO_EPOCH), (1, 2), ElectionNotNeeded, "was never led"),
    ],
)
def test_a_refusal_has_its_reason(
    now: Placed, alive: tuple[int, ...], error: type[StrandlineError], says: str
) -> None:
    with pytest.raises(error, match=says) as caught:
        plan_unclean(NAME, now, live(*alive))
    assert caught.value.message.startswith("t-0")


def test_a_partition_that_is_led_is_left_alone() -> None:
    """CORRECTNESS E4: by a leader that is alive in the life in which it was elected; else it is not led."""
    now = partition(said(2, 7))
    led = replace(now, state=replace(now.state, leader=BrokerId(1)))
    with pytest.raises(EligibleLeadersNotAvailable, match="broker 1 was in sync"):
        plan_unclean(NAME, led, live(1, 2))
    mine = (IsrMember(BrokerId(1), BrokerEpoch(11)),)
    with pytest.raises(ElectionNotNeeded, match="broker 1 leads"):
        plan_unclean(NAME, replace(led, state=replace(led.state, isr=mine)), live(1, 2))
