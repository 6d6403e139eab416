"""What happened to every record of a fault run, and what must hold of it. Pure.

A value says where it belongs, `partition.producer.number`, so that a record is known wherever it turns
up. `number` rises by one for each record that a producer sends to a partition. Each check returns
sentences that name partition, offset and record; none means that the log kept its promise
(CORRECTNESS .2: lost write, inconsistent offsets, duplicate, poll-skip, non-monotonic poll and send).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from strandline.errors import Outcome

VALUE_BYTES = 64


class Value(NamedTuple):
    """A record by its origin."""

    partition: int
    producer: int
    number: int

    def encode(self) -> bytes:
        return f"{self.partition}.{self.producer}.{self.number}".encode().ljust(VALUE_BYTES, b".")

    @classmethod
    def decode(cls, data: bytes | None) -> Self:
        """Raises ValueError for what no workload wrote."""
        if data is None or len(data) != VALUE_BYTES:
            raise ValueError(f"{data!r} was written by no workload")
        partition, producer, number = data.rstrip(b".").split(b".")
        return cls(int(partition), int(producer), int(number))


class Placed(NamedTuple):
    """A value at an offset of its partition: acknowledged there, or read there."""

    offset: int
    value: Value


@dataclass(slots=True)
class Reader:
    """What one reader saw of one partition, in its order."""

    name: str
    partition: int
    records: list[Placed] = field(default_factory=list)
    watermarks: list[int] = field(default_factory=list)
    """Every high watermark that it was told, as far as the answer knew one."""


@dataclass(slots=True)
class History:
    """One run. `sent` and the numbers within are in the order of sending."""

    sent: list[Value] = field(default_factory=list)
    acknowledged: list[Placed] = field(default_factory=list)
    """Offset -1: the broker only knew that it has the record."""
    failed: list[tuple[Value, Outcome]] = field(default_factory=list)
    readers: list[Reader] = field(default_factory=list)
    final: list[Reader] = field(default_factory=list)
    """Readers that began after everything had ended and read to the high watermark."""

    def read(self) -> Iterator[tuple[Reader, Placed]]:
        for reader in (*self.readers, *self.final):
            for placed in reader.records:
                yield reader, placed


def faults(history: History) -> list[str]:
    """All that is wrong with a run in which nothing may be lost."""
    return [
        *lost(history),
        *conflicting(history),
        *repeated(history),
        *reordered(history),
        *skipped(history),
        *risen_from_the_dead(history),
        *invented(history),
        *watermarks_going_back(history),
    ]


def lost(history: History) -> list[str]:
    """Acknowledged records that a final reader does not find at their offset, exactly once."""
    found: dict[Value, list[int]] = defaultdict(list)
    for reader in history.final:
        for offset, value in reader.records:
            found[value].append(offset)
    return [
        f"{value} was acknowledged at offset {offset} and is read at {found[value] or 'no offset'}"
        for offset, value in history.acknowledged
        if found[value] != [offset] and not (offset < 0 and len(found[value]) == 1)
    ]


def conflicting(history: History) -> list[str]:
    """Offsets that had two values, between any two readers, or a reader and an acknowledgement."""
    first: dict[tuple[int, int], tuple[Value, str]] = {
        (value.partition, offset): (value, "acknowledged")
        for offset, value in history.acknowledged
        if offset >= 0
    }
    found = []
    for reader, (offset, value) in history.read():
        known, by = first.setdefault((reader.partition, offset), (value, f"read by {reader.name}"))
        if known != value:
            found.append(
                f"partition {reader.partition}, offset {offset}: {known} {by}, {value} read by {reader.name}"
            )
    return found


def repeated(history: History) -> list[str]:
    """Values of an idempotent producer that were seen at two offsets."""
    first: dict[Value, int] = {}
    found = []
    for reader, (offset, value) in history.read():
        known = first.setdefault(value, offset)
        if known != offset:
            found.append(f"{value} is read at offset {known}, and by {reader.name} at {offset}")
    return found


def reordered(history: History) -> list[str]:
    """Records that do not stand in the order in which their producer sent them to the partition."""
    found = []
    for reader in history.final:
        latest: dict[int, int] = {}
        for offset, value in reader.records:
            before = latest.get(value.producer, -1)
            if value.number <= before:
                found.append(
                    f"partition {reader.partition}, offset {offset}: {value} stands after number {before}"
                )
            latest[value.producer] = value.number
    return found


def skipped(history: History) -> list[str]:
    """Offsets that a reader passed over, or went back to."""
    return [
        f"partition {reader.partition}: {reader.name} read offset {after.offset} after {before.offset}"
        for reader in (*history.readers, *history.final)
        for before, after in zip(reader.records, reader.records[1:], strict=False)
        if after.offset != before.offset + 1
    ]


def risen_from_the_dead(history: History) -> list[str]:
    """Records whose producer was told that they were not appended, and that were read all the same."""
    denied = {value: outcome for value, outcome in history.failed if outcome is not Outcome.UNKNOWN}
    return [
        f"{value} failed as {denied[value].value}, and {reader.name} read it at offset {offset}"
        for reader, (offset, value) in history.read()
        if value in denied
    ]


def invented(history: History) -> list[str]:
    """Records that nobody sent, or not to this partition."""
    sent = set(history.sent)
    return [
        f"partition {reader.partition}, offset {offset}: {reader.name} read {value}, which nobody sent there"
        for reader, (offset, value) in history.read()
        if value not in sent or value.partition != reader.partition
    ]


def watermarks_going_back(history: History) -> list[str]:
    """High watermarks lower than one that the same reader had seen before."""
    return [
        f"partition {reader.partition}: {reader.name} saw the high watermark go from {before} to {after}"
        for reader in (*history.readers, *history.final)
        for before, after in zip(reader.watermarks, reader.watermarks[1:], strict=False)
        if after < before
    ]
