"""Elections and reassignments that Kafka clients ask for, as the controller gets them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from strandline.broker.kafka.handlers.controller import ControllerRequests
from strandline.broker.kafka.handlers.placement import PlacementApi
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.admin.cluster import UnregisterBrokerRequest
from strandline.broker.kafka.wire.admin.placement import (
    PREFERRED,
    UNCLEAN,
    ElectLeadersRequest,
    ListReassignmentsRequest,
    MovingPartition,
    PartitionOutcome,
    PartitionTarget,
    ReassignRequest,
)
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.errors import (
    ErrorCode,
    InvalidRequest,
    NoReassignmentInProgress,
    NotController,
    StrandlineError,
)
from strandline.ids import TopicPartition
from strandline.vocabulary.admin import (
    ElectUnclean,
    ForgetBroker,
    ForgottenBroker,
    OngoingReassignment,
    PartitionReassignment,
    PartitionResult,
    Reassign,
)
from tests.broker.kafka.support.asking import called
from tests.broker.kafka.support.controller import MemoryController
from tests.broker.support.access import OPEN
from tests.broker.support.replicas import CLOCK

CALL = called(apis.ELECT_LEADERS, 2)
TIDES = (OfTopic("tides", (0, 1)),)
NAMES = [TopicPartition("tides", 0), TopicPartition("tides", 1)]

WAIT_MS = 10_000


def placement(controller: MemoryController) -> PlacementApi:
    return PlacementApi(partial(ControllerRequests, controller.link), OPEN, CLOCK)


def done(names: list[TopicPartition]) -> list[PartitionResult]:
    return [PartitionResult(name) for name in names or NAMES]


async def test_all_partitions_and_none_are_different_requests() -> None:
    """To a Kafka client null is all and an empty list is none; to the controller an empty list is all."""
    controller = MemoryController(done)
    api = placement(controller)
    assert (await api.elect(ElectLeadersRequest((), WAIT_MS), CALL)).topics == ()
    assert controller.asked == []
    (every,) = (await api.elect(ElectLeadersRequest(None, WAIT_MS), CALL)).topics
    assert controller.asked == [("ElectPreferred", [])]
    assert (every.name, [each.partition for each in every.partitions]) == ("tides", [0, 1])


async def test_kinds_of_elections() -> None:
    controller = MemoryController(lambda request: done(NAMES))
    api = placement(controller)
    for kind in (PREFERRED, UNCLEAN):
        assert (await api.elect(ElectLeadersRequest(TIDES, WAIT_MS, kind), CALL)).error == 0
    assert controller.asked == [("ElectPreferred", NAMES), ("ElectUnclean", ElectUnclean(NAMES))]
    unknown = await api.elect(ElectLeadersRequest(TIDES, WAIT_MS, 7), CALL)
    assert (unknown.error, len(controller.asked)) == (ErrorCode.INVALID_REQUEST, 2)


@pytest.mark.parametrize("error", [InvalidRequest("too many"), NotController("there is none")])
async def test_a_refusal_of_the_whole_request_is_said_for_each_partition(error: StrandlineError) -> None:
    """Version 0 of ElectLeaders has no other place for it."""

    def refuse(request: Any) -> None:
        raise error

    api = placement(MemoryController(refuse))
    moves = (OfTopic("tides", (PartitionTarget(0, (1,)), PartitionTarget(1, None))),)
    elected = await api.elect(ElectLeadersRequest(TIDES, 0), CALL)
    for answer in (elected, await api.reassign(ReassignRequest(0, moves), CALL)):
        (topic,) = answer.topics
        assert answer.error == error.code and answer.message
        assert [(each.partition, each.error) for each in topic.partitions] == [
            (0, error.code), (1, error.code)
        ]  # fmt: skip
    assert (await api.reassignments(ListReassignmentsRequest(0, None), CALL)).error == error.code


async def test_only_null_takes_a_reassignment_back() -> None:
    """To the controller no replicas are a cancellation; from a client they are a mistake."""
    controller = MemoryController(lambda request: [PartitionResult(each.name) for each in request.partitions])
    api = placement(controller)
    moves = tuple(PartitionTarget(*each) for each in ((0, (3, 1)), (1, ()), (2, None)))
    (topic,) = (await api.reassign(ReassignRequest(WAIT_MS, (OfTopic("tides", moves),)), CALL)).topics
    assert [(each.partition, each.error) for each in topic.partitions] == [
        (0, 0), (1, ErrorCode.INVALID_REPLICA_ASSIGNMENT), (2, 0)
    ]  # fmt: skip
    sent = [
        PartitionReassignment(TopicPartition("tides", 0), (3, 1)),
        PartitionReassignment(TopicPartition("tides", 2), ()),
    ]
    assert controller.asked == [("Reassign", Reassign(sent))]


async def test_texts_are_where_kafka_has_them() -> None:
    """None says that there is nothing to take back, and an empty one that nothing is asked for."""
    nothing = NoReassignmentInProgress("tides-0 is at rest")
    controller = MemoryController(lambda _: [PartitionResult(TopicPartition("tides", 0), nothing)])
    api = placement(controller)
    back = (OfTopic("tides", (PartitionTarget(0, None),)),)
    answer = await api.reassign(ReassignRequest(WAIT_MS, back), CALL)
    assert answer.topics == (OfTopic("tides", (PartitionOutcome(0, int(nothing.code)),)),)
    assert (answer.message, (await api.reassign(ReassignRequest(WAIT_MS, ()), CALL)).message) == (None, "")


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (ForgottenBroker(was_known=True, requests=3), 0),
        (ForgottenBroker(was_known=False), 102),
        (InvalidRequest("broker 7 is alive"), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_broker_that_will_not_return_is_unregistered(
    outcome: ForgottenBroker | StrandlineError, error: int
) -> None:
    """It is forgotten, as by `strandline broker forget`. One that is alive stays: Kafka fences it."""

    def answer(_: object) -> ForgottenBroker:
        if isinstance(outcome, StrandlineError):
            raise outcome
        return outcome

    controller = MemoryController(answer)
    found = await placement(controller).unregister(UnregisterBrokerRequest(7), CALL)
    assert (found.error, bool(found.message)) == (error, error != 0)
    assert controller.asked == [("ForgetBroker", ForgetBroker(7))]


async def test_a_client_may_forbid_another_number_of_replicas() -> None:
    """KIP-860: the controller decides, since it alone knows the replicas at that moment."""
    controller = MemoryController(lambda request: [PartitionResult(each.name) for each in request.partitions])
    asked = ReassignRequest(WAIT_MS, (OfTopic("tides", (PartitionTarget(0, (3, 1)),)),), may_resize=False)
    answer = await placement(controller).reassign(asked, CALL)
    assert (answer.error, answer.may_resize) == (0, False)
    sent = [PartitionReassignment(TopicPartition("tides", 0), (3, 1), keep_size=True)]
    assert controller.asked == [("Reassign", Reassign(sent))]


async def test_a_partition_that_a_request_moves_twice_is_not_moved() -> None:
    """An empty list was dropped, and the other entry counted."""
    controller = MemoryController(lambda request: [PartitionResult(each.name) for each in request.partitions])
    moves = tuple(
        PartitionTarget(*each) for each in ((0, ()), (0, (3, 1)), (1, (3, 1)), (1, None), (2, None))
    )
    api = placement(controller)
    (topic,) = (await api.reassign(ReassignRequest(WAIT_MS, (OfTopic("tides", moves),)), CALL)).topics
    twice = int(ErrorCode.INVALID_REQUEST)
    assert [(each.partition, each.error) for each in topic.partitions] == [
        (0, twice), (0, twice), (1, twice), (1, twice), (2, 0)
    ]  # fmt: skip
    assert controller.asked == [
        ("Reassign", Reassign([PartitionReassignment(TopicPartition("tides", 2), ())]))
    ]


@pytest.mark.parametrize(
    ("reverting", "adding", "removing"), [(False, (4,), (1, 2)), (True, (), (4,))], ids=["on", "back"]
)
async def test_a_reassignment_shows_what_it_adds_and_removes(
    reverting: bool, adding: tuple[int, ...], removing: tuple[int, ...]
) -> None:
    ongoing = OngoingReassignment(TopicPartition("tides", 0), (1, 2, 3), (4, 3), (1, 2, 3), 0, reverting)
    api = placement(MemoryController(lambda request: [ongoing]))
    (topic,) = (await api.reassignments(ListReassignmentsRequest(0, None), CALL)).topics
    assert topic == OfTopic("tides", (MovingPartition(0, (1, 2, 3, 4), adding, removing),))
    others = ListReassignmentsRequest(WAIT_MS, (OfTopic("tides", (1,)), OfTopic("other", (0,))))
    assert (await api.reassignments(others, CALL)).topics == ()
