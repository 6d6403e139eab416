"""The fields of Kafka's messages: numbers, strings, arrays and tags, in their plain and their compact forms.

Versions of a message before its first *flexible* one have lengths of two or four bytes. Flexible versions
have varints, and end each structure with tagged fields (KIP-482). Unknown ones are skipped.

The reader distrusts its input. It makes nothing before the bytes that are left justify it, it bounds the
elements of all arrays of one request together, and everything wrong is a `MalformedRequest`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from strandline.errors import InvalidRequest

ELEMENTS_MAX: Final = 20_000
"""Elements of all arrays, and tags, in one request: the number of replicas that a broker may have."""
STRING_BYTES_MAX: Final = 2**15 - 1
"""The longest string of the plain form; compact strings have the same bound here."""
VARINT_BYTES_MAX: Final = 5
UUID_BYTES: Final = 16

_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_FLOAT64: Final = struct.Struct(">d")

ELEMENTS_PER_STEP: Final = 100
"""Elements of a large array that are written at once."""

Part = bytes | bytearray | memoryview

Steps = Iterator[None]
"""The writing of a large answer. Between two steps other work has its turn; the answer is whole after the
last."""


class MalformedRequest(InvalidRequest):
    """The bytes are no request of Kafka's protocol. The connection is closed."""


class Reader:
    """Reads the fields of one request from the front. Bytes after its last field are ignored, since
    librdkafka sends some (its issue 5049)."""

    __slots__ = ("_at", "_data", "_elements", "_end", "flexible")

    def __init__(self, data: Part, *, flexible: bool = False) -> None:
        self._data = memoryview(data)
        self._at = 0
        self._end = len(self._data)
        self._elements = 0
        self.flexible = flexible
        """True while strings, bytes and arrays are compact, and structures end with tags."""

    @property
    def left(self) -> int:
        """The number of unread bytes."""
        return self._end - self._at

    # --- numbers -----------------------------------------------------------------------------

    def int8(self) -> int:
        number: int = _INT8.unpack_from(self._data, self._step(1))[0]
        return number

    def int16(self) -> int:
        number: int = _INT16.unpack_from(self._data, self._step(2))[0]
        return number

    def int32(self) -> int:
        number: int = _INT32.unpack_from(self._data, self._step(4))[0]
        return number

    def int64(self) -> int:
        number: int = _INT64.unpack_from(self._data, self._step(8))[0]
        return number

    def float64(self) -> float:
        number: float = _FLOAT64.unpack_from(self._data, self._step(8))[0]
        return number

    def numbers(self, fields: struct.Struct) -> tuple[Any, ...]:
        """Several numbers in a row, faster than one by one."""
        return fields.unpack_from(self._data, self._step(fields.size))

    def boolean(self) -> bool:
        return self.int8() != 0

    def uuid(self) -> str:
        """32 hexadecimal digits."""
        start = self._step(UUID_BYTES)
        return self._data[start : start + UUID_BYTES].hex()

    def varint(self) -> int:
        """An unsigned number of at most 32 bits, in one to five bytes."""
        number = 0
        for shift in range(0, 7 * VARINT_BYTES_MAX, 7):
            byte = self._data[self._step(1)]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                if number >= 1 << 32:
                    break
                return number
        raise self._wrong("a varint has more than 32 bits")

    # --- strings, bytes ----------------------------------------------------------------------

    def string(self) -> str:
        found = self.nullable_string()
        if found is None:
            raise self._wrong("a string is null")
        return found

    def nullable_string(self) -> str | None:
        length = self.varint() - 1 if self.flexible else self.int16()
        if length == -1:
            return None
        if not 0 <= length <= STRING_BYTES_MAX:
            raise self._wrong(f"a string of {length} bytes")
        start = self._step(length)
        try:
            return str(self._data[start : start + length], "utf-8")
        except UnicodeDecodeError:
            raise self._wrong("a string is not UTF-8") from None

    def nullable_part(self) -> memoryview | None:
        """A part of the frame; nothing is copied."""
        length = self.varint() - 1 if self.flexible else self.int32()
        if length == -1:
            return None
        if length < 0:
            raise self._wrong(f"bytes of length {length}")
        start = self._step(length)
        return self._data[start : start + length]

    def part(self) -> memoryview:
        found = self.nullable_part()
        if found is None:
            raise self._wrong("bytes are null")
        return found

    def blob(self) -> bytes:
        """A copy, which outlives the frame."""
        return bytes(self.part())

    # --- arrays ------------------------------------------------------------------------------

    def count(self, bytes_min: int) -> int:
        """The number of elements of an array. Each has at least `bytes_min` bytes, so a count that is a lie
        is found before anything is made."""
        count = self.nullable_count(bytes_min)
        if count < 0:
            raise self._wrong("an array is null")
        return count

    def nullable_count(self, bytes_min: int) -> int:
        """The same; -1 for null."""
        count = self.varint() - 1 if self.flexible else self.int32()
        if count == -1:
            return count
        if count < 0 or count * bytes_min > self.left:
            raise self._wrong(f"{count} elements in {self.left} bytes")
        self._count(count)
        return count

    def _count(self, more: int) -> None:
        self._elements += more
        if self._elements > ELEMENTS_MAX:
            raise self._wrong(f"more than {ELEMENTS_MAX} elements in one request")

    # --- tags --------------------------------------------------------------------------------

    def tags(self) -> None:
        """Skips the tagged fields at the end of a structure."""
        if self.flexible:
            self.known_tags({})

    def known_tags(self, known: Mapping[int, Callable[[Reader], Any]]) -> dict[int, Any]:
        """The values of these tagged fields, which come in any order among others. Of one that comes twice,
        the last counts."""
        found = {}
        count = self.varint()
        self._count(count)
        for _ in range(count):
            number, size = self.varint(), self.varint()
            start = self._step(size)
            if number in known:
                found[number] = self._within(start, known[number])
        return found

    def _within(self, start: int, read: Callable[[Reader], Any]) -> Any:
        """Reads from `start` to here, and no further. Bytes after what was read are ignored."""
        self._at, self._end, at, end = start, self._at, self._at, self._end
        found = read(self)
        self._at, self._end = at, end
        return found

    def skip(self, size: int) -> None:
        self._step(size)

    # --- the position ------------------------------------------------------------------------

    def _step(self, size: int) -> int:
        """The position before a step over `size` bytes."""
        start = self._at
        if size > self._end - start:
            raise self._wrong(f"{size} bytes wanted, {self._end - start} left")
        self._at = start + size
        return start

    def _wrong(self, why: str) -> MalformedRequest:
        return MalformedRequest(f"before byte {self._at} of {self._end}: {why}")


class Writer:
    """Writes the fields of one answer. Records become parts of their own, so that they are not copied."""

    __slots__ = ("_parts", "_tail", "flexible", "throttle_ms")

    def __init__(self, *, flexible: bool = False, throttle_ms: int = 0) -> None:
        """`throttle_ms`: how long the client waits for its quota, which most answers say."""
        self._parts: list[Part] = []
        self._tail = bytearray()
        self.throttle_ms = throttle_ms
        self.flexible = flexible

    def parts(self) -> list[Part]:
        """What was written, in order."""
        if self._tail:
            self._parts.append(self._tail)
            self._tail = bytearray()
        return self._parts

    def nested(self) -> Writer:
        """A writer for the value of a tagged field."""
        return Writer(flexible=True)

    def numbers(self, fields: struct.Struct, *values: float) -> None:
        """Numbers in a row."""
        self._tail += fields.pack(*values)

    def alike(self, code: str, values: Sequence[float]) -> None:
        """Numbers of one type in a row. `code` is its format in `struct`."""
        self._tail += struct.pack(f">{len(values)}{code}", *values)

    def uuid(self, digits: str) -> None:
        """32 hexadecimal digits; empty for no id, which is zeros. Raises ValueError for another number."""
        found = bytes.fromhex(digits) or bytes(UUID_BYTES)
        if len(found) != UUID_BYTES:
            raise ValueError(f"{digits!r} is no id of {UUID_BYTES} bytes")
        self._tail += found

    def varint(self, number: int) -> None:
        while number >= 0x80:
            self._tail.append(number & 0x7F | 0x80)
            number >>= 7
        self._tail.append(number)

    def string(self, text: str | None) -> None:
        encoded = None if text is None else text.encode()
        length = -1 if encoded is None else len(encoded)
        if self.flexible:
            self.varint(length + 1)
        else:
            self._tail += _INT16.pack(length)
        if encoded:
            self._tail += encoded

    def blob(self, data: bytes) -> None:
        """Bytes of a small size; they are copied."""
        self.length(len(data))
        self._tail += data

    def records(self, records: bytes | None) -> None:
        """Record batches, as a part of their own."""
        self.length(-1 if records is None else len(records))
        if records:
            self.parts().append(records)

    def length(self, length: int) -> None:
        """Of an array or of bytes; -1 for null."""
        if self.flexible:
            self.varint(length + 1)
        else:
            self._tail += _INT32.pack(length)

    def tags(self, fields: Sequence[Tagged]) -> None:
        """Ends a structure of a flexible version, with these tagged fields."""
        self.varint(len(fields))
        for number, field in fields:
            data = b"".join(field.parts())
            self.varint(number)
            self.varint(len(data))
            self._tail += data


Tagged = tuple[int, Writer]
"""The number of a tagged field, and its value as it was written."""
