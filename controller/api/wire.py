"""The RPCs of `strandline.v1.Admin` in the controller: converts between bytes and its own types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from google.protobuf.message import Message

from strandline.adapters.rpc.listeners import endpoint_to_wire
from strandline.adapters.rpc.parsing import REQUEST_ELEMENTS_MAX, parse
from strandline.adapters.rpc.wire_errors import error_to_wire
from strandline.client.messages import StateChangesQuery
from strandline.controller.api.requests import CheckBroker, CreateTopics, DrainBroker, ElectUnclean, Reassign
from strandline.controller.core.drains import Progress
from strandline.controller.core.readiness import Readiness
from strandline.controller.core.reassignment import Move
from strandline.controller.core.state_changes import SelectedEvents
from strandline.controller.core.topics import Alteration, NewTopic
from strandline.controller.term.results import (
    BrokerDescription,
    ClusterDescription,
    Ongoing,
    PartitionOutcome,
    TopicOutcome,
    UncleanOutcome,
)
from strandline.errors import InvalidRequest, StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Request, Response, Rpc
from strandline.rpc import admin_pb2, common_pb2
from strandline.vocabulary.state_changes import ANY_LIFE

REPLICAS_PER_PARTITION_MAX: Final = 100
"""The largest number of replicas that a request may name."""

PROBLEMS_MAX: Final = 100
"""Problems that an answer lists; it counts the others."""


# --- requests -----------------------------------------------------------------------------------


def _create_topics(data: bytes) -> CreateTopics:
    request = parse(admin_pb2.CreateTopicsRequest, data)
    _check_count("assignments", sum(len(topic.assignments) for topic in request.topics))
    topics = [
        NewTopic(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            dict(topic.config),
            tuple(_replicas(assignment.replicas) for assignment in topic.assignments),
        )
        for topic in request.topics
    ]
    return CreateTopics(topics, request.validate_only, request.internal)


def _delete_topics(data: bytes) -> list[str]:
    return list(parse(admin_pb2.DeleteTopicsRequest, data).topics)


def _alter_topic(data: bytes) -> Alteration:
    request = parse(admin_pb2.AlterTopicRequest, data)
    _check_count("assignments", len(request.assignments))
    return Alteration(
        request.topic,
        dict(request.set),
        list(request.unset),
        request.partitions,
        tuple(_replicas(assignment.replicas) for assignment in request.assignments),
    )


def _reassign(data: bytes) -> Reassign:
    request = parse(admin_pb2.ReassignRequest, data)
    moves = [
        Move(TopicPartition(each.topic, each.partition), _replicas(each.replicas))
        for each in request.partitions
    ]
    return Reassign(moves, request.throttle_bytes_per_s, request.validate_only)


def _list_reassignments(data: bytes) -> None:
    parse(admin_pb2.ListReassignmentsRequest, data)


def _elect_preferred(data: bytes) -> list[TopicPartition]:
    request = parse(admin_pb2.ElectPreferredRequest, data)
    return [TopicPartition(each.topic, each.partition) for each in request.partitions]


def _elect_unclean(data: bytes) -> ElectUnclean:
    request = parse(admin_pb2.ElectUncleanRequest, data)
    names = [TopicPartition(each.topic, each.partition) for each in request.partitions]
    return ElectUnclean(names, request.validate_only)


def _drain_broker(data: bytes) -> DrainBroker:
    request = parse(admin_pb2.DrainBrokerRequest, data)
    return DrainBroker(request.broker, request.replicas, request.undo, request.throttle_bytes_per_s)


def _check_broker(data: bytes) -> CheckBroker:
    request = parse(admin_pb2.CheckBrokerRequest, data)
    return CheckBroker(request.broker, request.end_drain)


def _describe_cluster(data: bytes) -> None:
    parse(admin_pb2.DescribeClusterRequest, data)


def _state_changes(data: bytes) -> StateChangesQuery:
    request = parse(admin_pb2.StateChangesRequest, data)
    _check_count("brokers", len(request.brokers))
    _check_count("offsets", len(request.from_offsets))
    return StateChangesQuery(
        brokers=tuple(request.brokers),
        topic=request.topic,
        partition=request.partition,
        follow=request.follow,
        from_offsets=tuple(request.from_offsets),
        since_ms=request.since_ms,
    )


def _replicas(named: Sequence[int]) -> tuple[int, ...]:
    if len(named) > REPLICAS_PER_PARTITION_MAX:
        raise InvalidRequest(
            f"{len(named)} replicas for one partition; at most {REPLICAS_PER_PARTITION_MAX} are allowed",
            limit=REPLICAS_PER_PARTITION_MAX,
        )
    return tuple(named)


def _check_count(what: str, count: int) -> None:
    if count > REQUEST_ELEMENTS_MAX:
        raise InvalidRequest(
            f"{count} {what} in one request; send at most {REQUEST_ELEMENTS_MAX} at a time",
            limit=REQUEST_ELEMENTS_MAX,
        )


# --- answers ------------------------------------------------------------------------------------


def _partition_results(outcomes: Iterable[PartitionOutcome]) -> list[admin_pb2.PartitionResult]:
    return [
        admin_pb2.PartitionResult(
            topic=outcome.name.topic,
            partition=outcome.name.partition,
            error=None if outcome.error is None else error_to_wire(outcome.error),
        )
        for outcome in outcomes
    ]


def _unclean_results(outcomes: Iterable[UncleanOutcome]) -> admin_pb2.ElectUncleanResponse:
    results = []
    for outcome in outcomes:
        result = admin_pb2.UncleanElection(topic=outcome.name.topic, partition=outcome.name.partition)
        if outcome.error is not None:
            result.error.CopyFrom(error_to_wire(outcome.error))
        elif (plan := outcome.plan) is not None:
            result.broker, result.last_epoch = plan.chosen.broker, plan.chosen.last_epoch
            result.log_end, result.known_end = plan.loss.first, plan.loss.end
            result.known = str(plan.loss)
            result.missing.extend(plan.missing)
        results.append(result)
    return admin_pb2.ElectUncleanResponse(results=results)


def _reassignments(found: Iterable[Ongoing]) -> admin_pb2.ListReassignmentsResponse:
    return admin_pb2.ListReassignmentsResponse(
        reassignments=[
            admin_pb2.OngoingReassignment(
                topic=each.name.topic,
                partition=each.name.partition,
                original=each.wanted.original,
                replicas=each.wanted.replicas,
                isr=each.isr,
                throttle_bytes_per_s=each.wanted.throttle_bytes_per_s,
                reverting=each.wanted.reverting,
            )
            for each in found
        ]
    )


def _topic_results(outcomes: Iterable[TopicOutcome]) -> list[admin_pb2.TopicResult]:
    return [
        admin_pb2.TopicResult(
            topic=outcome.topic,
            error=None if outcome.error is None else error_to_wire(outcome.error),
            topic_id=outcome.topic_id or "",
        )
        for outcome in outcomes
    ]


def _cluster_description(description: ClusterDescription) -> admin_pb2.DescribeClusterResponse:
    return admin_pb2.DescribeClusterResponse(
        cluster_id=description.cluster_id,
        controller=endpoint_to_wire(description.controller),
        brokers=[_broker_description(broker) for broker in description.brokers],
    )


def _broker_description(broker: BrokerDescription) -> admin_pb2.BrokerDescription:
    described = admin_pb2.BrokerDescription(
        endpoint=common_pb2.Endpoint(id=broker.broker),
        broker_epoch=ANY_LIFE,
        queued_state_changes=broker.backlog.requests,
        oldest_queued_at_ms=broker.backlog.oldest_at_ms,
        drained=broker.drained,
    )
    if (registration := broker.registration) is not None:
        described.alive = True
        described.endpoint.CopyFrom(endpoint_to_wire(registration.endpoint))
        described.broker_epoch = registration.epoch
        described.shutting_down = registration.shutting_down
    return described


def _drain_progress(progress: Progress) -> admin_pb2.DrainBrokerResponse:
    return admin_pb2.DrainBrokerResponse(
        leaderships=progress.leaderships,
        replicas=progress.replicas,
        problems=_bounded(progress.problems),
        permanent=progress.permanent,
    )


def _readiness(found: Readiness) -> admin_pb2.CheckBrokerResponse:
    return admin_pb2.CheckBrokerResponse(
        ready=found.ready,
        problems=_bounded(found.problems),
        permanent=_bounded(found.permanent),
        leaderships=found.leaderships,
        replicas=found.replicas,
        drain_ended=found.drain_ended,
    )


def _bounded(problems: Sequence[str]) -> list[str]:
    """The first problems, and the number of the others."""
    first = list(problems[:PROBLEMS_MAX])
    if len(problems) > PROBLEMS_MAX:
        first.append(f"and {len(problems) - PROBLEMS_MAX} more")
    return first


def _topics_created(outcomes: Sequence[TopicOutcome]) -> admin_pb2.CreateTopicsResponse:
    return admin_pb2.CreateTopicsResponse(results=_topic_results(outcomes))


def _topics_deleted(outcomes: Sequence[TopicOutcome]) -> admin_pb2.DeleteTopicsResponse:
    return admin_pb2.DeleteTopicsResponse(results=_topic_results(outcomes))


def _topic_altered(_: None) -> admin_pb2.AlterTopicResponse:
    return admin_pb2.AlterTopicResponse()


def _reassigned(outcomes: Sequence[PartitionOutcome]) -> admin_pb2.ReassignResponse:
    return admin_pb2.ReassignResponse(results=_partition_results(outcomes))


def _preferred_elected(outcomes: Sequence[PartitionOutcome]) -> admin_pb2.ElectPreferredResponse:
    return admin_pb2.ElectPreferredResponse(results=_partition_results(outcomes))


def _state_changes_read(selected: SelectedEvents) -> admin_pb2.StateChangesResponse:
    return admin_pb2.StateChangesResponse(events=selected.events, next_offsets=selected.next_offsets)


# --- the service --------------------------------------------------------------------------------


def _rpc(
    name: str,
    decode: Callable[[bytes], Request],
    encode: Callable[[Response], Message],
    refusal: Callable[..., Message] | None = None,
) -> Rpc[Request, Response]:
    """`refusal`: builds the answer that carries an error."""

    def encoded(answer: Response) -> bytes:
        return encode(answer).SerializeToString()

    def refuse(error: StrandlineError) -> bytes:
        assert refusal is not None
        return refusal(error=error_to_wire(error)).SerializeToString()

    return Rpc(f"/strandline.v1.Admin/{name}", decode, encoded, None if refusal is None else refuse)


CREATE_TOPICS: Final = _rpc("CreateTopics", _create_topics, _topics_created)
DELETE_TOPICS: Final = _rpc("DeleteTopics", _delete_topics, _topics_deleted)
ALTER_TOPIC: Final = _rpc("AlterTopic", _alter_topic, _topic_altered, admin_pb2.AlterTopicResponse)
REASSIGN: Final = _rpc("Reassign", _reassign, _reassigned)
LIST_REASSIGNMENTS: Final = _rpc(
    "ListReassignments", _list_reassignments, _reassignments, admin_pb2.ListReassignmentsResponse
)
ELECT_PREFERRED: Final = _rpc(
    "ElectPreferred", _elect_preferred, _preferred_elected, admin_pb2.ElectPreferredResponse
)
ELECT_UNCLEAN: Final = _rpc("ElectUnclean", _elect_unclean, _unclean_results, admin_pb2.ElectUncleanResponse)
DRAIN_BROKER: Final = _rpc("DrainBroker", _drain_broker, _drain_progress, admin_pb2.DrainBrokerResponse)
CHECK_BROKER: Final = _rpc("CheckBroker", _check_broker, _readiness, admin_pb2.CheckBrokerResponse)
DESCRIBE_CLUSTER: Final = _rpc(
    "DescribeCluster", _describe_cluster, _cluster_description, admin_pb2.DescribeClusterResponse
)
STATE_CHANGES: Final = _rpc(
    "StateChanges", _state_changes, _state_changes_read, admin_pb2.StateChangesResponse
)
