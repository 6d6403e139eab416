"""Between protobuf and the controller's own types. Nothing else in `controller/` touches a message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from strandline.adapters.rpc.listeners import endpoint_to_wire
from strandline.adapters.rpc.parsing import REQUEST_ELEMENTS_MAX
from strandline.adapters.rpc.wire_errors import error_to_wire
from strandline.client.messages import StateChangesQuery
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
from strandline.errors import InvalidRequest
from strandline.ids import TopicPartition
from strandline.rpc import admin_pb2, common_pb2
from strandline.vocabulary.state_changes import ANY_LIFE

REPLICAS_PER_PARTITION_MAX: Final = 100
"""That a request may name."""

PROBLEMS_MAX: Final = 100
"""Told one by one in an answer; the rest is counted."""


def new_topics(request: admin_pb2.CreateTopicsRequest) -> list[NewTopic]:
    """Raises InvalidRequest for too many assignments, counted before they are looked at."""
    _check_count("assignments", sum(len(topic.assignments) for topic in request.topics))
    return [
        NewTopic(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            dict(topic.config),
            tuple(_replicas(assignment.replicas) for assignment in topic.assignments),
        )
        for topic in request.topics
    ]


def alteration(request: admin_pb2.AlterTopicRequest) -> Alteration:
    """Raises InvalidRequest."""
    _check_count("assignments", len(request.assignments))
    return Alteration(
        request.topic,
        dict(request.set),
        list(request.unset),
        request.partitions,
        tuple(_replicas(assignment.replicas) for assignment in request.assignments),
    )


def moves(request: admin_pb2.ReassignRequest) -> list[Move]:
    """Raises InvalidRequest."""
    return [
        Move(TopicPartition(each.topic, each.partition), _replicas(each.replicas))
        for each in request.partitions
    ]


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


def partition_names(
    request: admin_pb2.ElectPreferredRequest | admin_pb2.ElectUncleanRequest,
) -> list[TopicPartition]:
    return [TopicPartition(each.topic, each.partition) for each in request.partitions]


def partition_results(outcomes: Iterable[PartitionOutcome]) -> list[admin_pb2.PartitionResult]:
    return [
        admin_pb2.PartitionResult(
            topic=outcome.name.topic,
            partition=outcome.name.partition,
            error=None if outcome.error is None else error_to_wire(outcome.error),
        )
        for outcome in outcomes
    ]


def unclean_results(outcomes: Iterable[UncleanOutcome]) -> list[admin_pb2.UncleanElection]:
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
    return results


def reassignments(found: Iterable[Ongoing]) -> admin_pb2.ListReassignmentsResponse:
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


def topic_results(outcomes: Iterable[TopicOutcome]) -> list[admin_pb2.TopicResult]:
    return [
        admin_pb2.TopicResult(
            topic=outcome.topic,
            error=None if outcome.error is None else error_to_wire(outcome.error),
            topic_id=outcome.topic_id or "",
        )
        for outcome in outcomes
    ]


def cluster_description(description: ClusterDescription) -> admin_pb2.DescribeClusterResponse:
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


def drain_progress(progress: Progress) -> admin_pb2.DrainBrokerResponse:
    return admin_pb2.DrainBrokerResponse(
        leaderships=progress.leaderships,
        replicas=progress.replicas,
        problems=_bounded(progress.problems),
        permanent=progress.permanent,
    )


def readiness(found: Readiness) -> admin_pb2.CheckBrokerResponse:
    return admin_pb2.CheckBrokerResponse(
        ready=found.ready,
        problems=_bounded(found.problems),
        permanent=_bounded(found.permanent),
        leaderships=found.leaderships,
        replicas=found.replicas,
        drain_ended=found.drain_ended,
    )


def _bounded(problems: Sequence[str]) -> list[str]:
    """The first of them, and how many more there are."""
    told = list(problems[:PROBLEMS_MAX])
    if len(problems) > PROBLEMS_MAX:
        told.append(f"and {len(problems) - PROBLEMS_MAX} more")
    return told


def state_changes_query(request: admin_pb2.StateChangesRequest) -> StateChangesQuery:
    """Raises InvalidRequest."""
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


def state_changes_response(told: SelectedEvents) -> admin_pb2.StateChangesResponse:
    return admin_pb2.StateChangesResponse(events=told.events, next_offsets=told.next_offsets)
