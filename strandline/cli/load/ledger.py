"""What was acknowledged against what was read: the check behind `demo` and `perf failover`. Pure.

A log keeps its promise if every acknowledged record is read exactly once, at the offset that was
acknowledged, with its key and value, in the order in which it was sent to its partition; and if
nothing else is read but records whose outcome nobody promised (CORRECTNESS .2: lost write,
inconsistent offsets, duplicate, non-monotonic poll, non-monotonic send).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class Read(Protocol):
    """A record as a consumer returned it."""

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def key(self) -> bytes | None: ...

    @property
    def value(self) -> bytes | None: ...


class Content(NamedTuple):
    key: bytes | None
    value: bytes | None


@dataclass(slots=True)
class Verdict:
    """What a comparison found; each list holds sentences that name partition, offset and record."""

    acknowledged: int
    read: int = 0
    lost: list[str] = field(default_factory=list)
    """Acknowledged and never read."""
    changed: list[str] = field(default_factory=list)
    """Read at its offset with another key or value."""
    repeated: list[str] = field(default_factory=list)
    """Read more than once, or acknowledged at an offset that another record has."""
    reordered: list[str] = field(default_factory=list)
    """Read, or appended, out of the order of its partition."""
    unexplained: list[str] = field(default_factory=list)
    """Read, but neither acknowledged nor of an unknown outcome: a duplicate, or an invention."""

    @property
    def faults(self) -> list[str]:
        return [*self.lost, *self.changed, *self.repeated, *self.reordered, *self.unexplained]

    @property
    def kept(self) -> bool:
        """True if the log kept its promise."""
        return not self.faults


@dataclass(slots=True)
class Ledger:
    """Acknowledged records by partition and offset, and the ones of which nobody knows."""

    _acknowledged: dict[tuple[int, int], tuple[int, Content]] = field(default_factory=dict)
    _unplaced: Counter[tuple[int, Content]] = field(default_factory=Counter)
    """Acknowledged without an offset: a retry that the broker knew as a duplicate of long ago."""
    _unknown: Counter[Content] = field(default_factory=Counter)
    _conflicts: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._acknowledged) + self._unplaced.total()

    def acknowledge(
        self, number: int, partition: int, offset: int, key: bytes | None, value: bytes | None
    ) -> None:
        """Record `number` (they rise in the order of sending) was acknowledged at `offset` (-1: unknown)."""
        content = Content(key, value)
        if offset < 0:
            self._unplaced[partition, content] += 1
            return
        earlier = self._acknowledged.setdefault((partition, offset), (number, content))
        if earlier != (number, content):
            self._conflicts.append(
                f"{_at(partition, offset)}: acknowledged for record {earlier[0]} and for record {number}"
            )

    def give_up(self, key: bytes | None, value: bytes | None) -> None:
        """A record failed with an unknown outcome: it may be read once, or never."""
        self._unknown[Content(key, value)] += 1

    def compare(self, records: Iterable[Read]) -> Verdict:
        """Hold everything that one reader read, in the order in which it did, against the ledger."""
        verdict = Verdict(len(self))
        verdict.repeated.extend(self._conflicts)
        verdict.reordered.extend(self._sent_out_of_order())
        seen: set[tuple[int, int]] = set()
        last: dict[int, int] = {}
        unplaced, unknown = self._unplaced.copy(), self._unknown.copy()
        for record in records:
            verdict.read += 1
            place = (record.partition, record.offset)
            if place in seen:
                verdict.repeated.append(f"{_at(*place)}: read twice")
                continue
            seen.add(place)
            before = last.get(record.partition, -1)
            if record.offset < before:
                verdict.reordered.append(f"{_at(*place)}: read after offset {before}")
            last[record.partition] = max(before, record.offset)
            content = Content(record.key, record.value)
            if place in self._acknowledged:
                number, sent = self._acknowledged[place]
                if content != sent:
                    verdict.changed.append(
                        f"{_at(*place)}: record {number} was {sent}, and {content} was read"
                    )
            elif unplaced[record.partition, content] > 0:
                unplaced[record.partition, content] -= 1
            elif unknown[content] > 0:
                unknown[content] -= 1
            else:
                verdict.unexplained.append(f"{_at(*place)}: {content} was read and never acknowledged")
        for place, (number, _) in sorted(self._acknowledged.items()):
            if place not in seen:
                verdict.lost.append(f"{_at(*place)}: record {number} was acknowledged and not read")
        for partition, content in unplaced.elements():
            verdict.lost.append(f"partition {partition}: {content} was acknowledged and not read")
        return verdict

    def _sent_out_of_order(self) -> Iterator[str]:
        """Acknowledged records whose offsets do not rise in the order of sending."""
        latest: dict[int, int] = {}
        for (partition, offset), (number, _) in sorted(self._acknowledged.items()):
            before = latest.get(partition, -1)
            if number < before:
                yield f"{_at(partition, offset)}: record {number} stands after record {before}"
            latest[partition] = max(number, before)


def _at(partition: int, offset: int) -> str:
    return f"partition {partition}, offset {offset}"
