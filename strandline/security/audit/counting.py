"""Which entries are written at once, which are counted, and which are known: no caller can fill a disk or the
memory.

Time is cut into windows of a minute, which begin with an entry. Within a window the first entry of a kind is
written at once, and those like it are counted; the counts are written when the window ends. Each caller, and
all callers together, have a bound of different entries; what is beyond is counted by caller. Changes are
always written: each of them is a request that an administrator may make.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import replace
from typing import Final

from strandline.security.audit.entry import Entry, Event, Source

WINDOW_S: Final = 60.0
CALLER_ENTRIES_MAX: Final = 100
"""Different entries of one caller and kind within a window."""
ENTRIES_MAX: Final = 500
"""Different entries of one kind within a window."""
CALLERS_MAX: Final = 500
"""Callers whose further entries are counted apart within a window; those of others are counted together."""
USES_KNOWN_MAX: Final = 10_000
"""First uses that are remembered; the one that was used longest ago is forgotten first."""

_Kind = tuple[Event, bool]
_Caller = tuple[Event, bool, str, str]
_ANYONE: Final = Source()


class Counting:
    """The entries of one process."""

    def __init__(self) -> None:
        self._ends_at: float | None = None
        """When the window ends; None: it begins with the next entry."""
        self._first: dict[tuple[object, ...], Entry] = {}
        self._again: Counter[tuple[object, ...]] = Counter()
        self._of_caller: Counter[_Caller] = Counter()
        self._of_kind: Counter[_Kind] = Counter()
        self._beyond: dict[_Caller, Entry] = {}
        """The last entry of each caller that is beyond its bound, with the number of all of them."""
        self._uses: OrderedDict[tuple[object, ...], None] = OrderedDict()

    def note(self, entry: Entry, now: float) -> list[Entry]:
        """What is to be written now, in order."""
        written = self.due(now)
        if entry.event is Event.CHANGE:
            return [*written, entry]
        if entry.event is Event.ACCESS and entry.allowed and self._is_known(entry):
            return written
        if self._ends_at is None:
            self._ends_at = now + WINDOW_S
        key = entry.key
        if key in self._first:
            self._again[key] += 1
        elif self._has_room(entry):
            self._first[key] = entry
            written.append(entry)
        else:
            self._count_beyond(entry)
        return written

    def due(self, now: float) -> list[Entry]:
        """The counts, if the window has ended."""
        return [] if self._ends_at is None or now < self._ends_at else self.end()

    def end(self) -> list[Entry]:
        """Ends the window. Returns its counts."""
        counts = [replace(self._first[key], count=count) for key, count in self._again.items()]
        counts += self._beyond.values()
        self._ends_at = None
        for kept in (self._first, self._again, self._of_caller, self._of_kind, self._beyond):
            kept.clear()
        return counts

    def _is_known(self, use: Entry) -> bool:
        known = use.key in self._uses
        self._uses[use.key] = None
        self._uses.move_to_end(use.key)
        while len(self._uses) > USES_KNOWN_MAX:
            self._uses.popitem(last=False)
        return known

    def _has_room(self, entry: Entry) -> bool:
        caller, kind = _caller(entry), (entry.event, entry.allowed)
        if self._of_caller[caller] >= CALLER_ENTRIES_MAX or self._of_kind[kind] >= ENTRIES_MAX:
            return False
        self._of_caller[caller] += 1
        self._of_kind[kind] += 1
        return True

    def _count_beyond(self, entry: Entry) -> None:
        caller, source = _caller(entry), entry.source
        if caller not in self._beyond and len(self._beyond) >= CALLERS_MAX:
            caller, source = (entry.event, entry.allowed, "", ""), _ANYONE
        before = self._beyond.get(caller)
        others = 1 if before is None else before.others + 1
        self._beyond[caller] = Entry(entry.event, entry.allowed, source, others=others)


def _caller(entry: Entry) -> _Caller:
    return entry.event, entry.allowed, entry.source.principal, entry.source.address
