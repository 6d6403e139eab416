"""Chooses the partition of a key with murmur2, as Kafka's clients do."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF

KEYS_REMEMBERED: Final = 1 << 14
"""Cached keys: hashing a key costs microseconds in Python, and most topics have recurring keys."""


def murmur2(data: bytes) -> int:
    """32-bit MurmurHash2 of the bytes, unsigned, with the seed that Kafka uses."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    if whole < length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


@lru_cache(maxsize=KEYS_REMEMBERED)
def partition_for(key: bytes, partitions: int) -> int:
    """The partition, 0 to `partitions` - 1, of every record with this key."""
    return (murmur2(key) & _POSITIVE) % partitions
