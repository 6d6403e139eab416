"""The position record of a task: how far it has read its inputs.

The record is written in one batch with the state that results from those inputs, and the next owner of the
task continues from it: no input is counted twice in the state, and none is left out. Numbers are big-endian;
arrays and strings begin with their length::

    version     int8
    partitions  array32 of topic (string16), partition (int32), next offset (int64)
    origins     array32 of the last header of an origin partition (bytes16)

A second record, in the same batch, says which log each position belongs to::

    version     int8
    partitions  array32 of topic (string16), partition (int32), next offset (int64), topic id (string16),
                leader epoch (int32)

It counts for a position of the same offset only: a member of a version that does not know it writes the first
record alone, and the log of its positions is not known.

An unknown version is refused: a reader that ignored unknown fields would count their records again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final

from strandline.ids import TopicId, TopicPartition
from strandline.streams.core.changelog import LOGS_KEY, POSITION_KEY, UnreadableState
from strandline.streams.core.origins import Origins
from strandline.vocabulary.log_position import LogPosition
from strandline.vocabulary.parsing.fields import INT8, INT16, INT32, FieldReader, string

_VERSION: Final = 0
_VERSION_BYTE: Final = INT8.pack(_VERSION)
_PARTITION: Final = struct.Struct(">iq")


class Positions:
    """The next record of each input partition, and the origins that were seen. Both are changed in place."""

    __slots__ = ("inputs", "origins")

    def __init__(
        self, inputs: Mapping[TopicPartition, LogPosition] | None = None, origins: Origins | None = None
    ) -> None:
        self.inputs: dict[TopicPartition, LogPosition] = dict(inputs or {})
        self.origins = Origins() if origins is None else origins

    def rows(self) -> dict[bytes, bytes]:
        """The two records, by key; the same positions always have the same bytes."""
        inputs = sorted(self.inputs.items())
        logs = [_VERSION_BYTE, INT32.pack(len(inputs))]
        parts = logs.copy()
        for (topic, partition), (offset, topic_id, leader_epoch) in inputs:
            place = string(topic) + _PARTITION.pack(partition, offset)
            parts.append(place)
            logs += [place, string(topic_id), INT32.pack(leader_epoch)]
        headers = self.origins.headers()
        parts.append(INT32.pack(len(headers)))
        parts += (INT16.pack(len(header)) + header for header in headers)
        return {LOGS_KEY: b"".join(logs), POSITION_KEY: b"".join(parts)}

    @classmethod
    def read(cls, get: Callable[[bytes], bytes | None]) -> Positions:
        """Decode the records that `get` returns by key; without a position record there are no positions.

        Raises UnreadableState, which names the byte of the error.
        """
        record, logs = get(POSITION_KEY), get(LOGS_KEY)
        if record is None:
            return cls()
        reader = _Reader(record)
        reader.known_version()
        inputs = [reader.partition() for _ in range(reader.array(1))]
        headers = [reader.header() for _ in range(reader.array(1))]
        reader.end()
        known = {} if logs is None else _logs(_Reader(logs))
        return cls({name: known.get((name, at), LogPosition(at)) for name, at in inputs}, Origins(headers))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Positions) and self.inputs == other.inputs and self.origins == other.origins

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        inputs = ", ".join(f"{partition}: {at}" for partition, at in sorted(self.inputs.items()))
        return f"Positions({inputs or 'none'}; {self.origins!r})"


def _logs(reader: _Reader) -> dict[tuple[TopicPartition, int], LogPosition]:
    """The second record, by partition and offset."""
    reader.known_version()
    known = {}
    for _ in range(reader.array(1)):
        name, offset = reader.partition()
        known[name, offset] = LogPosition(offset, TopicId(reader.string()), reader.int32())
    reader.end()
    return known


class _Reader(FieldReader):
    def __init__(self, data: bytes) -> None:
        super().__init__(data, "position record", UnreadableState)

    def known_version(self) -> None:
        version = self.int8()
        if version != _VERSION:
            raise self.wrong(0, f"version {version}, this is {_VERSION}")

    def partition(self) -> tuple[TopicPartition, int]:
        start, topic = self.at, self.string()
        partition, offset = _PARTITION.unpack(self.take(_PARTITION.size))
        if partition < 0 or offset < 0:
            raise self.wrong(start, f"partition {partition}, offset {offset}")
        return TopicPartition(topic, partition), offset

    def header(self) -> bytes:
        return self.take(self.not_negative(self.at, self.int16(), "length of an origin"))
