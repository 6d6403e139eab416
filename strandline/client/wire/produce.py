"""Between protobuf and the types of who writes to a leader: the producer, and a broker with its events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from strandline.adapters.rpc.frames import nested, tag
from strandline.adapters.rpc.wire_errors import error_from_wire
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Method
from strandline.rpc import log_pb2


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch to append. `correlation_id` is unique on the stream; `internal` opens the system's topics.

    `expected_offset`, where given: append only where the log ends there.
    """

    correlation_id: int
    name: TopicPartition
    acks: int
    timeout_ms: int
    records: bytes
    internal: bool = False
    expected_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What became of the entry with this correlation id. `appended`: by this very request; if not, its batch
    may have been there already."""

    correlation_id: int
    error: StrandlineError | None
    base_offset: int
    appended: bool = False


_ENTRIES: Final = tag(log_pb2.ProduceRequest.ENTRIES_FIELD_NUMBER)
_RECORDS: Final = tag(log_pb2.PartitionRecords.RECORDS_FIELD_NUMBER)


def _encode(entries: Sequence[Entry]) -> bytes:
    parts: list[bytes] = []
    for entry in entries:
        head = log_pb2.PartitionRecords(
            correlation_id=entry.correlation_id,
            topic=entry.name.topic,
            partition=entry.name.partition,
            acks=entry.acks,
            timeout_ms=entry.timeout_ms,
            internal=entry.internal,
            expected_offset=entry.expected_offset,
        ).SerializeToString()
        parts += nested(_ENTRIES, head, _RECORDS, entry.records)
    return b"".join(parts)


def _decode(data: bytes) -> Sequence[Result]:
    return [
        Result(
            r.correlation_id,
            error_from_wire(r.error) if r.HasField("error") else None,
            r.base_offset,
            r.appended,
        )
        for r in log_pb2.ProduceResponse.FromString(data).results
    ]


PRODUCE: Final = Method("/strandline.v1.Log/Produce", _encode, _decode)


def result_of(correlation_id: int, results: Sequence[Result]) -> Result | None:
    """The result of the entry with this correlation id; None if it is not among these."""
    return next((result for result in results if result.correlation_id == correlation_id), None)
