"""The position record of a task: how far it has read its inputs.

The record is written in one batch with the state that results from those inputs, and the next owner of the
task continues from it: no input is counted twice in the state, and none is left out. Numbers are big-endian;
arrays and strings begin with their length::

    version     int8
    partitions  array32 of topic (string16), partition (int32), next offset (int64)
    origins     array32 of the last header of an origin partition (bytes16)

An unknown version is refused: a reader that ignored unknown fields would count their records again.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from strandline.ids import TopicPartition
from strandline.streams.core.changelog import UnreadableState
from strandline.streams.core.origins import Origins
from strandline.vocabulary.fields import INT8, INT16, INT32, FieldReader

_VERSION: Final = 0
_PARTITION: Final = struct.Struct(">iq")


class Positions:
    """The next offset of each input partition, and the origins that were seen. Both are changed in place."""

    __slots__ = ("offsets", "origins")

    def __init__(
        self, offsets: Mapping[TopicPartition, int] | None = None, origins: Origins | None = None
    ) -> None:
        self.offsets: dict[TopicPartition, int] = dict(offsets or {})
        self.origins = Origins() if origins is None else origins

    def encode(self) -> bytes:
        """The position record's value; the same positions always have the same bytes."""
        parts = [INT8.pack(_VERSION), INT32.pack(len(self.offsets))]
        for (topic, partition), offset in sorted(self.offsets.items()):
            parts += [_bytes(topic.encode()), _PARTITION.pack(partition, offset)]
        headers = self.origins.headers()
        parts.append(INT32.pack(len(headers)))
        parts += map(_bytes, headers)
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> Positions:
        """Decode a position record. Raises UnreadableState, which names the position of the error."""
        reader = _Reader(data)
        reader.known_version()
        positions = cls()
        for _ in range(reader.array(1)):
            partition, offset = reader.partition()
            positions.offsets[partition] = offset
        for _ in range(reader.array(1)):
            positions.origins.seen(reader.header())
        reader.end()
        return positions

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Positions) and self.offsets == other.offsets and self.origins == other.origins
        )

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        offsets = ", ".join(f"{partition}: {offset}" for partition, offset in sorted(self.offsets.items()))
        return f"Positions({offsets or 'none'}; {self.origins!r})"


def _bytes(data: bytes) -> bytes:
    return INT16.pack(len(data)) + data


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
