"""Where a record of a repartition topic comes from, so that what is written there twice is counted once.

Outputs are written at least once: a task that dies between its outputs and its commit leaves its successor
to write the same ones again. So each carries its *origin*: the partition and offset of the record that it was
made of, and its number among the outputs of that record. One task makes all the outputs of an origin
partition, and in their order, so who reads them needs to know only the last one of each; that is part of its
position record, and goes into the changelog with what was counted (CORRECTNESS S9).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from strandline.ids import TopicPartition
from strandline.streams.core.changelog import UnreadableState

ORIGIN_HEADER: Final = "strandline-origin"
"""The name of the header."""

_VERSION: Final = 0
_PLACE: Final = struct.Struct(">bqi")
"""Version, offset, number. The source follows: the same bytes for the same partition."""
_PARTITION: Final = struct.Struct(">i")
_ORIGIN_BYTES_MIN: Final = _PLACE.size + _PARTITION.size + 1


class Origin(NamedTuple):
    """One output of one input record."""

    source: TopicPartition
    offset: int
    number: int
    """From 0, among the outputs of that record."""


def origin_header(source: TopicPartition, offset: int, number: int) -> bytes:
    """The value of the header of output `number` of the record at `offset` of `source`."""
    return _PLACE.pack(_VERSION, offset, number) + _PARTITION.pack(source.partition) + source.topic.encode()


def parse_origin(header: bytes) -> Origin:
    """What a header says. Raises UnreadableState."""
    offset, number = _place(header)
    if len(header) < _ORIGIN_BYTES_MIN:
        raise _wrong(header, f"{len(header)} bytes, at least {_ORIGIN_BYTES_MIN} are needed")
    partition: int = _PARTITION.unpack_from(header, _PLACE.size)[0]
    if partition < 0:
        raise _wrong(header, f"partition {partition}")
    try:
        topic = header[_PLACE.size + _PARTITION.size :].decode()
    except UnicodeDecodeError:
        raise _wrong(header, "the topic is not UTF-8") from None
    return Origin(TopicPartition(topic, partition), offset, number)


class Origins:
    """The last output that was read of each origin partition."""

    __slots__ = ("_last",)

    def __init__(self, headers: Iterable[bytes] = ()) -> None:
        """`headers`: as `headers()` gave them. Raises UnreadableState."""
        self._last: dict[bytes, tuple[int, int]] = {}
        for header in headers:
            self.seen(header)

    def seen(self, header: bytes) -> bool:
        """True if this output, or a later one of the same origin partition, was seen; it is noted otherwise.

        Raises UnreadableState, and notes nothing then.
        """
        place = _place(header)
        source = header[_PLACE.size :]
        last = self._last.get(source)
        if last is None:
            parse_origin(header)
        elif place <= last:
            return True
        self._last[source] = place
        return False

    def headers(self) -> list[bytes]:
        """The last header of each origin partition, in an order that depends on nothing else."""
        return [_PLACE.pack(_VERSION, *self._last[source]) + source for source in sorted(self._last)]

    def __len__(self) -> int:
        return len(self._last)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Origins) and self._last == other._last

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Origins({', '.join(str(parse_origin(header)) for header in self.headers())})"


def _place(header: bytes) -> tuple[int, int]:
    """Offset and number. They order the outputs of one origin partition."""
    try:
        version, offset, number = _PLACE.unpack_from(header)
    except struct.error:
        raise _wrong(header, f"{len(header)} bytes, at least {_ORIGIN_BYTES_MIN} are needed") from None
    if version != _VERSION:
        raise _wrong(header, f"version {version}, this is {_VERSION}")
    if offset < 0 or number < 0:
        raise _wrong(header, f"offset {offset}, output {number}")
    return offset, number


def _wrong(header: bytes, why: str) -> UnreadableState:
    return UnreadableState(f"header {ORIGIN_HEADER} = {header[:64]!r}: {why}")
