"""Plans `group reset-offsets`: reads the target, and computes the new offsets. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

import click

from strandline.cli.records.start import OFFSET_MAX, Start, StartType
from strandline.errors import InvalidRequest, UnknownTopicOrPartition
from strandline.ids import TopicPartition

PARTITION_DIGITS_MAX: Final = 6
"""More digits than any topic needs: a range of partitions is expanded in memory."""


@dataclass(frozen=True, slots=True)
class Shift:
    """A number of records after the committed offset; before it, if negative."""

    records: int


Target = Start | Shift


class TargetType(click.ParamType[Target]):
    """`earliest`, `latest`, an offset, a time in ISO 8601, or `+N` and `-N` from the committed offset."""

    name = "target"
    _start = StartType()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Target:
        """Reads one value; an invalid one is wrong usage."""
        if isinstance(value, str) and value[:1] in ("+", "-"):
            if value[1:].isdecimal() and int(value[1:]) <= OFFSET_MAX:
                return Shift(int(value))
            self.fail(f"{value!r} is no shift such as +100 or -100, below 2^63", param, ctx)
        return self._start.convert(value, param, ctx)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A topic, and the selected partitions; None: all."""

    topic: str
    partitions: tuple[int, ...] | None


class ChosenType(click.ParamType[Chosen]):
    """`TOPIC`, or `TOPIC:0,2,5-7` for some of its partitions."""

    name = "topic"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Chosen:
        """Reads one value; an invalid one is wrong usage."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]  # click converts a converted value again
        topic, colon, listed = value.partition(":")
        if not topic:
            self.fail(f"{value!r} names no topic", param, ctx)
        if not colon:
            return Chosen(topic, None)
        numbers: set[int] = set()
        for part in listed.split(","):
            first, dash, last = part.partition("-")
            ends = (first, last) if dash else (first, first)
            if not all(end.isdecimal() and len(end) <= PARTITION_DIGITS_MAX for end in ends):
                self.fail(f"{value!r}: partitions are given as 0,2,5-7", param, ctx)
            low, high = map(int, ends)
            if low > high:
                self.fail(f"{value!r}: {part} runs backwards", param, ctx)
            numbers.update(range(low, high + 1))
        return Chosen(topic, tuple(sorted(numbers)))


def chosen_partitions(
    chosen: Iterable[Chosen], partitions: Mapping[str, Sequence[int]]
) -> list[TopicPartition]:
    """The selected partitions; checks that they exist. Raises UnknownTopicOrPartition."""
    found: set[TopicPartition] = set()
    for each in chosen:
        there = partitions[each.topic]
        wanted = there if each.partitions is None else each.partitions
        strange = sorted(set(wanted) - set(there))
        if strange:
            raise UnknownTopicOrPartition(
                f"{each.topic} has partitions 0 to {len(there) - 1}, there is no {strange[0]}"
            )
        found.update(TopicPartition(each.topic, number) for number in wanted)
    return sorted(found)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The start and end (the high watermark) of a partition's log, and the first record at or after the
    requested time. None if there is no such record, or no time was requested."""

    start: int
    end: int
    at_time: int | None = None


@dataclass(frozen=True, slots=True)
class Reset:
    """One partition's part of the plan. `note` explains why `new` is not the requested place, if it is
    not."""

    name: TopicPartition
    committed: int | None
    new: int
    bounds: Bounds
    note: str = ""

    @property
    def change(self) -> int | None:
        """Records skipped; negative if records are read again."""
        return None if self.committed is None else self.new - self.committed

    @property
    def lag(self) -> int:
        """The group's lag after this commit."""
        return self.bounds.end - self.new


def plan(
    target: Target, committed: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, Bounds]
) -> list[Reset]:
    """Computes the new offset of each partition of `bounds`, within its log.

    Raises InvalidRequest, which names the partitions without a committed offset, if the target is a shift.
    """
    if isinstance(target, Shift):
        without = [str(name) for name in sorted(bounds) if name not in committed]
        if without:
            raise InvalidRequest(
                f"nothing is committed for {', '.join(without)}, so there is nothing to shift: "
                "leave them out with --topic TOPIC:PARTITIONS, or name a place with --to"
            )
    return [_reset(name, target, committed.get(name), bounds[name]) for name in sorted(bounds)]


def _reset(name: TopicPartition, target: Target, committed: int | None, bounds: Bounds) -> Reset:
    note = ""
    wanted: int
    match target:
        case "earliest":
            wanted = bounds.start
        case "latest":
            wanted = bounds.end
        case Shift(records):
            assert committed is not None, name
            wanted = committed + records
        case datetime():
            wanted = bounds.end if bounds.at_time is None else bounds.at_time
            note = "no record is that young" if bounds.at_time is None else ""
        case int():
            wanted = target
    new = min(max(wanted, bounds.start), bounds.end)
    side: Literal["starts", "ends"] = "starts" if wanted < bounds.start else "ends"
    if new != wanted:
        note = f"{wanted} lies outside: the log {side} at {new}"
    return Reset(name, committed, new, bounds, note)


def plan_json(group: str, resets: Sequence[Reset], *, executed: bool) -> dict[str, Any]:
    """The shape of `group reset-offsets -o json` (docs/use/cli.md)."""
    return {
        "group": group,
        "executed": executed,
        "partitions": [
            {
                "topic": reset.name.topic,
                "partition": reset.name.partition,
                "committed": reset.committed,
                "new": reset.new,
                "change": reset.change,
                "start": reset.bounds.start,
                "end": reset.bounds.end,
                "lag": reset.lag,
                "note": reset.note or None,
            }
            for reset in resets
        ],
    }
