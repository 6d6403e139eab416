"""Markers: control batches of one record, which end the transaction of a producer in one log (KIP-98).

Readers skip them, and learn by them where a transaction ended. Only brokers write them. A control batch of
another kind, which Kafka's own logs may have, says nothing here.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Final, NamedTuple

from strandline.errors import CorruptMessage
from strandline.records.decode import decode_columns
from strandline.records.encode import pack
from strandline.records.header import CONTROL, TRANSACTIONAL, BatchHeader, Bytes

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = 0
_ABORT, _COMMIT = 0, 1


class WrittenMarker(NamedTuple):
    """What a marker in a log says, besides its header's producer and epoch."""

    commit: bool
    coordinator_epoch: int


def encode_marker(
    marker: WrittenMarker, *, producer_id: int, producer_epoch: int, timestamp_ms: int
) -> bytes:
    """A marker as a batch at offset 0, for a log to give it its own."""
    key = _KEY.pack(_VERSION, _COMMIT if marker.commit else _ABORT)
    packed = pack([(key, _VALUE.pack(_VERSION, marker.coordinator_epoch), (), timestamp_ms)])
    control = replace(packed, attributes=CONTROL | TRANSACTIONAL)
    return control.seal(producer_id=producer_id, producer_epoch=producer_epoch)


def decode_marker(batch: Bytes, header: BatchHeader) -> WrittenMarker | None:
    """What a control batch says; None if it is no marker. `header` has its position in `batch`. Raises
    CorruptMessage for one that no broker writes."""
    columns = decode_columns(batch, header)
    if len(columns.keys) != 1:
        return None
    key, value = columns.keys[0], columns.values[0]
    if key is None or len(key) < _KEY.size:
        return None
    _, kind = _KEY.unpack_from(key)
    if kind not in (_ABORT, _COMMIT):
        return None
    if value is None or len(value) < _VALUE.size:
        raise CorruptMessage(f"marker at offset {header.base_offset} has the value {value!r}")
    _, coordinator_epoch = _VALUE.unpack_from(value)
    return WrittenMarker(kind == _COMMIT, coordinator_epoch)
