"""The commit queue of a led partition: requests that wait under the high watermark (Kafka's design V3).

Entries are bound to the epoch in which they were appended: the queue belongs to one leadership and
dies with it, so a later watermark can never complete an entry of an earlier one (CORRECTNESS H6).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from strandline.ids import LeaderEpoch, Offset

Ticket = TypeVar("Ticket")


@dataclass(frozen=True, slots=True)
class Entry(Generic[Ticket]):
    """One produce request. It commits once the HW reaches `end_offset`."""

    end_offset: Offset
    deadline: float
    ticket: Ticket


class CommitQueue(Generic[Ticket]):
    """First in, first out; bounded; each entry leaves exactly once."""

    def __init__(self, epoch: LeaderEpoch, entries_max: int) -> None:
        self.epoch = epoch
        self.entries_max = entries_max
        self._entries: deque[Entry[Ticket]] = deque()
        self._next_deadline: float | None = None  # never later than the earliest deadline in the queue

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def full(self) -> bool:
        return len(self._entries) >= self.entries_max

    @property
    def next_deadline(self) -> float | None:
        """A moment not later than the first expiry; None if the queue is empty."""
        return self._next_deadline if self._entries else None

    def push(self, end_offset: Offset, deadline: float, ticket: Ticket) -> None:
        """Add a request. A repeat of an idempotent batch may end below requests that wait already: it is
        answered after those before it, which keeps the answers of a stream in order."""
        assert not self.full, f"commit queue of epoch {self.epoch} over its bound {self.entries_max}"
        self._entries.append(Entry(end_offset, deadline, ticket))
        if self._next_deadline is None or deadline < self._next_deadline:
            self._next_deadline = deadline

    def committed(self, high_watermark: Offset) -> list[Ticket]:
        """Take out, in order, the requests that the HW has reached."""
        done: list[Ticket] = []
        entries = self._entries
        while entries and entries[0].end_offset <= high_watermark:
            done.append(entries.popleft().ticket)
        if not entries:
            self._next_deadline = None
        return done

    def expired(self, now: float) -> list[Ticket]:
        """Take out requests past their deadlines. Their outcome is unknown: they may yet commit."""
        if self._next_deadline is None or now < self._next_deadline:
            return []
        late = [entry.ticket for entry in self._entries if entry.deadline <= now]
        if late:
            self._entries = deque(entry for entry in self._entries if entry.deadline > now)
        self._next_deadline = min((entry.deadline for entry in self._entries), default=None)
        return late

    def drain(self) -> list[Ticket]:
        """Take out everything: the leadership ends, and each outcome is unknown."""
        left = [entry.ticket for entry in self._entries]
        self._entries.clear()
        self._next_deadline = None
        return left
