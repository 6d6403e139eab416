"""The queue of a broker that is gone for long: decides what may be removed from it, and keeps it small.

Its requests are the broker's to end. Only requests that later ones supersede, or that concern a deleted
partition, are ended in its place. Requests that have ended and are recorded are removed. If the queue has too
many znodes, neighbours are merged in the place of the first of them, so that the order stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from strandline.ids import PartitionKey
from strandline.vocabulary.coalescing import superseded
from strandline.vocabulary.state_changes import Command, End, RequestState, StateChange


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """One znode of a queue as it was read."""

    name: str
    version: int
    bytes: int
    changes: tuple[StateChange, ...]


@dataclass(frozen=True, slots=True)
class Backlog:
    """Requests of one queue that have not ended; `oldest_at_ms` is 0 if there is none."""

    requests: int
    oldest_at_ms: int
    znodes: int


def backlog(entries: Collection[QueueEntry]) -> Backlog:
    """The backlog without requests that ended and wait for their record."""
    waiting = [change.at_ms for entry in entries for change in entry.changes if change.end is None]
    return Backlog(len(waiting), min(waiting, default=0), len(entries))


def waiting_keys(entries: Iterable[QueueEntry]) -> set[PartitionKey]:
    """The partitions of requests without an end."""
    return {change.key for entry in entries for change in entry.changes if change.end is None}


def settle(
    entries: Sequence[QueueEntry], gone: Collection[PartitionKey], now_ms: int, *, coalesce: bool
) -> dict[QueueEntry, tuple[StateChange, ...]]:
    """The entries in which requests are ended in the broker's place, with their new content.

    `gone` are deleted partitions: requests to delete their replicas stay. With `coalesce`, requests that
    later ones supersede are ended too.
    """
    reasons = superseded([change for entry in entries for change in entry.changes]) if coalesce else {}
    for entry in entries:
        for change in entry.changes:
            if change.end is None and change.key in gone and change.command is not Command.DELETE_REPLICA:
                reasons[change.request_id] = "the topic or the partition is gone"
    return {
        entry: tuple(_settled(change, reasons, now_ms) for change in entry.changes)
        for entry in entries
        if any(change.end is None and change.request_id in reasons for change in entry.changes)
    }


def _settled(change: StateChange, reasons: Mapping[str, str], now_ms: int) -> StateChange:
    if change.end is not None or change.request_id not in reasons:
        return change
    reason = f"its broker is away: {reasons[change.request_id]}"
    return replace(change, end=End(RequestState.SUPERSEDED, now_ms, reason=reason))


def ended(entry: QueueEntry) -> bool:
    """True if all its requests have ended."""
    return all(change.end is not None for change in entry.changes)


@dataclass(frozen=True, slots=True)
class Merge:
    """These neighbours become one znode in the place of the first, without the requests `left_out`."""

    entries: tuple[QueueEntry, ...]
    changes: tuple[StateChange, ...]
    left_out: frozenset[str]


def merge(
    entries: Sequence[QueueEntry], recorded: Collection[str], *, bytes_max: int, entries_max: int
) -> list[Merge]:
    """Runs of neighbours that fit into one znode, without ended requests that are recorded (by id)."""
    runs: list[list[QueueEntry]] = [[]]
    size = 0
    for entry in entries:
        if runs[-1] and (size + entry.bytes > bytes_max or len(runs[-1]) >= entries_max):
            runs.append([])
            size = 0
        runs[-1].append(entry)
        size += entry.bytes
    merges = [_merged(run, recorded) for run in runs if run]
    return [each for each in merges if len(each.entries) > 1 or each.left_out]


def _merged(run: Sequence[QueueEntry], recorded: Collection[str]) -> Merge:
    changes = [change for entry in run for change in entry.changes]
    left_out = frozenset(c.request_id for c in changes if c.end is not None and c.request_id in recorded)
    return Merge(tuple(run), tuple(c for c in changes if c.request_id not in left_out), left_out)
