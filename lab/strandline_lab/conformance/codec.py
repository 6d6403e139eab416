"""Encodes requests and decodes answers, given the fields of a version.

A body is a dict with Kafka's names of fields. A field that the version lacks is left out, and one that the
body lacks has its default, so one body serves all versions. The format is Kafka's protocol guide's, with the
compact types and tagged fields of KIP-482.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from strandline_lab.conformance.definitions import Field

Body = Mapping[str, Any]

_NUMBERS: Final = {
    "bool": struct.Struct(">?"),
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "uint16": struct.Struct(">H"),
    "int32": struct.Struct(">i"),
    "uint32": struct.Struct(">I"),
    "int64": struct.Struct(">q"),
    "float64": struct.Struct(">d"),
}
_LENGTHS: Final = {"string": "int16", "bytes": "int32", "records": "int32"}
_ID_BYTES: Final = 16
_VARINT_BYTES_MAX: Final = 5
NO_SUCH_FIELD: Final = "(unknown tag)"


class Undecodable(Exception):
    """Bytes that are not the message that they should be."""


# --- encode -----------------------------------------------------------------------------------


def encode(fields: Sequence[Field], body: Body, *, flexible: bool) -> bytes:
    """The bytes of one structure. Raises struct.error for a number out of its range."""
    plain = [_encoded(field, body, flexible=flexible) for field in fields if field.tag is None]
    return b"".join(plain) + (_encoded_tags(fields, body) if flexible else b"")


def _encoded_tags(fields: Sequence[Field], body: Body) -> bytes:
    given = [
        (field.tag, _encoded(field, body, flexible=True))
        for field in fields
        if field.tag is not None and body.get(field.name, field.default) != field.default
    ]
    return uvarint(len(given)) + b"".join(
        uvarint(tag) + uvarint(len(value)) + value for tag, value in sorted(given)
    )


def _encoded(field: Field, body: Body, *, flexible: bool) -> bytes:
    value = body.get(field.name, field.default)
    if not field.is_array:
        return _encoded_one(field, value, flexible=flexible)
    each = [] if value is None else [_encoded_one(field, item, flexible=flexible) for item in value]
    return _length(None if value is None else len(each), "int32", flexible=flexible) + b"".join(each)


def _encoded_one(field: Field, value: Any, *, flexible: bool) -> bytes:
    if number := _NUMBERS.get(field.type):
        return number.pack(value)
    if field.type == "uuid":
        return bytes(value.bytes)
    if field.is_struct:
        if not field.is_nullable or field.is_array:
            return encode(field.fields, value, flexible=flexible)
        return b"\xff" if value is None else b"\x01" + encode(field.fields, value, flexible=flexible)
    raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    length = _length(None if raw is None else len(raw), _LENGTHS[field.type], flexible=flexible)
    return length + (raw or b"")


def _length(count: int | None, number: str, *, flexible: bool) -> bytes:
    if flexible:
        return uvarint(0 if count is None else count + 1)
    return _NUMBERS[number].pack(-1 if count is None else count)


def uvarint(value: int) -> bytes:
    """An unsigned varint of seven bits a byte, the lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# --- decode -----------------------------------------------------------------------------------


def decode(fields: Sequence[Field], data: bytes, *, flexible: bool) -> dict[str, Any]:
    """The fields of one structure, which takes all of `data`. Raises Undecodable."""
    reader = Reader(data)
    body = reader.structure(fields, flexible=flexible)
    if reader.left:
        raise Undecodable(f"{reader.left} bytes are left over")
    return body


class Reader:
    """Reads values one after the other. Every method raises Undecodable at the end of the bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        if not 0 <= count <= self.left:
            raise Undecodable(f"{count} bytes at {self._at}, {self.left} are there")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, kind: str) -> Any:
        packed = _NUMBERS[kind]
        return packed.unpack(self.take(packed.size))[0]

    def uvarint(self) -> int:
        value = 0
        for place in range(_VARINT_BYTES_MAX):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return value
        raise Undecodable("a varint of more than 5 bytes")

    def structure(self, fields: Sequence[Field], *, flexible: bool) -> dict[str, Any]:
        body = {
            field.name: field.default if field.tag is not None else self._value(field, flexible=flexible)
            for field in fields
        }
        return body | (self._tags(fields) if flexible else {})

    def _tags(self, fields: Sequence[Field]) -> dict[str, Any]:
        known = {field.tag: field for field in fields if field.tag is not None}
        found: dict[str, Any] = {}
        for _ in range(self.uvarint()):
            tag, length = self.uvarint(), self.uvarint()
            if (field := known.get(tag)) is None:
                found[f"{NO_SUCH_FIELD} {tag}"] = self.take(length).hex()
                continue
            end = self.left - length
            found[field.name] = self._value(field, flexible=True)
            if self.left != end:
                raise Undecodable(f"tag {tag} is not {length} bytes long")
        return found

    def _value(self, field: Field, *, flexible: bool) -> Any:
        if not field.is_array:
            return self._one(field, flexible=flexible)
        count = self._length("int32", flexible=flexible)
        if count is None:
            return self._null(field)
        return [self._one(field, flexible=flexible) for _ in range(count)]

    def _one(self, field: Field, *, flexible: bool) -> Any:
        if field.type in _NUMBERS:
            return self.number(field.type)
        if field.type == "uuid":
            return UUID(bytes=self.take(_ID_BYTES))
        if field.is_struct:
            if field.is_nullable and not field.is_array and self.number("int8") < 0:
                return None
            return self.structure(field.fields, flexible=flexible)
        length = self._length(_LENGTHS[field.type], flexible=flexible)
        if length is None:
            # Kafka writes null records, though some definitions forbid it.
            return None if field.type == "records" else self._null(field)
        raw = self.take(length)
        return raw.decode("utf-8", "replace") if field.type == "string" else raw

    def _length(self, number: str, *, flexible: bool) -> int | None:
        length = self.uvarint() - 1 if flexible else int(self.number(number))
        return None if length < 0 else length

    def _null(self, field: Field) -> None:
        if not field.is_nullable:
            raise Undecodable(f"{field.name} is null")
