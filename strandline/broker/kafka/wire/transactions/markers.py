"""WriteTxnMarkers: the ends of transactions, for the logs of their partitions."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.table.rows import BOOL, ERROR, INT8, INT16, INT32, INT64, Array, Struct, row
from strandline.broker.kafka.wire.topics import Topics, topics


class MarkerToWrite(NamedTuple):
    """The end of one producer's transaction in these partitions. `transaction_version` is the version of
    transactions that the marker's epoch is of (KIP-1228)."""

    producer_id: int
    producer_epoch: int
    commit: bool
    topics: Topics[int]
    coordinator_epoch: int
    transaction_version: int = 0


class WriteMarkersRequest(NamedTuple):
    markers: tuple[MarkerToWrite, ...]


class MarkedPartition(NamedTuple):
    partition: int
    error: int = 0


class WrittenMarkers(NamedTuple):
    producer_id: int
    topics: Topics[MarkedPartition]


class WriteMarkersAnswer(NamedTuple):
    """In the order of the request."""

    markers: tuple[WrittenMarkers, ...]


_MARKER: Final = Struct(
    MarkerToWrite,
    INT64("producer_id"),
    INT16("producer_epoch"),
    BOOL("transaction_result", "commit"),
    topics(INT32, partitions="partition_indexes"),
    INT32("coordinator_epoch"),
    INT8("transaction_version", since=2, absent=0),
)
REQUEST: Final = Struct(WriteMarkersRequest, row("markers", Array(_MARKER)))
_MARKED: Final = Struct(MarkedPartition, INT32("partition_index", "partition"), ERROR)
_WRITTEN: Final = Struct(WrittenMarkers, INT64("producer_id"), topics(_MARKED))
ANSWER: Final = Struct(WriteMarkersAnswer, row("markers", Array(_WRITTEN)))
