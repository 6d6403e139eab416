"""Plans to reset a group's offsets: what there is to choose, and where each partition goes. Pure.

Only groups without members are reset: a member would go on from its own position, and commit over the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from strandline.errors import InvalidRequest, UnknownTopicOrPartition
from strandline.ids import NO_TOPIC_ID, TopicId, TopicPartition
from strandline.vocabulary.log_position import LogPosition

PARTITION_DIGITS_MAX: Final = 6
"""More digits than any topic needs: a range of partitions is expanded in memory."""


@dataclass(frozen=True, slots=True)
class Since:
    """The first record that is not older than this time, in milliseconds since 1970."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class Shift:
    """A number of records after the committed offset; before it, if negative."""

    records: int


Target = Literal["earliest", "latest"] | int | Since | Shift


@dataclass(frozen=True, slots=True)
class Chosen:
    """A topic, and the selected partitions; None: all."""

    topic: str
    partitions: tuple[int, ...] | None


def listed_partitions(text: str) -> tuple[int, ...]:
    """The partitions of a list such as `0,2,5-7`. Raises InvalidRequest.

    >>> listed_partitions("0,2,5-7")
    (0, 2, 5, 6, 7)
    """
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        ends = (first, last) if dash else (first, first)
        if not all(end.isascii() and end.isdecimal() and len(end) <= PARTITION_DIGITS_MAX for end in ends):
            raise InvalidRequest(f"{text!r}: partitions are given as 0,2,5-7")
        low, high = map(int, ends)
        if low > high:
            raise InvalidRequest(f"{text!r}: {part} runs backwards")
        numbers.update(range(low, high + 1))
    return tuple(sorted(numbers))


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
    topic_id: TopicId = NO_TOPIC_ID
    """Of the topic that the offsets are of."""


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
    def position(self) -> LogPosition:
        """What is committed: if the topic is made anew before that, it is refused."""
        return LogPosition(self.new, self.bounds.topic_id)

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
                "leave these partitions out, or name a place instead"
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
        case Since():
            wanted = bounds.end if bounds.at_time is None else bounds.at_time
            note = "no record is that young" if bounds.at_time is None else ""
        case int():
            wanted = target
    new = min(max(wanted, bounds.start), bounds.end)
    side: Literal["starts", "ends"] = "starts" if wanted < bounds.start else "ends"
    if new != wanted:
        note = f"{wanted} lies outside: the log {side} at {new}"
    return Reset(name, committed, new, bounds, note)
