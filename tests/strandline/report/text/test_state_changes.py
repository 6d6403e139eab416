"""The lines of `strandline state-changes`, after the list in Kafka's design V2."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime

import pytest

from strandline.ids import BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.report.text.state_changes import line_of
from strandline.vocabulary.state_changes import AskedBy, ChangeKind, Command, RequestState, StateChangeEvent

DAY = date(2026, 11, 20)
AT = int(datetime(2026, 11, 20, 10, 31, 2, 123_000).timestamp() * 1000)

ASKED = StateChangeEvent(
    id="r",
    command=Command.START_REPLICA,
    state=RequestState.REQUESTED,
    topic="orders",
    key=PartitionKey(TopicId("ab" * 16), PartitionId(1)),
    broker=BrokerId(1),
    epoch=LeaderEpoch(10),
    at_ms=AT,
    requester=BrokerId(0),
)
HAPPENED = replace(ASKED, requester=None, state=RequestState.COMPLETED)


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (ASKED, "leader, broker 0, requested start-replica of orders-1 to broker 1, at epoch 10"),
        (
            replace(ASKED, state=RequestState.RECEIVED),
            "follower, broker 1, received start-replica of orders-1 from leader 0, at epoch 10",
        ),
        (
            replace(ASKED, state=RequestState.COMPLETED),
            "follower, broker 1, completed start-replica of orders-1 from leader 0, at epoch 10",
        ),
        (
            replace(ASKED, state=RequestState.SUPERSEDED, reason="epoch 12 counts"),
            "follower, broker 1, superseded start-replica of orders-1 from leader 0, at epoch 10: "
            "epoch 12 counts",
        ),
        (
            replace(
                ASKED,
                command=Command.DELETE_REPLICA,
                requester=BrokerId(-1),
                epoch=LeaderEpoch(-1),
                reason="topic deleted",
            ),
            "controller, requested delete-replica of orders-1 to broker 1: topic deleted",
        ),
        (
            replace(ASKED, state=RequestState.FAILED, requester=BrokerId(-1), reason="disk is full"),
            "follower, broker 1, failed start-replica of orders-1 from the controller, at epoch 10: "
            "disk is full",
        ),
        (
            replace(HAPPENED, command=ChangeKind.ELECT_LEADER, isr=ids(1, 2), reason="broker 0 is gone"),
            "leader, broker 1, elected for orders-1, ISR 1,2, at epoch 10: broker 0 is gone",
        ),
        (
            replace(HAPPENED, command=ChangeKind.ELECT_LEADER, isr=ids(1), unclean=True),
            "leader, broker 1, elected uncleanly, records may be lost, for orders-1, ISR 1, at epoch 10",
        ),
        (
            replace(HAPPENED, command=ChangeKind.RESIGN_LEADER, isr=ids(1, 2), reason="shutting down"),
            "leader, broker 1, resigned from orders-1, ISR 1,2, at epoch 10: shutting down",
        ),
        (
            replace(
                HAPPENED,
                command=ChangeKind.CHANGE_ISR,
                isr=ids(1, 3),
                left=ids(2),
                joined=ids(3),
                reason="2 late",
            ),
            "leader, broker 1, changed the ISR of orders-1: 2 left, 3 joined, ISR 1,3, at epoch 10: 2 late",
        ),
        (
            replace(
                HAPPENED,
                command=ChangeKind.REASSIGN,
                state=RequestState.REQUESTED,
                requester=BrokerId(-1),
                replicas=ids(4, 5),
            ),
            "controller, requested reassignment of orders-1 to 4,5, at epoch 10",
        ),
        (
            replace(HAPPENED, command=ChangeKind.REASSIGN, replicas=ids(4, 5), isr=ids(5, 4)),
            "leader, broker 1, completed reassignment of orders-1 to 4,5, ISR 5,4, at epoch 10",
        ),
        (
            replace(
                HAPPENED,
                command=ChangeKind.REASSIGN,
                state=RequestState.SUPERSEDED,
                replicas=ids(1, 2),
                reason="cancelled",
            ),
            "leader, broker 1, ended a reassignment of orders-1 otherwise, replicas 1,2, at epoch 10: "
            "cancelled",
        ),
        (
            replace(HAPPENED, command=ChangeKind.TRUNCATE, first=10, end=15, lost=0),
            "follower, broker 1, cut orders-1 from 10 to 15, at epoch 10",
        ),
        (
            replace(HAPPENED, command=ChangeKind.TRUNCATE, first=10, end=15, lost=5, reason="unclean"),
            "follower, broker 1, cut orders-1 from 10 to 15, 5 of these had been committed, at epoch 10: "
            "unclean",
        ),
        (
            replace(
                HAPPENED, command=ChangeKind.TRUNCATE, state=RequestState.FAILED, first=10, end=15, lost=5
            ),
            "follower, broker 1, refused to cut orders-1 from 10 to 15, 5 of these had been committed, "
            "at epoch 10",
        ),
        (
            replace(HAPPENED, command=ChangeKind.DELETE_STRAY, reason="no assignment names it"),
            "broker 1, removed the stray replica of orders-1, at epoch 10: no assignment names it",
        ),
        (
            replace(HAPPENED, command=ChangeKind.DELETE_STRAY, by=AskedBy("User:a\x1b[2J", "192.0.2.1")),
            "broker 1, removed the stray replica of orders-1, at epoch 10 "
            "(for User:a\\x1b[2J from 192.0.2.1)",
        ),
    ],
)
def test_each_kind_is_one_line_with_subject_action_and_reason(event: StateChangeEvent, line: str) -> None:
    """Kafka's design V2: "leader, broker id 0, requested start-replica to broker id 1, at epoch 10"."""
    assert line_of(event, DAY) == f"10:31:02.123  {line}"


def test_another_day_is_named() -> None:
    assert line_of(ASKED, date(2026, 11, 21)).startswith("2026-11-20 10:31:02.123  leader")


def test_a_clock_that_is_arbitrarily_wrong_has_a_line_too() -> None:
    assert line_of(replace(HAPPENED, at_ms=10**18), DAY).startswith(f"{10**18} ms  follower, broker 1")
