"""Writes the fields of coordinators' records, in the encodings that `record_reader` reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from strandline.broker.core.coordinators.record_reader import INT16


def string(text: str) -> bytes:
    data = text.encode()
    return INT16.pack(len(data)) + data


def uvarint(number: int) -> bytes:
    """An unsigned varint, least significant bits first."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def compact_string(text: str | None) -> bytes:
    """None is null."""
    if text is None:
        return uvarint(0)
    data = text.encode()
    return uvarint(len(data) + 1) + data


def compact_bytes(data: bytes) -> bytes:
    return uvarint(len(data) + 1) + data


def compact_array(elements: Iterable[bytes]) -> bytes:
    found = list(elements)
    return uvarint(len(found) + 1) + b"".join(found)


def tags(fields: Mapping[int, bytes]) -> bytes:
    """Tagged fields by their numbers, which rise."""
    each = (uvarint(tag) + uvarint(len(data)) + data for tag, data in fields.items())
    return uvarint(len(fields)) + b"".join(each)
