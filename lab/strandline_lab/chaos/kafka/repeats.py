"""Recognizes the record that librdkafka hands over twice in a rebalance. Pure.

A cooperative member keeps partitions while its group rebalances. librdkafka pauses them then, and later
resumes each at its position. A record that its user's thread takes in the same moment does not count in that
position (`rd_kafka_consume0` takes it first, and `rd_kafka_fetch_op_app_prepare` moves the position
afterwards): it is fetched again. So at most the last record before a rebalance is received again, as the
first one after it.
"""

from __future__ import annotations

from collections.abc import Iterable


class Repeats:
    """What one member received last of each partition that it keeps."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, bytes | None]] = {}
        """Offset and value by partition."""
        self._may_repeat: set[int] = set()
        """Partitions that were kept in a rebalance, and of which nothing was received since."""

    def rebalanced(self, moved: Iterable[int]) -> None:
        """The member was given these partitions, or gave them up; it keeps the others."""
        for partition in moved:
            self._last.pop(partition, None)
        self._may_repeat = set(self._last)

    def repeats(self, partition: int, offset: int, value: bytes | None) -> bool:
        """True for the first record after a rebalance if it is the last one before it. Any other record
        counts, also the same one a third time."""
        repeated = partition in self._may_repeat and self._last[partition] == (offset, value)
        self._may_repeat.discard(partition)
        self._last[partition] = (offset, value)
        return repeated
