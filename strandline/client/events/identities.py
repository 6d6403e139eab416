"""Detects records that were written more than once."""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import Final

IDENTITIES_MAX: Final = 100_000
"""The oldest are forgotten: a record is repeated soon after the first time, or never."""

_DIGEST_BYTES: Final = 16


class Identities:
    """Keeps the digests of identities: one may be long, and a controller has such a set for each stream."""

    def __init__(self, most: int = IDENTITIES_MAX) -> None:
        self._most = most
        self._met: set[bytes] = set()
        self._in_order: deque[bytes] = deque()  # a dict would find its oldest key ever more slowly

    def first(self, identity: tuple[str, ...]) -> bool:
        """True if this identity is new, or was forgotten."""
        digest = blake2b("\0".join(identity).encode(), digest_size=_DIGEST_BYTES).digest()
        if digest in self._met:
            return False
        self._met.add(digest)
        self._in_order.append(digest)
        if len(self._met) > self._most:
            self._met.remove(self._in_order.popleft())
        return True
