"""Both ends of an RPC of `Admin` mean the same, and requests have bounds."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.adapters.codecs import admin as rpcs
from strandline.adapters.codecs.messages import Call
from strandline.adapters.rpc.request_parsing import REQUEST_ELEMENTS_MAX
from strandline.errors import InvalidRequest, LeaderHint, NotController
from strandline.ids import BrokerId, TopicId, TopicPartition
from strandline.ports import Listener
from strandline.rpc import admin_pb2
from strandline.vocabulary.admin import (
    AlterTopic,
    BalanceAction,
    BalanceDescription,
    BalancePlan,
    BrokerCheck,
    BrokerDescription,
    BrokerLoad,
    CheckBroker,
    ClusterDescription,
    CreateTopics,
    DeleteTopics,
    DrainBroker,
    DrainProgress,
    ElectUnclean,
    ForgetBroker,
    ForgottenBroker,
    NewTopic,
    OngoingReassignment,
    PartitionBytes,
    PartitionReassignment,
    PartitionResult,
    Reassign,
    StartBalance,
    StateChangesAnswer,
    StateChangesQuery,
    TopicResult,
    UncleanElection,
)
from strandline.vocabulary.metadata import BalanceMove, BalanceState, Endpoint

NAME = TopicPartition("orders", 7)
BEFORE, AFTER = (BrokerId(1), BrokerId(2)), (BrokerId(3), BrokerId(2))

REQUESTS: list[tuple[Call[Any, Any], Any]] = [
    (
        rpcs.CREATE_TOPICS,
        CreateTopics(
            (NewTopic("t", 3, 2, {"retention.ms": "7"}), NewTopic("u", 0, 0, {}, ((1, 2), (2, 1)))),
            True,
            True,
        ),
    ),
    (rpcs.DELETE_TOPICS, DeleteTopics(("t", "u"), ("i", "j"))),
    (
        rpcs.ALTER_TOPIC,
        AlterTopic("t", {"retention.ms": "7"}, ("flush.ms",), 4, ((1, 2),), True, TopicId("i")),
    ),
    (
        rpcs.REASSIGN,
        Reassign(
            (PartitionReassignment(NAME, (3, 1), topic_id=TopicId("i")), PartitionReassignment(NAME, ())),
            9,
            True,
            -1,
            True,
        ),
    ),
    (rpcs.LIST_REASSIGNMENTS, None),
    (rpcs.ELECT_PREFERRED, (NAME,)),
    (rpcs.ELECT_UNCLEAN, ElectUnclean((NAME,), True, ("i",))),
    (rpcs.DRAIN_BROKER, DrainBroker(3, True, True, 9, True)),
    (rpcs.FORGET_BROKER, ForgetBroker(3)),
    (rpcs.CHECK_BROKER, CheckBroker(3, True)),
    (rpcs.BALANCE, StartBalance((1, 2), ("t",), 9, True, (PartitionBytes(NAME, 5),))),
    (rpcs.DESCRIBE_BALANCE, None),
    (rpcs.ALTER_BALANCE, BalanceAction.REVERT),
    (rpcs.DESCRIBE_CLUSTER, None),
    (rpcs.STATE_CHANGES, StateChangesQuery((1, 2), "t", 3, True, (5, 6), 7)),
]

ANSWERS: list[tuple[Call[Any, Any], Any]] = [
    (rpcs.CREATE_TOPICS, (TopicResult("t", None, "id", ("a doubt",)),)),
    (rpcs.DELETE_TOPICS, (TopicResult("t"),)),
    (rpcs.ALTER_TOPIC, None),
    (rpcs.REASSIGN, (PartitionResult(NAME, None, ("a doubt",)),)),
    (rpcs.LIST_REASSIGNMENTS, (OngoingReassignment(NAME, (1, 2), (3,), (1,), 9, True, 5, True),)),
    (rpcs.ELECT_PREFERRED, (PartitionResult(NAME),)),
    (
        rpcs.ELECT_UNCLEAN,
        (UncleanElection(NAME, None, 3, 5, 7, 9, "2 records", ("broker 1 is gone",), TopicId("i")),),
    ),
    (rpcs.DRAIN_BROKER, DrainProgress(1, 2, ("a", "b"), 1)),
    (rpcs.FORGET_BROKER, ForgottenBroker(True, 3)),
    (rpcs.CHECK_BROKER, BrokerCheck(False, ("a", "b"), 1, 2, ("b",), True)),
    (
        rpcs.BALANCE,
        BalancePlan(
            (BalanceMove(NAME, TopicId("i"), BEFORE, AFTER, 5),),
            (BrokerLoad(1, 2, 3, 4, 5, 6, 7, "dead"),),
            8,
        ),
    ),
    (rpcs.DESCRIBE_BALANCE, BalanceDescription(BalanceState.PAUSED, 1, 2, 9, 4, 3, 1, ("a",), ("b",))),
    (rpcs.ALTER_BALANCE, BalanceDescription(BalanceState.NONE)),
    (
        rpcs.DESCRIBE_CLUSTER,
        ClusterDescription(
            "c",
            Endpoint(9, "h", 1, "r"),
            (BrokerDescription(Endpoint(1, "h", 2), 5, True, 6, 7, True, True),),
        ),
    ),
    (rpcs.STATE_CHANGES, StateChangesAnswer((b"event",), (5, 6))),
]


@pytest.mark.parametrize(("rpc", "request_"), REQUESTS, ids=[rpc.path for rpc, _ in REQUESTS])
def test_a_request_is_read_as_it_was_meant(rpc: Call[Any, Any], request_: object) -> None:
    assert rpc.served.decode(rpc.encode(request_)) == request_


@pytest.mark.parametrize(("rpc", "answer"), ANSWERS, ids=[rpc.path for rpc, _ in ANSWERS])
def test_an_answer_is_read_as_it_was_meant(rpc: Call[Any, Any], answer: object) -> None:
    assert rpc.decode(rpc.served.encode(answer, Listener.INTERNAL)) == answer


@pytest.mark.parametrize("rpc", [rpc for rpc, _ in REQUESTS], ids=[rpc.path for rpc, _ in REQUESTS])
def test_an_error_of_the_whole_request_is_raised(rpc: Call[Any, Any]) -> None:
    if rpc.served.refuse is None:
        assert rpc in (rpcs.CREATE_TOPICS, rpcs.DELETE_TOPICS, rpcs.REASSIGN), "each part has its error"
        return
    error = NotController("not here", leader=LeaderHint(2, "h", 1, 0))
    with pytest.raises(NotController) as raised:
        rpc.decode(rpc.served.refuse(error, Listener.INTERNAL))
    assert raised.value.leader == error.leader


def test_an_error_of_one_part_leaves_out_the_rest_of_that_part() -> None:
    failed = UncleanElection(NAME, InvalidRequest("no"))
    data = rpcs.ELECT_UNCLEAN.served.encode([failed], Listener.INTERNAL)
    (sent,) = admin_pb2.ElectUncleanResponse.FromString(data).results
    assert [field.name for field, _ in sent.ListFields()] == ["topic", "partition", "error"]
    (found,) = rpcs.ELECT_UNCLEAN.decode(data)
    assert found.name == NAME and isinstance(found.error, InvalidRequest)


@pytest.mark.parametrize(
    ("rpc", "request_"),
    [
        (
            rpcs.CREATE_TOPICS,
            CreateTopics([NewTopic("t", assignments=[[]] * (REQUEST_ELEMENTS_MAX + 1))], True),
        ),
        (rpcs.ALTER_TOPIC, AlterTopic("t", assignments=[[]] * (REQUEST_ELEMENTS_MAX + 1))),
        (rpcs.ALTER_TOPIC, AlterTopic("t", assignments=[[1] * (rpcs.REPLICAS_PER_PARTITION_MAX + 1)])),
        (
            rpcs.REASSIGN,
            Reassign([PartitionReassignment(NAME, (1,) * (rpcs.REPLICAS_PER_PARTITION_MAX + 1))]),
        ),
        (rpcs.STATE_CHANGES, StateChangesQuery(brokers=(1,) * (REQUEST_ELEMENTS_MAX + 1))),
        (rpcs.STATE_CHANGES, StateChangesQuery(from_offsets=(1,) * (REQUEST_ELEMENTS_MAX + 1))),
    ],
)
def test_a_request_has_bounds(rpc: Call[Any, Any], request_: object) -> None:
    with pytest.raises(InvalidRequest):
        rpc.served.decode(rpc.encode(request_))


def test_an_answer_lists_the_first_problems_and_counts_the_others() -> None:
    problems = [f"p{number}" for number in range(rpcs.PROBLEMS_MAX + 5)]
    found = rpcs.CHECK_BROKER.decode(
        rpcs.CHECK_BROKER.served.encode(BrokerCheck(False, problems, 0, 0), Listener.INTERNAL)
    )
    assert list(found.problems) == [*problems[: rpcs.PROBLEMS_MAX], "and 5 more"]


@pytest.mark.parametrize("action", [-1, 0, 5, 2**31 - 1])
def test_an_action_that_no_balance_knows_is_refused_with_its_value(action: int) -> None:
    data = admin_pb2.AlterBalanceRequest(action=action).SerializeToString()
    with pytest.raises(InvalidRequest, match=f"action {action} of a balance"):
        rpcs.ALTER_BALANCE.served.decode(data)
