"""What a member of a group is notified of, in the form that the auditor reads."""

from __future__ import annotations

import time
from collections.abc import Iterable

from strandline_lab.auditing.member_ownership import Change

ASSIGNED, REVOKED, LOST = "assigned", "revoked", "lost"


class Heard:
    """The notifications of one member, in order. Times are microseconds of the machine's monotonic clock."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.changes: list[Change] = []

    def hear(self, event: str, partitions: Iterable[tuple[str, int]]) -> None:
        """From any thread."""
        at = time.monotonic_ns() // 1000
        topics: dict[str, list[int]] = {}
        for topic, number in sorted(partitions):
            topics.setdefault(topic, []).append(number)
        for topic, numbers in topics.items():
            self.changes.append(Change(event, at, self.name, -1, topic, tuple(numbers)))

    @property
    def owned(self) -> set[tuple[str, int]]:
        owned: set[tuple[str, int]] = set()
        for change in list(self.changes):
            places = {(change.topic, number) for number in change.partitions}
            owned = owned | places if change.event == ASSIGNED else owned - places
        return owned
