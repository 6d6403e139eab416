"""The note that a leader writes into a static member's assignment, for the process that later
returns as that member.

The returning process gets the assignment that the group kept, without being asked for its
subscription (KIP-345). The note shows whether the assignment was made for its current subscription;
and, if it leads, whether it was made with the current partition counts (KIP-814, CORRECTNESS G13).
A note for no topics fits no subscription: that assignment waits for the member to join again.

A note is one digest of four bytes; the leader's own note has two. Any other data was not written by
a strandline leader and is ignored. In Kafka's protocol a mark precedes the note, since other clients
put data of their own there: librdkafka as the leader what the member had sent as its user data.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Final

DIGEST_BYTES: Final = 4
NOTE_BYTES_MAX: Final = 2 * DIGEST_BYTES
_MARK: Final = b"strandline"


def note(topics: Iterable[str], counts: Mapping[str, int] | None = None) -> bytes:
    """The note for an assignment that was made for these topics, by a leader that knew `counts`."""
    return _digest(sorted(topics)) + (b"" if counts is None else _digest(sorted(counts.items())))


def other_topics(found: bytes, topics: Iterable[str]) -> bool:
    """True if the assignment of this note was made for other topics than these."""
    ours = len(found) in (DIGEST_BYTES, NOTE_BYTES_MAX)
    return ours and found[:DIGEST_BYTES] != note(topics)


def same_counts(found: bytes, counts: Mapping[str, int]) -> bool:
    """True if the leader of this note knew exactly these partition counts."""
    return found[DIGEST_BYTES:] == _digest(sorted(counts.items()))


def add_user_data(written: bytes, user_data: bytes) -> bytes:
    """A note, followed by the assignor's user data for that member."""
    return bytes([len(written)]) + written.ljust(NOTE_BYTES_MAX, b"\0") + user_data


def split_user_data(found: bytes) -> tuple[bytes, bytes]:
    """The note in a static member's assignment, and its assignor's user data.

    The combination is longer than a note alone can be, so that neither is mistaken for the other if
    the leader's assignor of that name sends no user data. Other data has no note.
    """
    if len(found) > NOTE_BYTES_MAX and found[0] in (DIGEST_BYTES, NOTE_BYTES_MAX):
        return found[1 : 1 + found[0]], found[1 + NOTE_BYTES_MAX :]
    return (found, b"") if len(found) in (DIGEST_BYTES, NOTE_BYTES_MAX) else (b"", found)


def mark(data: bytes) -> bytes:
    """A note, with or without user data, for a member that follows Kafka's protocol."""
    return _MARK + data


def split_marked(found: bytes) -> tuple[bytes, bytes]:
    """As `split_user_data`, for data that is marked; other data has no note."""
    return split_user_data(found[len(_MARK) :]) if found.startswith(_MARK) else (b"", found)


def _digest(what: object) -> bytes:
    return zlib.crc32(repr(what).encode()).to_bytes(DIGEST_BYTES, "big")
