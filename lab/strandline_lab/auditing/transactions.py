"""Judges transactions: which records of the logs are committed, and what follows from that. Pure.

It knows the logs as they are in the end, and what the clients noted. It shares no code with the brokers.

* A transaction takes effect in all of its partitions or in none.
* Each record that a group processes has one committed output, and the group's committed offset says which
  those are.
* No transaction is open in a log once the longest timeout has passed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from strandline.auditing.checks import HANGING, PROCESSED, TORN, Finding
from strandline.vocabulary.log import ProducerIdentity

Log = TypeVar("Log")
"""What a log is called by."""

Partition = tuple[str, int]
"""Topic and partition."""

SHOWN_MAX: Final = 3
"""Values that a finding names."""


class Read(NamedTuple):
    """A record that a reader got."""

    offset: int
    value: bytes | None
    """None: the record deletes its key in a compacted log."""

    def begins(self, prefix: bytes) -> bool:
        """Whether the value begins with this."""
        return self.value is not None and self.value.startswith(prefix)


class Batch(NamedTuple):
    """A batch of the log as it is in the end, or a marker."""

    offset: int
    producer: ProducerIdentity
    is_transactional: bool
    commits: bool | None
    """What a marker says; None for records."""
    records: tuple[Read, ...]


class Model(Generic[Log]):
    """What is committed in logs, by their markers: the records of a producer up to its next one."""

    def __init__(self, logs: Mapping[Log, Sequence[Batch]]) -> None:
        self.committed: dict[Log, list[Read]] = {}
        """In the order of each log. Markers and records of aborted transactions are not here."""
        self.open: list[tuple[Log, Batch]] = []
        """The log and the first batch of each transaction without a marker."""
        for log, batches in logs.items():
            self.committed[log] = sorted(self._decided(log, batches), key=lambda read: read.offset)
        self.values = {read.value for reads in self.committed.values() for read in reads}
        self.writers = {
            read.value: batch.producer
            for batches in logs.values()
            for batch in batches
            for read in batch.records
        }
        """Who wrote each value, committed or not."""

    def _decided(self, log: Log, batches: Sequence[Batch]) -> Iterator[Read]:
        undecided: defaultdict[int, list[Batch]] = defaultdict(list)
        for batch in batches:
            producer_id = batch.producer.producer_id
            if batch.commits is not None:
                for each in undecided.pop(producer_id, ()):
                    yield from each.records if batch.commits else ()
            elif batch.is_transactional:
                undecided[producer_id].append(batch)
            else:
                yield from batch.records
        self.open += [(log, each[0]) for each in undecided.values()]


# --- the transactions of a round ----------------------------------------------------------------


class Output(NamedTuple):
    """A record that was sent in a transaction. `source`: the input that it was made from, as topic, partition
    and offset."""

    topic: str
    value: bytes | None
    source: tuple[str, int, int] | None = None


@dataclass(slots=True)
class Sending:
    """What one transaction sent, by the history of its producer. `group`: that of a producer that processes
    what its group is given."""

    history: str
    number: int
    group: str = ""
    outputs: list[Output] = field(default_factory=list)


def torn(sendings: Iterable[Sending], committed: Collection[tuple[str, bytes | None]]) -> Iterator[Finding]:
    """Transactions that took effect in part. `committed`: topic and value of all committed records."""
    for sending in sendings:
        there = [each for each in sending.outputs if each[:2] in committed]
        missing = [each for each in sending.outputs if each[:2] not in committed]
        if there and missing:
            detail = (
                f"transaction {sending.number} of {sending.history}: {_shown(there)} committed, and "
                f"{_shown(missing)} not"
            )
            yield Finding(TORN.name, missing[0].topic, None, None, detail)


def _shown(outputs: Sequence[Output]) -> str:
    values = ", ".join(repr(each.value) for each in outputs[:SHOWN_MAX])
    more = len(outputs) - SHOWN_MAX
    return f"{values}{f' and {more} more' if more > 0 else ''} {'is' if len(outputs) == 1 else 'are'}"


def processed(
    sendings: Iterable[Sending],
    committed: Collection[tuple[str, bytes | None]],
    inputs: Mapping[Partition, Sequence[int]],
    ends: Mapping[tuple[str, Partition], int],
) -> Iterator[Finding]:
    """Inputs of a group without their one committed output. `inputs`: the offsets of each log that have a
    record. `ends`: the last committed offset of each group and partition."""
    made: defaultdict[str, defaultdict[Partition, dict[int, list[str]]]]
    made = defaultdict(lambda: defaultdict(dict))
    for sending in sendings:
        for topic, value, source in sending.outputs:
            if source is not None and (topic, value) in committed:
                by = made[sending.group][source[:2]].setdefault(source[2], [])
                by.append(f"transaction {sending.number} of {sending.history}")
    for group, by_place in made.items():
        places = {*by_place, *(place for known, place in ends if known == group)}
        for place in sorted(places):
            yield from _processed_once(group, place, by_place[place], inputs, ends.get((group, place), 0))


def _processed_once(
    group: str,
    place: Partition,
    made: Mapping[int, Sequence[str]],
    inputs: Mapping[Partition, Sequence[int]],
    end: int,
) -> Iterator[Finding]:
    for offset, by in made.items():
        if len(by) > 1:
            detail = f"group {group} processed this record {len(by)} times: {' and '.join(by)}"
            yield Finding(PROCESSED.name, *place, offset, detail)
        elif offset >= end:
            detail = f"{by[0]} of group {group} is committed, and the offset of the group is {end}"
            yield Finding(PROCESSED.name, *place, offset, detail)
    for offset in inputs.get(place, ()):
        if offset < end and offset not in made:
            detail = f"group {group} has no committed output of this record, and its offset is {end}"
            yield Finding(PROCESSED.name, *place, offset, detail)


def hanging(opened: Iterable[tuple[Partition, Batch]]) -> Iterator[Finding]:
    """Transactions without a marker in the end, each with its log and first batch."""
    for place, batch in opened:
        detail = f"the transaction of {batch.producer} that begins here is open"
        yield Finding(HANGING.name, *place, batch.offset, detail)
