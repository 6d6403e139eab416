"""How keys and values become bytes, and bytes keys and values.

Values that are equal have to become the same bytes where they are keys: by those a store finds them, and a
repartition their partition. None never gets here: it is a record without a key, or a tombstone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")

_INTEGER_BYTES: Final = 8
_INTEGER_ZERO: Final = 1 << 63


class Serde(Protocol[T]):
    """Both ways. What it raises ends the application, with a note that says what it was asked for.

    Two that compare equal are taken for the same: a class of one's own is best a frozen dataclass.
    """

    def encode(self, value: T) -> bytes: ...

    def decode(self, data: bytes) -> T: ...


@dataclass(frozen=True, slots=True)
class BytesSerde:
    """Bytes as they are."""

    def encode(self, value: bytes) -> bytes:
        """Raises TypeError for what is no bytes."""
        if not isinstance(value, bytes):
            raise TypeError(f"{value!r} is {type(value).__name__}, not bytes: name a serde for it")
        return value

    def decode(self, data: bytes) -> bytes:
        return data


@dataclass(frozen=True, slots=True)
class StringSerde:
    """UTF-8."""

    def encode(self, value: str) -> bytes:
        """Raises TypeError for what is no str, UnicodeEncodeError for half a surrogate pair."""
        if not isinstance(value, str):
            raise TypeError(f"{value!r} is {type(value).__name__}, not str")
        return value.encode()

    def decode(self, data: bytes) -> str:
        """Raises UnicodeDecodeError."""
        return data.decode()


@dataclass(frozen=True, slots=True)
class IntegerSerde:
    """−2⁶³ to 2⁶³ − 1 in 8 bytes, big-endian from the least one on: bytes have the order of numbers."""

    def encode(self, value: int) -> bytes:
        """Raises TypeError for what is no int, OverflowError for what does not fit."""
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
    """JSON in UTF-8, names in order and no spaces: equal objects are equal bytes.

    A JSON `null` is read as None, which downstream is a tombstone.
    """

    def encode(self, value: Any) -> bytes:
        """Raises TypeError for what JSON has no form for, ValueError for NaN and infinities."""
        return _TO_JSON(value).encode()

    def decode(self, data: bytes) -> Any:
        """Raises ValueError for what is no JSON in UTF-8."""
        return _FROM_JSON(data.decode())


BYTES: Final = BytesSerde()
STRING: Final = StringSerde()
INTEGER: Final = IntegerSerde()
JSON: Final = JsonSerde()
