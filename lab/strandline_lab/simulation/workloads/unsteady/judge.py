"""Judges those who read a topic whose log does not only grow. Pure.

A topic may be deleted and created again, and an unclean election may cut a log, which then grows again.
Leader epochs rise through all of it, since they are the cluster's: a record differs from every other by its
partition, offset and leader epoch. No record is removed from a log that stays, so each offset has one. A log
that was cut may be again as it was, once a replica leads that was not there meanwhile.

A reader *by itself* reads each partition from its first record on. Where a log was cut it goes back to the
first record that it has not read, and in a new topic to the first. So what it has read, with what was read
before replaced by what was read there later, is always the beginning of a log, and in the end the log itself.

The members of a *group* may read a record several times, but read all: of each topic that had the name they
have read the records from the first to some other one, and of the last one each record of its log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple


class Heard(NamedTuple):
    """A record that a reader received, or that stands in a log."""

    partition: int
    offset: int
    epoch: int
    """The leader epoch of its batch."""
    value: bytes | None


Topics = Callable[[int, int], int]
"""Which of the topics that had the name has this leader epoch in this partition: they are numbered."""

Cuts = Mapping[int, Collection[int]]
"""The leader epochs of each partition that began with an election which may have cut its log."""
NO_CUTS: Final[Cuts] = {}


def by_itself(
    name: str, heard: Iterable[Heard], log: Sequence[Heard], topics: Topics, cuts: Cuts = NO_CUTS
) -> Iterator[str]:
    """What is wrong with the records of one reader, in their order. `log`: all records, in the end."""
    views: defaultdict[int, list[Heard]] = defaultdict(list)
    broken: set[int] = set()
    for each in heard:
        if each.partition not in broken and (said := _step(views[each.partition], each, topics, cuts)):
            broken.add(each.partition)
            yield f"{name}, partition {each.partition}: {said}"
    logs = _by_partition(log)
    for partition in sorted(logs.keys() | views.keys()):
        if partition in broken or partition not in logs:  # the last topic may have fewer partitions
            continue
        if said := _difference(views[partition], logs[partition]):
            yield f"{name}, partition {partition}: {said}"


def _step(view: list[Heard], heard: Heard, topics: Topics, cuts: Cuts) -> str:
    """Put a record into the beginning of a log. Returns what is wrong with it."""
    if heard.offset > len(view):
        last = "nothing" if not view else f"offset {view[-1].offset} (epoch {view[-1].epoch})"
        return f"offset {heard.offset} (epoch {heard.epoch}) came after {last}"
    if heard.offset < len(view):
        before = view[heard.offset]
        cut_since = any(epoch > before.epoch for epoch in cuts.get(heard.partition, ()))
        if before.epoch == heard.epoch or (before.epoch > heard.epoch and not cut_since):
            return f"offset {heard.offset} of epoch {heard.epoch} came after that of epoch {before.epoch}"
        del view[heard.offset :]
    if view and topics(heard.partition, view[-1].epoch) != topics(heard.partition, heard.epoch):
        return (
            f"offset {heard.offset} (epoch {heard.epoch}) of a topic came after offset {view[-1].offset} "
            f"(epoch {view[-1].epoch}) of the one that had its name before"
        )
    view.append(heard)
    return ""


def _difference(view: Sequence[Heard], log: Sequence[Heard]) -> str:
    for mine, theirs in zip(view, log, strict=False):
        if mine != theirs:
            return (
                f"it has read {mine.value!r} of epoch {mine.epoch} at offset {mine.offset}, where the log "
                f"has {theirs.value!r} of epoch {theirs.epoch}"
            )
    if len(view) != len(log):
        return f"it has read up to offset {len(view)}, and the log ends at {len(log)}"
    return ""


def in_a_group(name: str, heard: Iterable[Heard], log: Sequence[Heard], topics: Topics) -> Iterator[str]:
    """What is wrong with the records of all members together."""
    read: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
    known: set[tuple[int, int, int]] = set()
    for partition, offset, epoch, _ in heard:
        read[partition, topics(partition, epoch)].add(offset)
        known.add((partition, offset, epoch))
    for (partition, number), offsets in sorted(read.items()):
        missing = next((each for each in range(max(offsets)) if each not in offsets), None)
        if missing is not None:
            yield (
                f"{name}, partition {partition}: its members have read offset {max(offsets)} of topic "
                f"{number} of this name, and none has read offset {missing}"
            )
    for partition, records in _by_partition(log).items():
        lacking = [each for each in records if (partition, each.offset, each.epoch) not in known]
        if lacking:
            yield (
                f"{name}, partition {partition}: none of its members has read {len(lacking)} of the "
                f"{len(records)} records of the log, first offset {lacking[0].offset}"
            )


def gone_back(readers: Iterable[Iterable[Heard]], log: Iterable[Heard]) -> set[int]:
    """The partitions whose logs are again what they were before they were cut: a record was read where one of
    an earlier epoch stands. Who knows only the epoch of the last record may not find where such a log parts
    (KIP-320 asks for no more)."""
    epochs = {(each.partition, each.offset): each.epoch for each in log}
    return {
        each.partition
        for heard in readers
        for each in heard
        if each.epoch > epochs.get((each.partition, each.offset), each.epoch)
    }


def without(partitions: Collection[int], records: Iterable[Heard]) -> list[Heard]:
    """The records of the other partitions."""
    return [each for each in records if each.partition not in partitions]


def of_two_kinds(readers: Mapping[str, Iterable[Heard]], log: Iterable[Heard]) -> Iterator[str]:
    """Records that differ though their partition, offset and epoch are the same."""
    known = {each[:3]: (each.value, "the log") for each in log}
    for name, heard in readers.items():
        for each in heard:
            value, by = known.setdefault(each[:3], (each.value, name))
            if value != each.value:
                yield (
                    f"{name} read {each.value!r} at offset {each.offset} of partition {each.partition} in "
                    f"epoch {each.epoch}, and {by} has {value!r} there"
                )


def _by_partition(log: Iterable[Heard]) -> dict[int, list[Heard]]:
    found: defaultdict[int, list[Heard]] = defaultdict(list)
    for each in log:
        found[each.partition].append(each)
    return dict(found)
