"""Zigzag varints, as records of a RecordBatch v2 use them for lengths and deltas.

A signed number n is encoded as the unsigned 2n (n >= 0) or -2n - 1 (n < 0), seven bits a byte, the
lowest first; the high bit of a byte says that another byte follows.
"""

from __future__ import annotations

from typing import Final

VARINT_BYTES_MAX: Final = 10
"""A varint of 64 bits; a longer one is invalid."""

LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1
"""The bounds of offsets and timestamps. A batch's base and a record's delta are within them; their sum
may not be."""


def encode_varint(number: int) -> bytes:
    """The bytes of a signed number of up to 64 bits. Raises OverflowError for a larger one."""
    if not LONG_MIN <= number <= LONG_MAX:
        raise OverflowError(f"{number} does not fit a varint of 64 bits")
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def decode_varint(data: bytes, position: int) -> tuple[int, int]:
    """The signed number at a position, and the position after it.

    Raises IndexError if the data ends within it, ValueError if it is longer than ten bytes.
    """
    raw = shift = 0
    for at in range(position, position + VARINT_BYTES_MAX):
        byte = data[at]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at + 1
        shift += 7
    raise ValueError(f"varint at byte {position} is longer than {VARINT_BYTES_MAX} bytes")


class VarintCache(dict[int, bytes]):
    """number → its bytes, cached for small numbers, which are the most frequent."""

    __slots__ = ()

    REMEMBERED_MAX: Final = 1 << 16

    def __missing__(self, number: int) -> bytes:
        encoded = encode_varint(number)
        if 0 <= number < self.REMEMBERED_MAX:
            self[number] = encoded
        return encoded


VARINTS: Final = VarintCache()
