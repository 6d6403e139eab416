"""The model of transactions: which records of a log are committed, and what that allows the clients to see.

It knows only the log as it is in the end and the answers to clients. It shares no code with the brokers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import NO_PRODUCER
from strandline_lab.auditing.transactions import Model, Read
from strandline_lab.simulation.workloads.transactions.history import Attempt, History, Reads

SHOWN_MAX: Final = 3
"""Records that a sentence names."""


def findings(history: History) -> Iterator[str]:
    """What is wrong, a sentence each."""
    model = Model(history.log)
    for partition, batch in model.open:
        yield (
            f"C3: partition {partition}: the transaction of {batch.producer} that began at {batch.offset} is "
            "open in the end"
        )
    yield from _kept(history, model)
    for attempt in history.attempts:
        yield from _atomic(attempt, model)
    yield from _fenced(history, model)
    yield from _once(history, model)
    yield from _offsets(history, model)
    for name, reads in history.committed.items():
        yield from _isolated(name, reads, model.committed, history.deleted, "what is committed")
    if not history.compacted:
        log = {
            number: [read for each in batches if each.commits is None for read in each.records]
            for number, batches in history.log.items()
        }
        for name, reads in history.uncommitted.items():
            yield from _isolated(name, reads, log, history.deleted, "the log")


def _kept(history: History, model: Model[int]) -> Iterator[str]:
    """Each acknowledged record is where it was acknowledged, unless it was aborted and removed."""
    places = {
        read.value: (partition, read.offset)
        for partition, batches in history.log.items()
        for batch in batches
        for read in batch.records
    }
    acked = dict(history.plain)
    for attempt in history.attempts:
        partitions = {value: partition for partition, value in attempt.sent}
        acked |= {value: (partitions[value], offset) for value, offset in attempt.acked.items()}
    for value, place in acked.items():
        needed = value in model.values or value in history.plain or not history.compacted
        if needed and places.get(value) != place:
            yield f"C4: {value!r} was acknowledged at {place}, and is at {places.get(value)}"
    counts = Counter(
        read.value for batches in history.log.values() for batch in batches for read in batch.records
    )
    for repeated, count in counts.items():
        if count > 1:
            yield f"C6: {repeated!r} is {count} times in the log"


def _atomic(attempt: Attempt, model: Model[int]) -> Iterator[str]:
    there = [value for _, value in attempt.sent if value in model.values]
    missing = [value for _, value in attempt.sent if value not in model.values]
    if there and missing:
        yield f"C1: {attempt.what}: {there[:SHOWN_MAX]} are committed, and {missing[:SHOWN_MAX]} are not"
    if attempt.asked and attempt.answered and missing:
        yield f"C1: {attempt.what}: {missing[:SHOWN_MAX]} are not committed"
    if not attempt.asked and there:
        yield f"C1: {attempt.what}: {there[:SHOWN_MAX]} are committed"


def _is_committed(attempt: Attempt, model: Model[int]) -> bool:
    return any(value in model.values for _, value in attempt.sent)


def _fenced(history: History, model: Model[int]) -> Iterator[str]:
    for attempt in history.attempts:
        if not _is_committed(attempt, model):
            continue
        producer = _writer(attempt, model)
        for each in history.initialized:
            newer = each.owner == attempt.owner and each.producer.producer_id == producer.producer_id
            if (
                newer
                and each.producer.producer_epoch > producer.producer_epoch
                and each.at_s < attempt.asked_s
            ):
                yield (
                    f"C5: {attempt.what} is committed, asked for at {attempt.asked_s:.3f} s, and "
                    f"{each.producer} was there at {each.at_s:.3f} s"
                )


def _writer(attempt: Attempt, model: Model[int]) -> ProducerIdentity:
    """Of a transaction with records in the log."""
    if attempt.producer != NO_PRODUCER:
        return attempt.producer
    return next(model.writers[value] for _, value in attempt.sent if value in model.writers)


def _chain(history: History, model: Model[int], owner: str) -> list[Attempt]:
    committed = [each for each in history.attempts if each.owner == owner and _is_committed(each, model)]
    return sorted(committed, key=lambda each: (each.begin, each.end))


def _once(history: History, model: Model[int]) -> Iterator[str]:
    """Each input is transformed by one committed transaction, whose offset is committed with its records."""
    for owner, last in history.last.items():
        chain = _chain(history, model, owner)
        ends = [0, *(each.end for each in chain)]
        for end, attempt in zip(ends, chain, strict=False):
            if attempt.begin != end:
                yield f"C2: {attempt.what} transforms from {attempt.begin} on, and {end} comes next"
        if last != ends[-1]:
            yield f"C2: {owner}: the offset is {last}, and its committed transactions end at {ends[-1]}"


def _offsets(history: History, model: Model[int]) -> Iterator[str]:
    owners = history.last
    ends = {owner: {0, *(each.end for each in _chain(history, model, owner))} for owner in owners}
    seen: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for each in history.offsets:
        seen[each.observer, each.owner].append(each.offset)
    for (observer, owner), offsets in seen.items():
        for before, after in pairwise(offsets):
            if after < before:
                yield f"C2: {observer} saw offset {before} of {owner}, and then {after}"
        for offset in sorted({*offsets} - ends[owner]):
            yield f"C2: {observer} saw offset {offset} of {owner}, which no committed transaction ends at"


def _isolated(
    name: str, reads: Reads, log: dict[int, list[Read]], deleted: Mapping[int, int], what: str
) -> Iterator[str]:
    """A reader got all of the log, in its order, and nothing else. It may lack what was deleted."""
    for partition, whole in log.items():
        got, start = reads.get(partition, []), deleted.get(partition, 0)
        had = {*got}
        wanted = [read for read in whole if read.offset >= start or read in had]
        if got == wanted:
            continue
        at = next((at for at, (one, two) in enumerate(zip(got, wanted, strict=False)) if one != two), None)
        if at is None:
            at = min(len(got), len(wanted))
        yield (
            f"C7: {name}, partition {partition}: record {at} of {what} is {wanted[at : at + 1]}, and it got "
            f"{got[at : at + 1]}"
        )
