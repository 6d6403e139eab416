"""The bytes from an offset to a log's end, for people."""

from __future__ import annotations

from tests.broker.storage.support.disk import FOLDER, SMALL, fill, new_log


def test_the_bytes_behind_an_offset_are_known_without_reading_a_file() -> None:
    """They tell people how far a follower is: to within the index's interval and a batch in the segment that
    grows, and within a segment elsewhere. A broker describes thousands of replicas at once."""
    log, files = new_log()
    fill(log, 40)
    batch_bytes = log.size_bytes // 40
    exact = [log.bytes_from(offset) for offset in range(log.log_end_offset + 1)]
    for path in [*files.sizes(FOLDER)]:
        files.remove(FOLDER / path)
    near = [log.bytes_near(offset) for offset in range(log.log_end_offset + 1)]
    assert near[0] == log.size_bytes
    assert near[-1] == 0
    assert near == sorted(near, reverse=True)
    assert all(
        abs(a - b) <= SMALL.index_interval_bytes + batch_bytes for a, b in zip(near, exact, strict=True)
    )
