"""Encodes and decodes the binary fields that group members, or tasks, exchange.

Big-endian; strings, bytes and arrays begin with their length. The reader distrusts its input: it
allocates no more than the remaining bytes justify, and every error names its position.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from strandline.errors import StrandlineError

INT8: Final = struct.Struct(">b")
INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")


def string(text: str) -> bytes:
    """Encodes a string for `FieldReader.string`."""
    encoded = text.encode()
    return INT16.pack(len(encoded)) + encoded


def int32s(numbers: Sequence[int]) -> bytes:
    """Encodes an array of numbers, with its length."""
    return struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)


class FieldReader:
    """Reads fields from the front. `what` names the data in messages; `error` is the exception to raise."""

    def __init__(self, data: bytes, what: str, error: type[StrandlineError]) -> None:
        self._data = data
        self._what = what
        self._error = error
        self._at = 0

    @property
    def at(self) -> int:
        """Position of the next byte."""
        return self._at

    @property
    def left(self) -> int:
        """The number of unread bytes."""
        return len(self._data) - self._at

    def int8(self) -> int:
        number: int = INT8.unpack(self.take(INT8.size))[0]
        return number

    def int16(self) -> int:
        number: int = INT16.unpack(self.take(INT16.size))[0]
        return number

    def int32(self) -> int:
        number: int = INT32.unpack(self.take(INT32.size))[0]
        return number

    def version(self) -> int:
        """A version: two bytes, not negative."""
        return self.not_negative(self._at, self.int16(), "version")

    def string(self) -> str:
        """A UTF-8 string, its length in two bytes."""
        start = self._at
        raw = self.take(self.not_negative(start, self.int16(), "length of a string"))
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self.wrong(start + INT16.size, "a string is not UTF-8") from None

    def blob(self) -> bytes:
        """A byte string, its length in four bytes."""
        start = self._at
        return self.take(self.not_negative(start, self.int32(), "length of bytes"))

    def array(self, element_bytes_min: int) -> int:
        """The number of elements that follow; it is checked against the bytes that are left."""
        start = self._at
        count = self.not_negative(start, self.int32(), "length of an array")
        if count * element_bytes_min > self.left:
            raise self.wrong(start, f"{count} elements in {self.left} bytes")
        return count

    def int32s(self, count: int) -> tuple[int, ...]:
        """The next `count` numbers."""
        return struct.unpack(f">{count}i", self.take(count * INT32.size))

    def take(self, length: int) -> bytes:
        """The next `length` bytes."""
        if length > self.left:
            raise self.wrong(self._at, f"{length} bytes wanted, {self.left} left")
        start, self._at = self._at, self._at + length
        return self._data[start : self._at]

    def end(self) -> None:
        """Raises if any bytes are left."""
        if self.left:
            raise self.wrong(self._at, f"{self.left} bytes too many")

    def not_negative(self, start: int, number: int, what: str) -> int:
        """The number, if it is not negative. `what` and `start`, its position, are for the message."""
        if number < 0:
            raise self.wrong(start, f"{what} is {number}")
        return number

    def wrong(self, position: int, why: str) -> StrandlineError:
        """The exception to raise."""
        return self._error(f"{self._what} at byte {position} of {len(self._data)}: {why}")
