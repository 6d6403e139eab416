"""Reads several znodes by one request of ZooKeeper's protocol, which kazoo does not have (ZOOKEEPER-3763)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kazoo.exceptions import EXCEPTIONS
from kazoo.protocol.serialization import GetData, MultiHeader, ZnodeStat, read_buffer, stat_struct

ERROR: Final = -1
"""The type of an answer that is an error."""
_END: Final = MultiHeader(-1, True, -1).serialize()
_READ: Final = MultiHeader(GetData.type, False, -1).serialize()


class MultiRead(NamedTuple):
    """The request, as kazoo sends one and reads its answer: for each znode its data and stat, or the
    exception of that read."""

    paths: Sequence[str]

    @property
    def type(self) -> int:
        return 22

    def serialize(self) -> bytearray:
        frame = bytearray()
        for path in self.paths:
            frame += _READ
            frame += GetData(path, None).serialize()
        frame += _END
        return frame

    @classmethod
    def deserialize(cls, frame: bytes, offset: int) -> list[Any]:
        answers: list[Any] = []
        header, offset = MultiHeader.deserialize(frame, offset)
        while not header.done:
            if header.type == ERROR:
                answers.append(EXCEPTIONS[int.from_bytes(frame[offset : offset + 4], "big", signed=True)]())
                offset += 4
            else:
                data, offset = read_buffer(frame, offset)
                answers.append((data, ZnodeStat._make(stat_struct.unpack_from(frame, offset))))
                offset += stat_struct.size
            header, offset = MultiHeader.deserialize(frame, offset)
        return answers
