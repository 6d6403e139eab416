"""How far a task has read its inputs: what its position record says.

The record is written in one batch with the state that those inputs made, and whoever takes the task over goes
on from it: no input is counted twice in the state, and none is left out. Numbers are big-endian; arrays and
strings begin with their length::

    version     int8
    partitions  array32 of topic (string16), partition (int32), next offset (int64)
    origins     array32 of the last header of an origin partition (bytes16)

A version that is not known is refused: who left out what it does not know would count it again.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from strandline.ids import TopicPartition
from streams.core.changelog import UnreadableState
from streams.core.origins import Origins

_VERSION: Final = 0
_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">H")
_INT32: Final = struct.Struct(">i")
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
        """The position record's value: the same bytes for the same positions."""
        parts = [_INT8.pack(_VERSION), _INT32.pack(len(self.offsets))]
        for (topic, partition), offset in sorted(self.offsets.items()):
            parts += [_bytes(topic.encode()), _PARTITION.pack(partition, offset)]
        headers = self.origins.headers()
        parts.append(_INT32.pack(len(headers)))
        parts += map(_bytes, headers)
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> Positions:
        """What the bytes say. Raises UnreadableState, which names the position, if they say nothing."""
        reader = _Reader(data)
        reader.version()
        positions = cls()
        for _ in range(reader.count()):
            partition, offset = reader.partition()
            positions.offsets[partition] = offset
        for _ in range(reader.count()):
            positions.origins.seen(reader.blob())
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
    return _INT16.pack(len(data)) + data


class _Reader:
    """Reads from the front. It makes nothing larger than the bytes that are there."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def version(self) -> None:
        (version,) = self._unpack(_INT8)
        if version != _VERSION:
            raise self._wrong(0, f"version {version}, this is {_VERSION}")

    def count(self) -> int:
        start = self._at
        (count,) = self._unpack(_INT32)
        if not 0 <= count <= len(self._data) - self._at:
            raise self._wrong(start, f"{count} elements in {len(self._data) - self._at} bytes")
        return count

    def partition(self) -> tuple[TopicPartition, int]:
        start, raw = self._at, self.blob()
        partition, offset = self._unpack(_PARTITION)
        if partition < 0 or offset < 0:
            raise self._wrong(start, f"partition {partition}, offset {offset}")
        try:
            return TopicPartition(raw.decode(), partition), offset
        except UnicodeDecodeError:
            raise self._wrong(start, "a topic is not UTF-8") from None

    def blob(self) -> bytes:
        (length,) = self._unpack(_INT16)
        return self._take(length)

    def end(self) -> None:
        if self._at < len(self._data):
            raise self._wrong(self._at, f"{len(self._data) - self._at} bytes too many")

    def _unpack(self, form: struct.Struct) -> tuple[int, ...]:
        return form.unpack(self._take(form.size))

    def _take(self, length: int) -> bytes:
        if length > len(self._data) - self._at:
            raise self._wrong(self._at, f"{length} bytes wanted, {len(self._data) - self._at} left")
        start, self._at = self._at, self._at + length
        return self._data[start : self._at]

    def _wrong(self, position: int, why: str) -> UnreadableState:
        return UnreadableState(f"position record at byte {position} of {len(self._data)}: {why}")
