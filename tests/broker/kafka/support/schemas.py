"""Kafka's messages as tables, with a codec of their own: the other end of the wire for tests of a broker's.

It shares nothing with `strandline.broker.kafka.wire`. A table says for each field since which version it is
there, until which, and since which it may be null.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

ALWAYS: Final = 10**6
BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
FORMATS: Final = {"int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q", "bool": ">?"}

Values = Mapping[str, Any]
Kind = Any
"""Of a field: see `Field`."""


@dataclass(frozen=True)
class Field:
    """`kind`: a number, `bool`, `uuid`, `string`, `bytes`, the name of one of these in a list of one, or the
    fields of an array of structures."""

    name: str
    kind: Kind
    first: int = 0
    last: int = ALWAYS
    null_since: int = ALWAYS

    def there(self, version: int) -> bool:
        return self.first <= version <= self.last


F = Field


@dataclass(frozen=True)
class Schema:
    key: int
    name: str
    first: int
    last: int
    flexible_since: int
    request: list[Field]
    answer: list[Field]

    @property
    def versions(self) -> range:
        return range(self.first, self.last + 1)

    def flexible(self, version: int) -> bool:
        return version >= self.flexible_since

    def encode_request(
        self, version: int, values: Values, *, correlation_id: int = 1, client: str = "t"
    ) -> bytes:
        """A whole request, without the length before it."""
        head = struct.pack(">hhi", self.key, version, correlation_id) + encode("string", client, False)
        tags = b"\0" if self.flexible(version) else b""
        return head + tags + encode_struct(self.request, values, version, self.flexible(version))

    def decode_answer(self, version: int, frame: bytes) -> tuple[int, dict[str, Any]]:
        """(correlation id, values) of a whole answer, without the length before it."""
        data = Bytes(frame)
        correlation_id = data.number("int32")
        flexible = self.flexible(version)
        if flexible and self.key != 18:
            data.tags()
        found = decode_struct(self.answer, data, version, flexible)
        assert not data.left, f"{self.name} {version}: {len(data.left)} bytes too many"
        return correlation_id, found


# --- encode -----------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(0x80 | number & 0x7F)
        number >>= 7
    return bytes(out) + bytes([number])


def encode_struct(fields: Sequence[Field], values: Values, version: int, flexible: bool) -> bytes:
    out = b"".join(
        encode(field.kind, values[field.name], flexible, version) for field in fields if field.there(version)
    )
    return out + (b"\0" if flexible else b"")


def encode(kind: Kind, value: Any, flexible: bool, version: int = 0) -> bytes:
    if kind == "uuid":
        return bytes.fromhex(value)
    if isinstance(kind, str) and kind in FORMATS:
        return struct.pack(FORMATS[kind], value)
    if isinstance(kind, str):
        data = None if value is None else value.encode() if kind == "string" else bytes(value)
        return _length(data, flexible, ">h" if kind == "string" else ">i") + (data or b"")
    out = _length(value, flexible, ">i")
    for element in value or ():
        if isinstance(kind[0], Field):
            out += encode_struct(kind, element, version, flexible)
        else:
            out += encode(kind[0], element, flexible)
    return out


def _length(value: Sequence[Any] | None, flexible: bool, plain: str) -> bytes:
    length = -1 if value is None else len(value)
    return varint(length + 1) if flexible else struct.pack(plain, length)


# --- decode -----------------------------------------------------------------------------------


class Bytes:
    """What is left of an answer."""

    def __init__(self, data: bytes) -> None:
        self.left = data

    def take(self, count: int) -> bytes:
        assert count <= len(self.left), f"{count} bytes wanted, {len(self.left)} left"
        taken, self.left = self.left[:count], self.left[count:]
        return taken

    def number(self, kind: str) -> Any:
        return struct.unpack(FORMATS[kind], self.take(struct.calcsize(FORMATS[kind])))[0]

    def varint(self) -> int:
        number = shift = 0
        while True:
            (byte,) = self.take(1)
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())


def decode_struct(fields: Sequence[Field], data: Bytes, version: int, flexible: bool) -> dict[str, Any]:
    found = {
        field.name: decode(field.kind, data, version, flexible) for field in fields if field.there(version)
    }
    if flexible:
        data.tags()
    return found


def decode(kind: Kind, data: Bytes, version: int, flexible: bool) -> Any:
    if kind == "uuid":
        return data.take(16).hex()
    if isinstance(kind, str) and kind in FORMATS:
        return data.number(kind)
    plain = "int16" if kind == "string" else "int32"
    length = data.varint() - 1 if flexible else data.number(plain)
    if length < 0:
        return None
    if isinstance(kind, str):
        taken = data.take(length)
        return taken.decode() if kind == "string" else taken
    if isinstance(kind[0], Field):
        return [decode_struct(kind, data, version, flexible) for _ in range(length)]
    return [decode(kind[0], data, version, flexible) for _ in range(length)]


# --- any values -------------------------------------------------------------------------------

SHORT_TEXT: Final = st.text(st.characters(codec="utf-8"), max_size=8)


def any_struct(fields: Sequence[Field], version: int) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {field.name: _any_field(field, version) for field in fields if field.there(version)}
    )


def _any_field(field: Field, version: int) -> st.SearchStrategy[Any]:
    found = _any(field.kind, version)
    return found | st.none() if version >= field.null_since else found


def _any(kind: Kind, version: int) -> st.SearchStrategy[Any]:
    if isinstance(kind, list):
        if isinstance(kind[0], Field):
            element = any_struct(kind, version)
            return st.lists(element, max_size=3)
        return st.lists(_any(kind[0], version), max_size=3)
    if kind in BITS:
        half = 1 << (BITS[kind] - 1)
        return st.integers(-half, half - 1)
    return {
        "bool": st.booleans(),
        "uuid": st.binary(min_size=16, max_size=16).map(bytes.hex),
        "string": SHORT_TEXT,
        "bytes": st.binary(max_size=40),
    }[kind]
