"""How far a store has its changelog, and which log that is.

A store is a copy of a prefix of its changelog. The changelog may lose its end in an election with a loss, and
grow again: then a store that had that end is no prefix of it. And compaction removes tombstones after
`delete.retention.ms`: a store that has not read one until then keeps the deleted key.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.ids import NO_EPOCH, NO_TOPIC_ID
from strandline.vocabulary.log import ListedOffset
from strandline.vocabulary.log_position import EpochEnd, LogPosition, Match, compare

UNKNOWN_MS: Final = -1

TOMBSTONES_SHARE: Final = 0.9
"""A store is too old after this share of `delete.retention.ms`. The rest is for the restore, and for clocks
that differ."""


class Checkpoint(NamedTuple):
    """Everything below `offset` is in the store."""

    offset: int
    leader_epoch: int = NO_EPOCH
    """Of the record before the offset; NO_EPOCH: not known."""
    as_of_ms: int = UNKNOWN_MS
    """The store had all of its changelog at this time, or began empty then; UNKNOWN_MS: not known."""

    def moved(self, offset: int, leader_epoch: int, as_of_ms: int | None) -> Checkpoint:
        """None: the time stays."""
        return Checkpoint(offset, leader_epoch, self.as_of_ms if as_of_ms is None else as_of_ms)


NOTHING: Final = Checkpoint(0)


def is_cut(kept: Checkpoint, end: EpochEnd) -> bool:
    """True if the changelog has lost the record before the checkpoint; `end` is the answer for its epoch. The
    store is opened for the changelog's topic id: that is compared before."""
    return compare(LogPosition(kept.offset, NO_TOPIC_ID, kept.leader_epoch), NO_TOPIC_ID, end) is Match.CUT


def objection(
    kept: Checkpoint, listed: ListedOffset, end: EpochEnd | None, tombstones_ms: int | None, now_ms: int
) -> str:
    """Why a store cannot continue with its changelog; empty if it can.

    `end` is the answer for the checkpoint's leader epoch, `tombstones_ms` is `delete.retention.ms` of the
    changelog; None: not known, and not compared.
    """
    offset, _, as_of_ms = kept
    first, last = listed.log_start_offset, listed.log_end_offset
    if offset == 0:
        return ""
    if not first <= offset <= last:
        return f"its log has offsets {first} to {last}"
    if end is not None and is_cut(kept, end):
        first_lost = max(0, end.end_offset)
        return f"its log has lost what the store has from offset {first_lost} on, in an election with a loss"
    if tombstones_ms is None or as_of_ms == UNKNOWN_MS or offset == last:
        return ""
    age_ms = now_ms - as_of_ms
    if age_ms <= tombstones_ms * TOMBSTONES_SHARE:
        return ""
    return (
        f"it is {age_ms / 1000:.0f} s old, and delete.retention.ms is {tombstones_ms}: tombstones that it "
        "lacks may be gone"
    )
