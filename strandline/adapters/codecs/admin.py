"""The RPCs of `strandline.v1.Admin`, with the values of `strandline.vocabulary.admin`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from google.protobuf.message import Message

from strandline.adapters.codecs.messages import (
    ENDPOINT,
    ERROR,
    PARTITION,
    Call,
    MessageCodec,
    Part,
    at_most,
    call,
    check_count,
    many,
    nothing,
    only,
    plain,
    same,
    scalars,
    shape,
)
from strandline.adapters.rpc.request_parsing import REQUEST_ELEMENTS_MAX
from strandline.adapters.rpc.wire_errors import error_to_wire
from strandline.config.limits import TOPICS_PER_REQUEST_MAX
from strandline.errors import InvalidRequest
from strandline.ids import TopicPartition
from strandline.ports import Listener, Request, Response
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
from strandline.vocabulary.metadata import BalanceMove, BalanceState

REPLICAS_PER_PARTITION_MAX: Final = 100
"""The replicas that a request may name for one partition."""

PROBLEMS_MAX: Final = 100
"""Problems that an answer lists; the others are counted."""


def _rpc(
    name: str, request: MessageCodec[Request], response: MessageCodec[Response]
) -> Call[Request, Response]:
    return call(f"/strandline.v1.Admin/{name}", request, response)


def _replicas(named: Sequence[int]) -> tuple[int, ...]:
    if len(named) > REPLICAS_PER_PARTITION_MAX:
        raise InvalidRequest(
            f"{len(named)} replicas for one partition; at most {REPLICAS_PER_PARTITION_MAX} are allowed",
            limit=REPLICAS_PER_PARTITION_MAX,
        )
    return tuple(named)


def _first(problems: Sequence[str]) -> list[str]:
    """The first problems, and the number of the others."""
    first = list(problems[:PROBLEMS_MAX])
    if len(problems) > PROBLEMS_MAX:
        first.append(f"and {len(problems) - PROBLEMS_MAX} more")
    return first


_REPLICAS: Final = Part(same, _replicas)
_PROBLEMS: Final = plain(_first, tuple)


# --- topics -------------------------------------------------------------------------------------


def _check_topics(messages: Sequence[admin_pb2.NewTopic]) -> Sequence[admin_pb2.NewTopic]:
    assignments = sum(len(topic.assignments) for topic in messages)
    check_count(assignments, REQUEST_ELEMENTS_MAX, "assignments")
    return messages


_ASSIGNMENT: Final = only(admin_pb2.ReplicaAssignment, "replicas", _REPLICAS)
_TOPIC_RESULTS: Final = many(shape(admin_pb2.TopicResult, TopicResult, error=ERROR, warnings=_PROBLEMS))

CREATE_TOPICS: Final[Call[CreateTopics, Sequence[TopicResult]]] = _rpc(
    "CreateTopics",
    shape(
        admin_pb2.CreateTopicsRequest,
        CreateTopics,
        topics=many(shape(admin_pb2.NewTopic, NewTopic, assignments=many(_ASSIGNMENT)), _check_topics),
    ),
    only(admin_pb2.CreateTopicsResponse, "results", _TOPIC_RESULTS),
)
DELETE_TOPICS: Final[Call[DeleteTopics, Sequence[TopicResult]]] = _rpc(
    "DeleteTopics",
    shape(admin_pb2.DeleteTopicsRequest, DeleteTopics),
    only(admin_pb2.DeleteTopicsResponse, "results", _TOPIC_RESULTS),
)
ALTER_TOPIC: Final = _rpc(
    "AlterTopic",
    shape(
        admin_pb2.AlterTopicRequest,
        AlterTopic,
        assignments=many(_ASSIGNMENT, at_most(REQUEST_ELEMENTS_MAX, "assignments")),
    ),
    nothing(admin_pb2.AlterTopicResponse),
)


# --- placement ----------------------------------------------------------------------------------


def _write_unclean(election: UncleanElection, to: Listener) -> Message:
    """After an error only the error is set."""
    if election.error is None:
        return _UNCLEAN_ELECTION.write(election, to)
    topic, partition = election.name
    return admin_pb2.UncleanElection(
        topic=topic, partition=partition, error=error_to_wire(election.error, to)
    )


_NAME: Final = MessageCodec(
    admin_pb2.TopicPartitionName,
    lambda name, to: admin_pb2.TopicPartitionName(topic=name.topic, partition=name.partition),
    lambda message: TopicPartition(message.topic, message.partition),
)
_MOVE: Final = shape(
    admin_pb2.PartitionReassignment, PartitionReassignment, name=PARTITION, replicas=_REPLICAS
)
_ONGOING: Final = shape(admin_pb2.OngoingReassignment, OngoingReassignment, name=PARTITION)
_PARTITION_RESULTS: Final = many(
    shape(admin_pb2.PartitionResult, PartitionResult, name=PARTITION, error=ERROR, warnings=_PROBLEMS)
)
_UNCLEAN_ELECTION: Final = shape(admin_pb2.UncleanElection, UncleanElection, name=PARTITION, error=ERROR)

REASSIGN: Final[Call[Reassign, Sequence[PartitionResult]]] = _rpc(
    "Reassign",
    shape(admin_pb2.ReassignRequest, Reassign, partitions=many(_MOVE)),
    only(admin_pb2.ReassignResponse, "results", _PARTITION_RESULTS),
)
LIST_REASSIGNMENTS: Final[Call[None, Sequence[OngoingReassignment]]] = _rpc(
    "ListReassignments",
    nothing(admin_pb2.ListReassignmentsRequest),
    only(admin_pb2.ListReassignmentsResponse, "reassignments", many(_ONGOING)),
)
ELECT_PREFERRED: Final[Call[Sequence[TopicPartition], Sequence[PartitionResult]]] = _rpc(
    "ElectPreferred",
    only(admin_pb2.ElectPreferredRequest, "partitions", many(_NAME)),
    only(admin_pb2.ElectPreferredResponse, "results", _PARTITION_RESULTS),
)
ELECT_UNCLEAN: Final[Call[ElectUnclean, Sequence[UncleanElection]]] = _rpc(
    "ElectUnclean",
    shape(admin_pb2.ElectUncleanRequest, ElectUnclean, partitions=many(_NAME)),
    only(
        admin_pb2.ElectUncleanResponse,
        "results",
        many(MessageCodec(admin_pb2.UncleanElection, _write_unclean, _UNCLEAN_ELECTION.read)),
    ),
)


# --- brokers ------------------------------------------------------------------------------------


def _action(number: int) -> BalanceAction:
    try:
        return BalanceAction(number)
    except ValueError:
        raise InvalidRequest(f"action {number} of a balance is not one of {list(BalanceAction)}") from None


_BALANCE_DESCRIPTION: Final = shape(
    admin_pb2.BalanceDescription,
    BalanceDescription,
    state=plain(lambda state: state.value, BalanceState),
    problems=_PROBLEMS,
    skipped_because=_PROBLEMS,
)

DRAIN_BROKER: Final = _rpc(
    "DrainBroker",
    shape(admin_pb2.DrainBrokerRequest, DrainBroker),
    shape(admin_pb2.DrainBrokerResponse, DrainProgress, problems=_PROBLEMS),
)
FORGET_BROKER: Final = _rpc(
    "ForgetBroker",
    shape(admin_pb2.ForgetBrokerRequest, ForgetBroker),
    shape(admin_pb2.ForgetBrokerResponse, ForgottenBroker),
)
BALANCE: Final = _rpc(
    "Balance",
    shape(
        admin_pb2.BalanceRequest,
        StartBalance,
        brokers=scalars(at_most(REQUEST_ELEMENTS_MAX, "brokers")),
        topics=scalars(at_most(TOPICS_PER_REQUEST_MAX, "topics")),
        sizes=many(
            shape(admin_pb2.PartitionBytes, PartitionBytes, name=PARTITION),
            at_most(REQUEST_ELEMENTS_MAX, "sizes"),
        ),
    ),
    shape(
        admin_pb2.BalanceResponse,
        BalancePlan,
        moves=many(shape(admin_pb2.BalanceMove, BalanceMove, name=PARTITION)),
        loads=many(shape(admin_pb2.BrokerLoad, BrokerLoad)),
    ),
)
DESCRIBE_BALANCE: Final = _rpc(
    "DescribeBalance", nothing(admin_pb2.DescribeBalanceRequest), _BALANCE_DESCRIPTION
)
ALTER_BALANCE: Final = _rpc(
    "AlterBalance",
    only(admin_pb2.AlterBalanceRequest, "action", plain(int, _action)),
    _BALANCE_DESCRIPTION,
)
CHECK_BROKER: Final = _rpc(
    "CheckBroker",
    shape(admin_pb2.CheckBrokerRequest, CheckBroker),
    shape(admin_pb2.CheckBrokerResponse, BrokerCheck, problems=_PROBLEMS, permanent=_PROBLEMS),
)
DESCRIBE_CLUSTER: Final = _rpc(
    "DescribeCluster",
    nothing(admin_pb2.DescribeClusterRequest),
    shape(
        admin_pb2.DescribeClusterResponse,
        ClusterDescription,
        controller=ENDPOINT,
        brokers=many(shape(admin_pb2.BrokerDescription, BrokerDescription, endpoint=ENDPOINT)),
    ),
)


# --- state changes ------------------------------------------------------------------------------


STATE_CHANGES: Final = _rpc(
    "StateChanges",
    shape(
        admin_pb2.StateChangesRequest,
        StateChangesQuery,
        brokers=scalars(at_most(REQUEST_ELEMENTS_MAX, "brokers")),
        from_offsets=scalars(at_most(REQUEST_ELEMENTS_MAX, "offsets")),
    ),
    shape(admin_pb2.StateChangesResponse, StateChangesAnswer),
)
