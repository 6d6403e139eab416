"""The origin of a record in a repartition topic, by which a record that was written twice is counted once.

Outputs are written at least once: if a task dies between its outputs and its commit, its successor writes the
same ones again. So each output carries its *origin*: the partition and offset of its input record, and its
index among the outputs of that record. One task makes all the outputs of an origin partition, in order, so
their reader must remember only the last one of each origin partition; this is part of its position record,
and is written into the changelog with the counted state (CORRECTNESS S9).
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
"""Version, offset, index. The source follows; the same partition always has the same bytes."""
_NUMBER_AT: Final = 9
_SIGN: Final = 0x80
_PLACE_END: Final = bytes((_VERSION, _SIGN))
"""Places of this version, with an offset of at least 0, are below."""
_PARTITION: Final = struct.Struct(">i")
_ORIGIN_BYTES_MIN: Final = _PLACE.size + _PARTITION.size + 1


class Origin(NamedTuple):
    """One output of one input record."""

    source: TopicPartition
    offset: int
    number: int
    """Index among the outputs of that record, from 0."""


def origin_header(source: TopicPartition, offset: int, number: int) -> bytes:
    """The header value for output `number` of the record at `offset` of `source`."""
    return origin_place(offset, number) + origin_suffix(source)


def parse_origin(header: bytes) -> Origin:
    """Decode a header. Raises UnreadableState."""
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


def origin_suffix(source: TopicPartition) -> bytes:
    """The end of all header values of a source; `origin_place` is before it."""
    return _PARTITION.pack(source.partition) + source.topic.encode()


def origin_place(offset: int, number: int) -> bytes:
    """The begin of the header value for output `number` of the record at `offset`."""
    return _PLACE.pack(_VERSION, offset, number)


class Origins:
    """The last output read of each origin partition."""

    __slots__ = ("_last",)

    def __init__(self, headers: Iterable[bytes] = ()) -> None:
        """`headers`: as returned by `headers()`. Raises UnreadableState."""
        self._last: dict[bytes, bytes] = {}
        """By source, the place of its last output: as bytes, places are ordered as their numbers are."""
        for header in headers:
            self.seen(header)

    def seen(self, header: bytes) -> bool:
        """True if this output, or a later one of the same origin partition, was seen before; otherwise note
        it.

        Raises UnreadableState, and then notes nothing.
        """
        place, source = header[: _PLACE.size], header[_PLACE.size :]
        last = self._last.get(source)
        if last is None:
            parse_origin(header)
        elif not (last < place < _PLACE_END and place[_NUMBER_AT] < _SIGN):
            _place(header)
            return True
        self._last[source] = place
        return False

    def headers(self) -> list[bytes]:
        """The last header of each origin partition, in a deterministic order."""
        return [self._last[source] + source for source in sorted(self._last)]

    def __len__(self) -> int:
        return len(self._last)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Origins) and self._last == other._last

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Origins({', '.join(str(parse_origin(header)) for header in self.headers())})"


def _place(header: bytes) -> tuple[int, int]:
    """Offset and index, by which the outputs of one origin partition are ordered."""
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
