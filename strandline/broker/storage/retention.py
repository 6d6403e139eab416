"""Decides how much of a log `retention.ms` and `retention.bytes` allow to be deleted."""

from __future__ import annotations

from strandline.broker.storage.segments.segment import Segment
from strandline.broker.storage.segments.segments import Segments
from strandline.vocabulary.topic_config import TopicConfig


def has_expired(segment: Segment, config: TopicConfig, *, now_ms: int, high_watermark: int) -> bool:
    """True if all of a segment is committed and older than `retention.ms` (-1: forever)."""
    return (
        segment.size > 0
        and segment.next_offset <= high_watermark
        and 0 <= config.retention_ms < now_ms - segment.newest_ms()
    )


def start_after_retention(
    segments: Segments, config: TopicConfig, *, start: int, now_ms: int, high_watermark: int
) -> int:
    """The new start of the log: sealed segments are deleted from the oldest on, but none that reaches above
    the HW (H9).

    At least `retention.bytes` remain. Raises OSError, CorruptMessage.
    """
    size = segments.size_bytes
    for segment in segments:
        too_much = 0 <= config.retention_bytes <= size - segment.size
        if segment is segments.active or segment.next_offset > high_watermark:
            break
        if not (too_much or has_expired(segment, config, now_ms=now_ms, high_watermark=high_watermark)):
            break
        start, size = max(start, segment.next_offset), size - segment.size
    return start
