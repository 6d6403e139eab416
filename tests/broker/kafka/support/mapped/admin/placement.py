"""ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.admin.placement import (
    ElectLeadersRequest,
    ListReassignmentsAnswer,
    ListReassignmentsRequest,
    MovingPartition,
    PartitionOutcome,
    PartitionTarget,
    PlacementAnswer,
    ReassignRequest,
)
from strandline.broker.kafka.wire.apis import (
    ALTER_PARTITION_REASSIGNMENTS,
    ELECT_LEADERS,
    LIST_PARTITION_REASSIGNMENTS,
)
from tests.broker.kafka.support.kio_codec import Values
from tests.broker.kafka.support.mapped.mapped import Mapped, by_topic, numbers_by_topic


def elections_request(asked: Values, version: int) -> ElectLeadersRequest:
    topics = numbers_by_topic(asked["topic_partitions"], "topic", "partitions")
    return ElectLeadersRequest(topics, asked["timeout_ms"], asked.get("election_type", 0))


def elections_answer(found: Values, version: int) -> PlacementAnswer:
    def outcome(p: Values) -> PartitionOutcome:
        return PartitionOutcome(p["partition_id"], p["error_code"], p["error_message"])

    topics = by_topic(found["replica_election_results"], outcome, "topic", "partition_result")
    return PlacementAnswer(topics, found.get("error_code", 0))


def reassignments_request(asked: Values, version: int) -> ReassignRequest:
    def target(p: Values) -> PartitionTarget:
        replicas = p["replicas"]
        return PartitionTarget(p["partition_index"], None if replicas is None else tuple(replicas))

    return ReassignRequest(asked["timeout_ms"], by_topic(asked["topics"], target))


def reassignments_answer(found: Values, version: int) -> PlacementAnswer:
    def outcome(p: Values) -> PartitionOutcome:
        return PartitionOutcome(p["partition_index"], p["error_code"], p["error_message"])

    return PlacementAnswer(by_topic(found["responses"], outcome), found["error_code"], found["error_message"])


def list_request(asked: Values, version: int) -> ListReassignmentsRequest:
    topics = numbers_by_topic(asked["topics"], "name", "partition_indexes")
    return ListReassignmentsRequest(asked["timeout_ms"], topics)


def list_answer(found: Values, version: int) -> ListReassignmentsAnswer:
    def moving(p: Values) -> MovingPartition:
        replicas, adding, removing = p["replicas"], p["adding_replicas"], p["removing_replicas"]
        return MovingPartition(p["partition_index"], tuple(replicas), tuple(adding), tuple(removing))

    topics = by_topic(found["topics"], moving)
    return ListReassignmentsAnswer(topics, found["error_code"], found["error_message"])


MAPPED: Final = (
    Mapped(ELECT_LEADERS, elections_request, elections_answer),
    Mapped(ALTER_PARTITION_REASSIGNMENTS, reassignments_request, reassignments_answer),
    Mapped(LIST_PARTITION_REASSIGNMENTS, list_request, list_answer),
)
