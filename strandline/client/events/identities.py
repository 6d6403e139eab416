"""Remembers which records were told already, of those that may have been written more than once."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

IDENTITIES_MAX: Final = 100_000
"""The oldest are forgotten: a record is written again soon after the first time, or never."""

_DIGEST_BYTES: Final = 16


class Identities:
    """As digests: an id may be long, and a controller keeps these for each of its streams."""

    def __init__(self, most: int = IDENTITIES_MAX) -> None:
        self._most = most
        self._met: dict[bytes, None] = {}

    def first(self, identity: tuple[str, ...]) -> bool:
        """True if this was not met before, or so long ago that it is forgotten."""
        digest = blake2b("\0".join(identity).encode(), digest_size=_DIGEST_BYTES).digest()
        if digest in self._met:
            return False
        self._met[digest] = None
        if len(self._met) > self._most:
            del self._met[next(iter(self._met))]
        return True
