"""Judges a topic whose brokers remove old records. Pure.

Its producers are all known, and each key has one writer, so the records of a key are appended in the order
in which they were sent. Of a compacted log, the last record of each key stays; of a log with retention, all
records from its start. Each finding is a sentence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple


@dataclass(slots=True, eq=False)
class Write:
    """A record that was sent, and its end."""

    key: bytes
    value: bytes | None
    partition: int | None = None
    """None: not known."""
    offset: int = -1
    """At which it was acknowledged; -1: not known, or it was not."""
    denied: bool = False
    """Its producer was informed that it was not appended."""

    @property
    def acknowledged(self) -> bool:
        return self.offset >= 0


class Found(NamedTuple):
    """A record that a reader received."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def findings(
    writes: Sequence[Write],
    log: Sequence[Found],
    followed: Sequence[Found],
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    *,
    policy: str,
) -> list[str]:
    """What is wrong. `writes`: in the order in which they were sent. `log`: all records, read in the end.
    `followed`: those of a reader that read along. `starts` and `ends`: of the partitions, in the end."""
    found = [*_not_ascending("the log", log), *_not_ascending("the reader", followed)]
    found += _unlike_what_was_written(writes, [*log, *followed])
    if "delete" not in policy:
        found += [f"partition {number} starts at {start}" for number, start in starts.items() if start]
    if "compact" in policy:
        found += _keys(writes, log, starts)
    else:
        found += _gaps(log, starts, ends)
    return found


def _not_ascending(reader: str, found: Iterable[Found]) -> Iterator[str]:
    by_partition: defaultdict[int, list[int]] = defaultdict(list)
    for each in found:
        by_partition[each.partition].append(each.offset)
    for partition, offsets in by_partition.items():
        for one, next_one in pairwise(offsets):
            if next_one <= one:
                yield f"{reader} has offset {next_one} of partition {partition} after {one}"


def _unlike_what_was_written(writes: Iterable[Write], found: Iterable[Found]) -> Iterator[str]:
    """Records that are not at the offset of their acknowledgement, were never sent, or were denied."""
    acknowledged = {(each.partition, each.offset): each for each in writes if each.acknowledged}
    unknown = {(each.key, each.value) for each in writes if not each.acknowledged and not each.denied}
    for each in dict.fromkeys(found):
        place = f"offset {each.offset} of partition {each.partition}"
        write = acknowledged.get((each.partition, each.offset))
        if write is not None:
            if (write.key, write.value) != (each.key, each.value):
                acknowledged_as = f"{write.key!r}={write.value!r} was acknowledged"
                yield f"{place} is {each.key!r}={each.value!r}, and {acknowledged_as}"
        elif (each.key, each.value) not in unknown:
            yield f"{place} is {each.key!r}={each.value!r}, which no writer can have written there"


def _keys(writes: Iterable[Write], log: Iterable[Found], starts: Mapping[int, int]) -> Iterator[str]:
    """Keys with another last value than the last acknowledged one, or a later one of unknown outcome."""
    last: dict[bytes | None, Found] = {}
    for each in sorted(log, key=lambda record: record.offset):
        last[each.key] = each
    by_key: defaultdict[bytes, list[Write]] = defaultdict(list)
    for write in writes:
        by_key[write.key].append(write)
    for key, sent in by_key.items():
        certain = max((place for place, each in enumerate(sent) if each.acknowledged), default=None)
        possible = {each.value for each in sent[certain or 0 :] if not each.denied}
        newest = None if certain is None else sent[certain]
        removed = newest is not None and newest.offset < starts[newest.partition or 0]
        if newest is None or removed:
            possible.add(None)
        value = last[key].value if key in last else None
        if value not in possible:
            at = "" if newest is None else f", and offset {newest.offset} was acknowledged last"
            yield f"key {key!r} has {value!r}, not one of {sorted(map(repr, possible))}{at}"


def _gaps(log: Iterable[Found], starts: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[str]:
    """Offsets without a record between the start and the end of a log."""
    offsets: defaultdict[int, set[int]] = defaultdict(set)
    for each in log:
        offsets[each.partition].add(each.offset)
    for partition, end in ends.items():
        missing = [each for each in range(starts[partition], end) if each not in offsets[partition]]
        if missing:
            yield f"partition {partition} lacks {len(missing)} records from {missing[0]} up to its end {end}"
