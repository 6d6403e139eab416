"""The transactions of one log: which are open, how far all are decided, and which were aborted (KIP-98).

The state is a function of the log, as that of producers: it is rolled back with the log (CORRECTNESS T12) and
rebuilt from it. A reader of committed records sees what is below the last stable offset, and leaves out what
the aborted transactions that it gets wrote.
"""

from __future__ import annotations

import heapq
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Set
from typing import Final, NamedTuple


class OpenTransaction(NamedTuple):
    """A transaction without its marker. `began_ms` is this broker's time, or that of a restart."""

    first_offset: int
    epoch: int
    began_ms: int


class AbortedTransaction(NamedTuple):
    """`last_offset` is that of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class Transactions:
    """All transactions of one log."""

    __slots__ = ("_aborted", "_longest", "_open", "_undecided")

    def __init__(self) -> None:
        self._open: dict[int, OpenTransaction] = {}
        """By producer id, in the order of their first offsets."""
        self._undecided: list[tuple[int, int]] = []
        """First offset and marker of those that have ended, a heap; one goes once its marker is committed."""
        self._aborted: list[AbortedTransaction] = []
        """In the order of their markers."""
        self._longest = 0
        """Not less than the offsets from the first one to the marker of any aborted transaction."""

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[tuple[int, OpenTransaction]]:
        """Open transactions by producer id, those that began first come first."""
        return iter(self._open.items())

    def of(self, producer_id: int) -> OpenTransaction | None:
        """The producer's open transaction."""
        return self._open.get(producer_id)

    @property
    def first(self) -> OpenTransaction | None:
        """The open transaction that began first."""
        return next(iter(self._open.values()), None)

    def stable_offset(self, high_watermark: int, log_start: int) -> int:
        """LSO: all transactions with records below it are decided, by markers that are committed too."""
        self.committed(high_watermark)
        stable = high_watermark
        if (first := self.first) is not None:
            stable = min(stable, first.first_offset)
        if self._undecided:
            stable = min(stable, self._undecided[0][0])
        return max(stable, min(log_start, high_watermark))

    def committed(self, high_watermark: int) -> None:
        """The log is committed up to here."""
        undecided = self._undecided
        while undecided and undecided[0][1] < high_watermark:
            heapq.heappop(undecided)

    def aborted(self, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions with records between two offsets, in the order of their first offsets."""
        low = bisect_left(self._aborted, start, key=_marker_of)
        high = bisect_right(self._aborted, end + self._longest, key=_marker_of)
        return sorted((each for each in self._aborted[low:high] if each.first_offset < end), key=_first_of)

    # --- changes -----------------------------------------------------------------------------

    def begun(self, producer_id: int, epoch: int, offset: int, now_ms: int) -> None:
        """A transactional batch is in the log at this offset."""
        if producer_id not in self._open:
            self._open[producer_id] = OpenTransaction(offset, epoch, now_ms)

    def ended(self, producer_id: int, marker_offset: int, *, commit: bool) -> None:
        """The producer's marker is in the log. It may end nothing: markers are written again where it is not
        known that they were."""
        known = self._open.pop(producer_id, None)
        if known is None:
            return
        heapq.heappush(self._undecided, (known.first_offset, marker_offset))
        if not commit:
            self._add(AbortedTransaction(producer_id, known.first_offset, marker_offset))

    def _add(self, aborted: AbortedTransaction) -> None:
        self._aborted.append(aborted)
        self._longest = max(self._longest, aborted.last_offset - aborted.first_offset)

    def forget_below(self, log_start: int) -> None:
        """The records below this offset are deleted, with the markers of what was aborted there."""
        del self._aborted[: bisect_left(self._aborted, log_start, key=_marker_of)]

    def forget_aborted(self, markers: Set[int]) -> None:
        """Compaction removed these markers, and before them the records that they abort."""
        if markers:
            self._aborted = [each for each in self._aborted if each.last_offset not in markers]

    def clear(self) -> None:
        self._open.clear()
        self._undecided.clear()
        self._aborted.clear()
        self._longest = 0

    # --- snapshots ---------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        parts = [_COUNTS.pack(len(self._open), len(self._undecided), len(self._aborted))]
        parts.extend(_OPEN.pack(key, *each) for key, each in self._open.items())
        parts.extend(_UNDECIDED.pack(*each) for each in self._undecided)
        parts.extend(_ABORTED.pack(*each) for each in self._aborted)
        return b"".join(parts)

    def restore(self, data: bytes, at: int) -> int:
        """Adopt the state that `to_bytes` wrote; returns where it ends. Raises struct.error."""
        self.clear()
        opened, undecided, aborted = _COUNTS.unpack_from(data, at)
        at += _COUNTS.size
        for _ in range(opened):
            key, *rest = _OPEN.unpack_from(data, at)
            self._open[key] = OpenTransaction(*rest)
            at += _OPEN.size
        for _ in range(undecided):
            first, marker = _UNDECIDED.unpack_from(data, at)
            heapq.heappush(self._undecided, (first, marker))
            at += _UNDECIDED.size
        for _ in range(aborted):
            self._add(AbortedTransaction(*_ABORTED.unpack_from(data, at)))
            at += _ABORTED.size
        return at


def _marker_of(aborted: AbortedTransaction) -> int:
    return aborted.last_offset


def _first_of(aborted: AbortedTransaction) -> int:
    return aborted.first_offset


_COUNTS: Final = struct.Struct(">III")
_OPEN: Final = struct.Struct(">qqhq")
_UNDECIDED: Final = struct.Struct(">qq")
_ABORTED: Final = struct.Struct(">qqq")
