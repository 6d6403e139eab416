"""Which brokers lead and hold partitions: ElectLeaders, AlterPartitionReassignments and
ListPartitionReassignments."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.table.rows import (
    BOOL,
    ERROR,
    INT8,
    INT16,
    INT32,
    MESSAGE,
    PARTITION,
    Array,
    Struct,
    row,
    throttle,
)
from strandline.broker.kafka.wire.topics import Topics, topics

PREFERRED: Final = 0
UNCLEAN: Final = 1
"""Kinds of elections (KIP-460)."""


class PartitionOutcome(NamedTuple):
    """The outcome for one partition of a request."""

    partition: int
    error: int = 0
    message: str | None = None


class PlacementAnswer(NamedTuple):
    """Answers ElectLeaders and AlterPartitionReassignments. `error` refuses the whole request; `may_resize`
    repeats that of a ReassignRequest."""

    topics: Topics[PartitionOutcome]
    error: int = 0
    message: str | None = None
    may_resize: bool = True


# --- ElectLeaders -----------------------------------------------------------------------------


class ElectLeadersRequest(NamedTuple):
    """`topics` None: all partitions."""

    topics: Topics[int] | None
    timeout_ms: int
    kind: int = PREFERRED


ELECT_REQUEST: Final = Struct(
    ElectLeadersRequest,
    INT8("election_type", "kind", since=1),
    topics(INT32, "topic_partitions", topic="topic", nullable=0),
    INT32("timeout_ms"),
)
_ELECTED: Final = Struct(PartitionOutcome, INT32("partition_id", "partition"), ERROR, MESSAGE)
ELECT_ANSWER: Final = Struct(
    PlacementAnswer,
    throttle(),
    INT16("error_code", "error", since=1),
    topics(_ELECTED, "replica_election_results", topic="topic", partitions="partition_result"),
)


# --- AlterPartitionReassignments --------------------------------------------------------------


class PartitionTarget(NamedTuple):
    """`replicas`: the preferred leader first; None: cancel the reassignment in progress."""

    partition: int
    replicas: tuple[int, ...] | None


class ReassignRequest(NamedTuple):
    """`may_resize`: whether partitions may get another number of replicas (KIP-860)."""

    timeout_ms: int
    topics: Topics[PartitionTarget]
    may_resize: bool = True


_MAY_RESIZE: Final = BOOL("allow_replication_factor_change", "may_resize", since=1)


_TARGET: Final = Struct(PartitionTarget, PARTITION, row("replicas", Array(INT32), nullable=0))
REASSIGN_REQUEST: Final = Struct(ReassignRequest, INT32("timeout_ms"), _MAY_RESIZE, topics(_TARGET))
_REASSIGNED: Final = topics(Struct(PartitionOutcome, PARTITION, ERROR, MESSAGE), "responses")
REASSIGN_ANSWER: Final = Struct(PlacementAnswer, throttle(), _MAY_RESIZE, ERROR, MESSAGE, _REASSIGNED)


# --- ListPartitionReassignments ---------------------------------------------------------------


class ListReassignmentsRequest(NamedTuple):
    """`topics` None: all."""

    timeout_ms: int
    topics: Topics[int] | None


class MovingPartition(NamedTuple):
    """A reassignment in progress. `replicas` includes those that are added and removed."""

    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ListReassignmentsAnswer(NamedTuple):
    topics: Topics[MovingPartition]
    error: int = 0
    message: str | None = None


LIST_REQUEST: Final = Struct(
    ListReassignmentsRequest, INT32("timeout_ms"), topics(INT32, partitions="partition_indexes", nullable=0)
)
_MOVING: Final = Struct(
    MovingPartition,
    PARTITION,
    row("replicas", Array(INT32)),
    row("adding_replicas", Array(INT32), "adding"),
    row("removing_replicas", Array(INT32), "removing"),
)
LIST_ANSWER: Final = Struct(ListReassignmentsAnswer, throttle(), ERROR, MESSAGE, topics(_MOVING))
