"""Retention deletes only committed records, and believes no timestamp from the future."""

from __future__ import annotations

import pytest

from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.storage.support.disk import ManualClock, append, new_log, open_log

DAY_MS = 24 * 3600 * 1000
CONFIG = TopicConfig(segment_bytes=1024, retention_ms=DAY_MS)
FUTURE_MS = 2**62


@pytest.mark.parametrize("restarted", [False, True])
def test_a_timestamp_from_the_future_keeps_a_log_no_longer_than_its_append(restarted: bool) -> None:
    """A wrong clock, or a client that lies, kept a log forever.

    After a restart, existing records count as appended by then.
    """
    clock = ManualClock()
    log, files = new_log(CONFIG, clock=clock)
    for _ in range(4):
        append(log, b"x" * 600, timestamp=FUTURE_MS, now_ms=clock.ms)
    if restarted:
        log.close(clean=True)
        log = open_log(files.after_crash(), config=CONFIG, clock=clock)
    end = log.log_end_offset
    assert log.apply_retention(now_ms=clock.ms + DAY_MS, high_watermark=end) == 0
    assert log.apply_retention(now_ms=clock.ms + DAY_MS + 1, high_watermark=end) == end


def test_a_timestamp_from_the_past_counts_as_it_is() -> None:
    clock = ManualClock()
    clock.ms = 10 * DAY_MS
    log, _ = new_log(CONFIG, clock=clock)
    for _ in range(4):
        append(log, b"x" * 600, timestamp=DAY_MS, now_ms=clock.ms)
    assert log.apply_retention(now_ms=clock.ms, high_watermark=log.log_end_offset) == log.log_end_offset


@pytest.mark.parametrize("config", [TopicConfig(segment_bytes=1024, retention_bytes=0), CONFIG])
def test_nothing_above_the_watermark_is_deleted(config: TopicConfig) -> None:
    """CORRECTNESS H9: neither for its size nor for its age."""
    clock = ManualClock()
    log, _ = new_log(config, clock=clock)
    for _ in range(4):
        append(log, b"x" * 600, timestamp=clock.ms, now_ms=clock.ms)
    end = log.log_end_offset
    for committed in range(end):
        start = log.apply_retention(now_ms=clock.ms + 2 * DAY_MS, high_watermark=committed)
        assert start == log.log_start_offset <= committed
    assert log.log_start_offset > 0, "what is committed is deleted"
