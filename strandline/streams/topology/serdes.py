"""Converts keys and values to bytes and back.

Equal keys must have equal bytes: a store finds them, and a repartition partitions them, by their bytes. None
is never passed: it is a record without a key, or a tombstone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")

_INTEGER_BYTES: Final = 8
_INTEGER_ZERO: Final = 1 << 63


class Serde(Protocol[T]):
    """Encodes and decodes. Its errors end the application, with a note that names the field.

    Two serdes that compare equal count as the same: a class of your own is best a frozen dataclass.
    """

    def encode(self, value: T) -> bytes: ...

    def decode(self, data: bytes) -> T: ...


@dataclass(frozen=True, slots=True)
class BytesSerde:
    """Bytes, unchanged."""

    def encode(self, value: bytes) -> bytes:
        """Raises TypeError for a value that is not bytes."""
        if not isinstance(value, bytes):
            raise TypeError(f"{value!r} is {type(value).__name__}, not bytes: name a serde for it")
        return value

    def decode(self, data: bytes) -> bytes:
        return data


@dataclass(frozen=True, slots=True)
class StringSerde:
    """UTF-8."""

    def encode(self, value: str) -> bytes:
        """Raises TypeError for a value that is not a str, UnicodeEncodeError for half a surrogate pair."""
        if not isinstance(value, str):
            raise TypeError(f"{value!r} is {type(value).__name__}, not str")
        return value.encode()

    def decode(self, data: bytes) -> str:
        """Raises UnicodeDecodeError."""
        return data.decode()


@dataclass(frozen=True, slots=True)
class IntegerSerde:
    """−2⁶³ to 2⁶³ − 1 in 8 bytes, big-endian and offset by 2⁶³, so that bytes have the order of numbers."""

    def encode(self, value: int) -> bytes:
        """Raises TypeError for a value that is not an int, OverflowError if it does not fit."""
        if not isinstance(value, int):
            raise TypeError(f"{value!r} is {type(value).__name__}, not int")
        try:
            return (value + _INTEGER_ZERO).to_bytes(_INTEGER_BYTES, "big")
        except OverflowError:
            raise OverflowError(f"{value} does not fit into 64 bits") from None

    def decode(self, data: bytes) -> int:
        """Raises ValueError unless there are 8 bytes."""
        if len(data) != _INTEGER_BYTES:
            raise ValueError(f"{len(data)} bytes; an integer has {_INTEGER_BYTES}")
        return int.from_bytes(data, "big") - _INTEGER_ZERO


_TO_JSON: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode
_FROM_JSON: Final = json.JSONDecoder().decode


@dataclass(frozen=True, slots=True)
class JsonSerde:
    """JSON in UTF-8 with sorted names and without spaces: equal objects have equal bytes.

    A JSON `null` is decoded as None, which downstream is a tombstone.
    """

    def encode(self, value: Any) -> bytes:
        """Raises TypeError for a value without a JSON form, ValueError for NaN and infinities."""
        return _TO_JSON(value).encode()

    def decode(self, data: bytes) -> Any:
        """Raises ValueError for bytes that are not JSON in UTF-8."""
        return _FROM_JSON(data.decode())


BYTES: Final = BytesSerde()
STRING: Final = StringSerde()
INTEGER: Final = IntegerSerde()
JSON: Final = JsonSerde()
