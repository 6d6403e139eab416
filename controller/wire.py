"""Between protobuf and the controller's own types. Nothing else in `controller/` touches a message."""

from __future__ import annotations

from collections.abc import Iterable

from controller.answers import ClusterDescription, TopicOutcome
from controller.core.topics import NewTopic
from controller.state_changes_stream import Told
from strandline.adapters.wire_errors import error_to_wire
from strandline.client.messages import StateChangesQuery
from strandline.metadata import Endpoint
from strandline.rpc import admin_pb2, common_pb2


def new_topics(request: admin_pb2.CreateTopicsRequest) -> list[NewTopic]:
    return [
        NewTopic(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            dict(topic.config),
            tuple(tuple(assignment.replicas) for assignment in topic.assignments),
        )
        for topic in request.topics
    ]


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
        controller=_endpoint(description.controller),
        brokers=[
            admin_pb2.BrokerDescription(
                endpoint=_endpoint(broker.registration.endpoint),
                broker_epoch=broker.registration.epoch,
                shutting_down=broker.registration.shutting_down,
                queued_state_changes=broker.queued,
            )
            for broker in description.brokers
        ],
    )


def _endpoint(endpoint: Endpoint) -> common_pb2.Endpoint:
    return common_pb2.Endpoint(id=endpoint.id, host=endpoint.host, port=endpoint.port, rack=endpoint.rack)


def state_changes_query(request: admin_pb2.StateChangesRequest) -> StateChangesQuery:
    return StateChangesQuery(
        brokers=tuple(request.brokers),
        topic=request.topic,
        partition=request.partition,
        follow=request.follow,
        from_offsets=tuple(request.from_offsets),
        since_ms=request.since_ms,
    )


def state_changes_response(told: Told) -> admin_pb2.StateChangesResponse:
    return admin_pb2.StateChangesResponse(events=told.events, next_offsets=told.next_offsets)
