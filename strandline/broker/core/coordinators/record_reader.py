"""Reads the fields of coordinators' records, in the encodings of Kafka's messages.

Integers are big-endian. A string's length takes two bytes, that of bytes and arrays four; a length of -1 is
null. In flexible versions a length is an unsigned varint, and one more than it is (KIP-482).
"""

from __future__ import annotations

import struct
from typing import Final

from strandline.errors import InvalidRecord

INT8: Final = struct.Struct(">b")
INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
INT64: Final = struct.Struct(">q")

UVARINT_BYTES_MAX: Final = 5
"""An unsigned varint of 32 bits; a longer one is invalid."""


class RecordReader:
    """Takes one field after the other from the bytes of a record. Raises `unreadable` if they are not there;
    `what` names the record in it."""

    __slots__ = ("_at", "_data", "_unreadable", "what")

    def __init__(self, data: bytes, what: str, unreadable: type[InvalidRecord]) -> None:
        self.what = what
        self._data = data
        self._unreadable = unreadable
        self._at = 0

    def int8(self) -> int:
        return self._number(INT8)

    def int16(self) -> int:
        return self._number(INT16)

    def int32(self) -> int:
        return self._number(INT32)

    def int64(self) -> int:
        return self._number(INT64)

    def uvarint(self) -> int:
        number = 0
        for at in range(UVARINT_BYTES_MAX):
            (byte,) = self.take(1)
            number |= (byte & 0x7F) << 7 * at
            if byte < 0x80:
                return number
        raise self.refuse(f"a varint before byte {self._at} is longer than {UVARINT_BYTES_MAX} bytes")

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise self.refuse(f"null before byte {self._at}, where text must be")
        return text

    def nullable_string(self) -> str | None:
        length = self.int16()
        return None if length == -1 else self._text(length)

    def compact_string(self) -> str:
        return self._text(self.uvarint() - 1)

    def compact_nullable_string(self) -> str | None:
        length = self.uvarint() - 1
        return None if length == -1 else self._text(length)

    def compact_bytes(self) -> bytes:
        return self.take(self.uvarint() - 1)

    def compact_length(self) -> int:
        """The number of an array's elements, each of which has a byte at least. Null is refused."""
        count = self.uvarint() - 1
        if not 0 <= count <= len(self._data) - self._at:
            raise self.refuse(f"{count} elements before byte {self._at} of {len(self._data)}")
        return count

    def tags(self) -> dict[int, bytes]:
        """The tagged fields at the end of a structure, by number."""
        found = dict[int, bytes]()
        for _ in range(self.uvarint()):
            tag = self.uvarint()
            found[tag] = self.take(self.uvarint())
        return found

    def blob(self) -> bytes:
        return self.take(self.int32())

    def end(self) -> None:
        if self._at != len(self._data):
            raise self.refuse(f"of {len(self._data)} bytes only {self._at} are understood")

    def take(self, length: int) -> bytes:
        end = self._at + length
        if length < 0 or end > len(self._data):
            raise self.refuse(f"{length} bytes wanted at byte {self._at} of {len(self._data)}")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def refuse(self, why: str) -> InvalidRecord:
        return self._unreadable(f"{self.what}: {why}")

    def _number(self, layout: struct.Struct) -> int:
        (value,) = layout.unpack(self.take(layout.size))
        assert isinstance(value, int)
        return value

    def _text(self, length: int) -> str:
        try:
            return self.take(length).decode()
        except UnicodeDecodeError as error:
            raise self.refuse(f"no text before byte {self._at}: {error}") from None
