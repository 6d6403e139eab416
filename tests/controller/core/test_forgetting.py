"""Which brokers may be forgotten, and the ends of the requests that wait for one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.controller.core.forgetting import REQUESTS_AT_ONCE_MAX, check_forgettable, endings
from strandline.controller.core.survey import Survey, SurveyedPartition
from strandline.controller.core.upkeep.queues import QueueEntry
from strandline.errors import InvalidRequest
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.vocabulary.metadata import Endpoint, PartitionState, Reassignment, Registration
from strandline.vocabulary.state_changes import AskedBy, Command, End, RequestState, StateChange

T = TopicId("t" * 32)
GONE = BrokerId(9)


def partition(number: int, *assigned: int, moving: Reassignment | None = None) -> SurveyedPartition:
    key = PartitionKey(T, PartitionId(number))
    state = PartitionState(NO_BROKER, LeaderEpoch(1), ())
    return SurveyedPartition("t", key, tuple(map(BrokerId, assigned)), state, 1, moving)


def survey(*partitions: SurveyedPartition, live: tuple[int, ...] = (1, 2)) -> Survey:
    registrations = {BrokerId(b): Registration(Endpoint(b, "h", b), BrokerEpoch(b)) for b in live}
    return Survey(registrations, {*registrations, GONE}, {}, {"t": T}, partitions)


def request(number: int, end: End | None = None) -> StateChange:
    key = PartitionKey(T, PartitionId(number))
    return StateChange(f"r{number}", Command.START_REPLICA, "t", key, LeaderEpoch(1), BrokerId(1), 5, end=end)


def test_a_broker_without_replicas_may_go() -> None:
    check_forgettable(survey(partition(0, 1, 2)), GONE)


def test_a_live_broker_stays() -> None:
    with pytest.raises(InvalidRequest, match="broker 9 is alive: stop it first"):
        check_forgettable(survey(live=(1, 9)), GONE)


def test_a_refusal_names_the_partitions_and_the_way_out() -> None:
    with pytest.raises(InvalidRequest, match=r"t-0, t-1, .*t-9 and 3 more") as refused:
        check_forgettable(survey(*(partition(number, 1, 9) for number in range(13))), GONE)
    assert "`strandline broker drain 9 --replicas`" in refused.value.message


@pytest.mark.parametrize(("original", "wanted"), [((1, 9), (1, 2)), ((1, 2), (1, 9))])
@pytest.mark.parametrize("reverting", [False, True])
def test_a_replica_that_goes_or_comes_counts_until_the_move_has_ended(
    original: tuple[int, ...], wanted: tuple[int, ...], reverting: bool
) -> None:
    """A move that is taken back may be taken up again, and the other way round."""
    before, after = tuple(map(BrokerId, original)), tuple(map(BrokerId, wanted))
    moving = Reassignment(T, after, before, 0, reverting)
    with pytest.raises(InvalidRequest, match="has replicas, or gets them by a move: t-0"):
        check_forgettable(survey(partition(0, 1, 2, moving=moving)), GONE)


def test_each_request_ends_once_and_an_end_that_is_there_stays() -> None:
    superseded = End(RequestState.SUPERSEDED, 3, reason="later")
    entries = [
        QueueEntry("request-1", 4, 0, (request(0), request(1, superseded))),
        QueueEntry("request-2", 0, 0, (request(2),)),
    ]
    (group,) = endings(entries, GONE, 7, AskedBy("User:alice", "192.0.2.1"))
    assert [(each.entry, each.version, each.rest, each.failed) for each in group] == [
        ("request-1", 4, (), 1),
        ("request-2", 0, (), 1),
    ]
    ends = [event for each in group for event in each.events if event.state is not RequestState.REQUESTED]
    assert [(event.id, event.state, event.at_ms) for event in ends] == [
        ("r0", RequestState.FAILED, 7),
        ("r1", RequestState.SUPERSEDED, 3),
        ("r2", RequestState.FAILED, 7),
    ]
    assert ends[0].reason == "broker 9 was forgotten, for User:alice from 192.0.2.1"
    assert ends[0].broker == GONE


def test_a_large_queue_ends_in_steps_that_can_be_continued() -> None:
    """A znode with more requests than one write ends loses the first ones, and keeps the others in order."""
    many = tuple(request(number) for number in range(2 * REQUESTS_AT_ONCE_MAX + 1))
    entries = [
        QueueEntry("request-1", 0, 0, (request(0),)),
        QueueEntry("request-2", 7, 0, many),
        QueueEntry("request-3", 0, 0, (request(1),)),
    ]
    groups = list(endings(entries, GONE, 7, None))
    assert [
        [(each.entry, each.version, len(each.rest), each.failed) for each in group] for group in groups
    ] == [
        [("request-1", 0, 0, 1)],
        [("request-2", 7, REQUESTS_AT_ONCE_MAX + 1, REQUESTS_AT_ONCE_MAX)],
        [("request-2", 8, 1, REQUESTS_AT_ONCE_MAX)],
        [("request-2", 9, 0, 1), ("request-3", 0, 0, 1)],
    ]
    assert groups[1][0].rest == many[REQUESTS_AT_ONCE_MAX:]
    left = replace(entries[1], changes=groups[1][0].rest, version=8)
    assert next(endings([left], GONE, 7, None)) == groups[2]


def test_a_znode_without_requests_goes_too() -> None:
    ((each,),) = endings([QueueEntry("request-1", 2, 0, ())], GONE, 7, None)
    assert (each.rest, each.events, each.failed) == ((), (), 0)
