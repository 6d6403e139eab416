"""Parses requests: counts their elements, then parses them, and refuses malformed ones with a typed
error.

If gRPC parsed them, it would log a traceback for each malformed request.
"""

from __future__ import annotations

from typing import Final, TypeVar

from google.protobuf.message import DecodeError, Message

from strandline.errors import InvalidRequest

AnyMessage = TypeVar("AnyMessage", bound=Message)

REQUEST_ELEMENTS_MAX: Final = 20_000
"""Entries, partitions or names in one request: the number of replicas that a broker may have."""

_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES: Final = {_FIXED64: 8, _FIXED32: 4}
_VARINT_BITS: Final = 70
_COUNTED_BYTES_MIN: Final = 2
"""The shortest element has two bytes: a tag and a length."""


class MalformedRequest(InvalidRequest):
    """The bytes are no request of this kind. The sender has a defect, or is not a strandline client."""

    def __init__(self, message: str, *, kind: str, limit: int | None = None) -> None:
        super().__init__(message, limit=limit)
        self.kind = kind


def parse(kind: type[AnyMessage], data: bytes, *, elements_max: int = REQUEST_ELEMENTS_MAX) -> AnyMessage:
    """Parse a message of this kind. Raises MalformedRequest, before parsing if there are too many
    elements.

    A repeated field of empty messages takes two bytes for each element on the wire and a hundred in
    memory.
    """
    name = kind.__name__
    if len(data) > elements_max * _COUNTED_BYTES_MIN and has_more_fields(data, elements_max):
        raise MalformedRequest(
            f"a {name} of {len(data)} bytes has more than {elements_max} elements; send fewer in one request",
            kind=name,
            limit=elements_max,
        )
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise MalformedRequest(f"{len(data)} bytes that are not a {name}: {error}", kind=name) from None


def has_more_fields(data: bytes, count_max: int) -> bool:
    """True if a message has more top-level fields than this; False if it is malformed before that count."""
    at, end = 0, len(data)
    try:
        for _ in range(count_max):
            if at >= end:
                return False
            tag, at = _varint(data, at)
            kind = tag & 7
            if kind == _DELIMITED:
                size, at = _varint(data, at)
                at += size
            elif kind == _VARINT:
                _, at = _varint(data, at)
            elif kind in _FIXED_BYTES:
                at += _FIXED_BYTES[kind]
            else:
                return False
    except IndexError:
        return False
    return at < end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number and the position after it. Raises IndexError if the number does not end."""
    number = data[at]
    at += 1
    if number < 0x80:
        return number, at
    number &= 0x7F
    for shift in range(7, _VARINT_BITS, 7):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise IndexError(at)
