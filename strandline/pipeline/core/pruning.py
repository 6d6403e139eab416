"""Derives from the conditions of a query where its rows can be, so that less is read.

Spark still checks every row that is read. So a condition that is not understood here, or only in part, costs
time but never a wrong result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from strandline.pipeline.core.ranges import OffsetRange

TOPIC, PARTITION, OFFSET, TIMESTAMP = "topic", "partition", "offset", "timestamp"


class Condition(NamedTuple):
    """`column` compared with one of the `values`. A time is microseconds since the Unix epoch."""

    column: str
    operator: str
    """One of = < <= > >=; with several values only =."""
    values: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Interval:
    """The whole numbers from `least` to `most`, both included; if `among` is given, only those in it."""

    least: int | None = None
    most: int | None = None
    among: frozenset[int] | None = None

    def __contains__(self, number: int) -> bool:
        return (
            (self.least is None or number >= self.least)
            and (self.most is None or number <= self.most)
            and (self.among is None or number in self.among)
        )

    def narrowed(
        self, least: int | None = None, most: int | None = None, among: frozenset[int] | None = None
    ) -> Interval:
        """The intersection with another interval."""
        if among is not None:
            least, most = min(among), max(among)
        return Interval(
            least if self.least is None or (least is not None and least > self.least) else self.least,
            most if self.most is None or (most is not None and most < self.most) else self.most,
            self.among if among is None else among if self.among is None else self.among & among,
        )


EVERYTHING = Interval()


@dataclass(frozen=True, slots=True)
class Pruning:
    """Where rows can be; `topics` None: in any topic."""

    topics: frozenset[str] | None = None
    partitions: Interval = EVERYTHING
    offsets: Interval = EVERYTHING
    times_us: Interval = EVERYTHING


def pruning(conditions: Iterable[Condition]) -> Pruning:
    """The conjunction of all conditions."""
    topics: frozenset[str] | None = None
    where = {PARTITION: EVERYTHING, OFFSET: EVERYTHING, TIMESTAMP: EVERYTHING}
    for column, operator, values in conditions:
        if column == TOPIC and operator == "=" and all(isinstance(value, str) for value in values):
            names = frozenset(str(value) for value in values)
            topics = names if topics is None else topics & names
        elif column in where:
            numbers = [value for value in values if isinstance(value, int)]
            if numbers and len(numbers) == len(values):
                where[column] = _narrowed(where[column], operator, numbers)
    return Pruning(topics, where[PARTITION], where[OFFSET], where[TIMESTAMP])


def _narrowed(interval: Interval, operator: str, numbers: list[int]) -> Interval:
    match operator:
        case "=":
            return interval.narrowed(among=frozenset(numbers))
        case ">":
            return interval.narrowed(least=numbers[0] + 1)
        case ">=":
            return interval.narrowed(least=numbers[0])
        case "<":
            return interval.narrowed(most=numbers[0] - 1)
        case "<=":
            return interval.narrowed(most=numbers[0])
        case _:
            return interval


def pruned(wanted: Iterable[OffsetRange], by: Pruning) -> list[OffsetRange]:
    """The parts of ranges where rows can be, judged by topics, partitions and offsets; none is empty."""
    found = []
    for one in wanted:
        if (by.topics is None or one.topic in by.topics) and one.partition in by.partitions:
            start, end = one.start, one.end
            if by.offsets.least is not None:
                start = max(start, by.offsets.least)
            if by.offsets.most is not None:
                end = min(end, by.offsets.most + 1)
            if start < end:
                found.append(replace(one, start=start, end=end))
    return found
