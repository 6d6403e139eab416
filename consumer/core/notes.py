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
NOTE_BYTES_MAX: Final = 2 * DIGEST_BYTES


def note(topics: Iterable[str], counts: Mapping[str, int] | None = None) -> bytes:
    """That an assignment was made for a member that subscribes to these, by a leader that knew `counts`."""
    return _digest(sorted(topics)) + (b"" if counts is None else _digest(sorted(counts.items())))


def other_topics(found: bytes, topics: Iterable[str]) -> bool:
    """True if the note says that the assignment was made for other topics than these."""
    ours = len(found) in (DIGEST_BYTES, NOTE_BYTES_MAX)
    return ours and found[:DIGEST_BYTES] != note(topics)


def same_counts(found: bytes, counts: Mapping[str, int]) -> bool:
    """True if the note says that the leader knew just these partition counts."""
    return found[DIGEST_BYTES:] == _digest(sorted(counts.items()))


def beside(written: bytes, told: bytes) -> bytes:
    """A note, and what an assignor tells that member."""
    return bytes([len(written)]) + written.ljust(NOTE_BYTES_MAX, b"\0") + told


def apart(found: bytes) -> tuple[bytes, bytes]:
    """The note of a static member's assignment, and what its assignor tells.

    Longer than a note alone can be, so that neither is taken for the other where the leader's assignor of
    that name tells its members nothing. Of what is not of our making there is no note.
    """
    if len(found) > NOTE_BYTES_MAX and found[0] in (DIGEST_BYTES, NOTE_BYTES_MAX):
        return found[1 : 1 + found[0]], found[1 + NOTE_BYTES_MAX :]
    return (found, b"") if len(found) in (DIGEST_BYTES, NOTE_BYTES_MAX) else (b"", found)


def _digest(what: object) -> bytes:
    return zlib.crc32(repr(what).encode()).to_bytes(DIGEST_BYTES, "big")
