"""Finds the part of a log that may be compacted, and whether that is worth it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strandline.broker.storage.segments.segment import Segment
from strandline.broker.storage.segments.segments import Segments
from strandline.broker.storage.state_files.log_state import LogState
from strandline.vocabulary.topic_config import TopicConfig


@dataclass(frozen=True, slots=True)
class Cleanable:
    """Sealed segments that may be compacted, from the log's first one on."""

    segments: tuple[Segment, ...]
    clean_offset: int
    """Below it each key already has one record at most."""
    worth_it: bool

    @property
    def end(self) -> int:
        return self.segments[-1].next_offset


def find_cleanable(
    segments: Segments, config: TopicConfig, state: LogState, *, now_ms: int, stable_offset: int
) -> Cleanable | None:
    """The segments that may be compacted now; None if there are none. Raises OSError, CorruptMessage.

    Excluded are the active segment, segments that reach above the LSO, and segments younger than
    `min.compaction.lag.ms`. Excluded as well is everything above the recovery point, because a record
    supersedes others only if a loss of power cannot take it. Compaction is worth it if enough is dirty, if a
    tombstone is due, or if a dirty segment is older than `max.compaction.lag.ms`.
    """
    limit = min(stable_offset, state.recovery_point)
    lag = config.min_compaction_lag_ms
    found: list[Segment] = []
    dirty = total = 0
    for segment in segments:
        if segment is segments.active or segment.next_offset > limit:
            break
        if lag and segment.newest_ms() > now_ms - lag:
            break
        found.append(segment)
        total += segment.size
        if segment.next_offset > state.clean_offset:
            dirty += segment.size
    if not found:
        return None
    due = state.tombstones_due_ms is not None and state.tombstones_due_ms <= now_ms
    enough = dirty > config.min_cleanable_dirty_ratio * total
    worth_it = due or enough or _is_overdue(found, config, state, now_ms)
    return Cleanable(tuple(found), state.clean_offset, worth_it)


def _is_overdue(found: Sequence[Segment], config: TopicConfig, state: LogState, now_ms: int) -> bool:
    oldest_ms = now_ms - config.max_compaction_lag_ms
    if oldest_ms < 0:  # no segment is that old: none has to be looked at
        return False
    return any(each.next_offset > state.clean_offset and each.created_ms <= oldest_ms for each in found)
