"""Computes how long a rebalance left partitions without an owner, and consumers without records. Pure.

Times are seconds of one monotonic clock, the same for all processes of a machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

ASSIGNED: Final = "assigned"
REVOKED: Final = "revoked"
LOST: Final = "lost"
RECEIVED: Final = "received"


@dataclass(frozen=True, slots=True)
class Line:
    """A member's report: it was assigned partitions (`assigned`), gave them up (`revoked`) or lost them
    (`lost`), or received records of them (`received`)."""

    at: float
    member: str
    event: str
    partitions: tuple[int, ...]


@dataclass(slots=True)
class Ownership:
    """The owners of partitions, from the members' reports in the order of time."""

    owners: dict[int, set[str]] = field(default_factory=dict)

    def apply(self, line: Line) -> None:
        for partition in line.partitions:
            owners = self.owners.setdefault(partition, set())
            if line.event == ASSIGNED:
                owners.add(line.member)
            elif line.event in (REVOKED, LOST):
                owners.discard(line.member)

    def shared_by(self, members: Iterable[str], partitions: int) -> bool:
        """True if each partition has one owner among these members, and their shares differ by at most one
        partition."""
        counts = Counter(dict.fromkeys(members, 0))
        names = set(counts)
        for partition in range(partitions):
            owners = self.owners.get(partition, set())
            if len(owners) != 1 or not owners <= names:
                return False
            counts.update(owners)
        return bool(counts) and max(counts.values()) - min(counts.values()) <= 1

    def of_each(self) -> dict[int, str]:
        """The owner of each partition that has exactly one."""
        return {partition: next(iter(names)) for partition, names in self.owners.items() if len(names) == 1}


@dataclass(frozen=True, slots=True)
class Span:
    """A change of the group: from the request until all partitions are shared again."""

    since: float
    until: float

    def overlaps(self, begin: float, end: float) -> bool:
        return begin < self.until and end > self.since


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects of one change. `unowned_s`: for each interrupted partition, the time without an owner.
    `silent_s`: for each remaining member, the longest time between two records of partitions that it kept."""

    settle_s: float
    moved: int
    unowned_s: Mapping[int, float]
    silent_s: Mapping[str, float]


def effects(lines: Sequence[Line], span: Span) -> Effects:
    """The effects of a change in `span`, from all reports before, in and shortly after it."""
    before, after = Ownership(), Ownership()
    for line in sorted(lines, key=lambda line: line.at):
        if line.at < span.since:
            before.apply(line)
        if line.at <= span.until:
            after.apply(line)
    old, new = before.of_each(), after.of_each()
    kept: dict[str, set[int]] = {}
    for partition, member in new.items():
        if old.get(partition) == member:
            kept.setdefault(member, set()).add(partition)
    return Effects(
        span.until - span.since,
        sum(old[partition] != member for partition, member in new.items() if partition in old),
        unowned(lines, span),
        silences(lines, span, kept),
    )


def unowned(lines: Iterable[Line], span: Span) -> dict[int, float]:
    """For each partition that had an owner: the total time in the span from its last revocation to its next
    assignment."""
    owners: dict[int, set[str]] = {}
    free_since: dict[int, float] = {}
    found: dict[int, float] = {}
    for line in sorted(lines, key=lambda line: line.at):
        if line.event == RECEIVED:
            continue
        for partition in line.partitions:
            names = owners.setdefault(partition, set())
            if line.event == ASSIGNED:
                begin = free_since.pop(partition, None)
                if begin is not None and span.overlaps(begin, line.at):
                    found[partition] = found.get(partition, 0.0) + line.at - begin
                names.add(line.member)
            elif line.member in names:
                names.remove(line.member)
                if not names:
                    free_since[partition] = line.at
    return found


def silences(lines: Iterable[Line], span: Span, kept: Mapping[str, set[int]]) -> dict[str, float]:
    """For each member, the longest time between two receipts from partitions that it kept, if it overlaps the
    span. A silence that lasts until the last report counts up to then."""
    times: dict[str, list[float]] = {member: [] for member in kept}
    last = span.until
    for line in lines:
        last = max(last, line.at)
        if line.event == RECEIVED and not kept.get(line.member, set()).isdisjoint(line.partitions):
            times[line.member].append(line.at)
    found = {}
    for member, at in times.items():
        ends = [*sorted(at), last]
        gaps = [end - begin for begin, end in pairwise(ends) if span.overlaps(begin, end)]
        if at and gaps:
            found[member] = max(gaps)
    return found
