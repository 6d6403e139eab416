"""What a leader writes into a static member's assignment, for the process that will come back as it.

That one gets the assignment that the group kept, and nobody asks what it wants before (KIP-345). It can tell
by the note whether the assignment was made for what it subscribes to now; and if it leads, whether it was
made with the partition counts of now (KIP-814, CORRECTNESS G13).

A note is one digest of four bytes, the leader's own has two. Anything else is not of our making, and says
nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Final

DIGEST_BYTES: Final = 4


def note(topics: Iterable[str], counts: Mapping[str, int] | None = None) -> bytes:
    """That an assignment was made for a member that subscribes to these, by a leader that knew `counts`."""
    return _digest(sorted(topics)) + (b"" if counts is None else _digest(sorted(counts.items())))


def other_topics(found: bytes, topics: Iterable[str]) -> bool:
    """True if the note says that the assignment was made for other topics than these."""
    ours = len(found) in (DIGEST_BYTES, 2 * DIGEST_BYTES)
    return ours and found[:DIGEST_BYTES] != note(topics)


def same_counts(found: bytes, counts: Mapping[str, int]) -> bool:
    """True if the note says that the leader knew just these partition counts."""
    return found[DIGEST_BYTES:] == _digest(sorted(counts.items()))


def _digest(what: object) -> bytes:
    return zlib.crc32(repr(what).encode()).to_bytes(DIGEST_BYTES, "big")
