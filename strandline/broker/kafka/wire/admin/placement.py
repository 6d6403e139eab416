"""Which brokers lead and hold partitions: ElectLeaders, AlterPartitionReassignments and
ListPartitionReassignments."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.fields import Reader, Writer
from strandline.broker.kafka.wire.topics import (
    TOPIC_BYTES_MIN,
    Topics,
    read_topic_numbers,
    read_topics,
    write_topics,
)

_REASSIGNMENT_BYTES_MIN: Final = 5

PREFERRED: Final = 0
UNCLEAN: Final = 1
"""Kinds of elections (KIP-460)."""


class PartitionOutcome(NamedTuple):
    """The outcome for one partition of a request."""

    partition: int
    error: int = 0
    message: str | None = None


class PlacementAnswer(NamedTuple):
    """Answers ElectLeaders and AlterPartitionReassignments. `error` refuses the whole request."""

    topics: Topics[PartitionOutcome]
    error: int = 0
    message: str | None = None


# --- ElectLeaders -----------------------------------------------------------------------------


class ElectLeadersRequest(NamedTuple):
    """`topics` None: all partitions."""

    topics: Topics[int] | None
    timeout_ms: int
    kind: int = PREFERRED


def read_elections(reader: Reader, version: int) -> ElectLeadersRequest:
    kind = reader.int8() if version >= 1 else PREFERRED
    topics = reader.nullable_array(read_topic_numbers, bytes_min=TOPIC_BYTES_MIN)
    return ElectLeadersRequest(topics, reader.int32(), kind)


def write_elections(writer: Writer, answer: PlacementAnswer, version: int) -> None:
    writer.throttle_time()
    if version >= 1:
        writer.int16(answer.error)
    _write_outcomes(writer, answer.topics)
    writer.tags()


def _write_outcomes(writer: Writer, topics: Topics[PartitionOutcome]) -> None:
    def write_partition(outcome: PartitionOutcome) -> None:
        writer.int32(outcome.partition)
        writer.int16(outcome.error)
        writer.string(outcome.message)

    write_topics(writer, topics, write_partition)


# --- AlterPartitionReassignments --------------------------------------------------------------


class PartitionTarget(NamedTuple):
    """`replicas`: the preferred leader first; None: cancel the reassignment in progress."""

    partition: int
    replicas: tuple[int, ...] | None


class ReassignRequest(NamedTuple):
    timeout_ms: int
    topics: Topics[PartitionTarget]


def read_reassignments(reader: Reader, version: int) -> ReassignRequest:
    def read_partition(reader: Reader) -> PartitionTarget:
        return PartitionTarget(reader.int32(), reader.nullable_array(Reader.int32, bytes_min=4))

    timeout_ms = reader.int32()
    return ReassignRequest(timeout_ms, read_topics(reader, read_partition, bytes_min=_REASSIGNMENT_BYTES_MIN))


def write_reassignments(writer: Writer, answer: PlacementAnswer, version: int) -> None:
    writer.throttle_time()
    writer.int16(answer.error)
    writer.string(answer.message)
    _write_outcomes(writer, answer.topics)
    writer.tags()


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


def read_list(reader: Reader, version: int) -> ListReassignmentsRequest:
    timeout_ms = reader.int32()
    return ListReassignmentsRequest(
        timeout_ms, reader.nullable_array(read_topic_numbers, bytes_min=TOPIC_BYTES_MIN)
    )


def write_list(writer: Writer, answer: ListReassignmentsAnswer, version: int) -> None:
    def write_partition(moving: MovingPartition) -> None:
        writer.int32(moving.partition)
        for replicas in (moving.replicas, moving.adding, moving.removing):
            writer.array(replicas, writer.int32)

    writer.throttle_time()
    writer.int16(answer.error)
    writer.string(answer.message)
    write_topics(writer, answer.topics, write_partition)
    writer.tags()
