"""Maps leader epochs to the offsets that they wrote: truncation goes by this map, not by the watermark.

KIP-101, KIP-279; CORRECTNESS T1, T3, T8, T9.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from strandline.vocabulary.log_position import UNDEFINED, EpochEnd


class EpochEntry(NamedTuple):
    """An epoch and the offset of its first record, or of the first it would have written."""

    epoch: int
    start_offset: int


class EpochCache:
    """The epochs of one log in order; both epochs and start offsets strictly increase."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        """Raises ValueError unless epochs and start offsets strictly increase from 0 on."""
        self._entries = [EpochEntry(*entry) for entry in entries]
        before = EpochEntry(-1, -1)
        for entry in self._entries:
            if entry.epoch <= before.epoch or entry.start_offset <= before.start_offset:
                raise ValueError(f"epoch entry {entry} follows {before}: both numbers must increase")
            before = entry

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"EpochCache({self._entries!r})"

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    @property
    def latest(self) -> int:
        """The newest epoch, -1 if there is none. It may have written nothing yet."""
        return self._entries[-1].epoch if self._entries else -1

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote an offset; -1 below the first entry."""
        index = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[index - 1].epoch if index else -1

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Begin an epoch. True if anything changed.

        Epochs that began here or above have no record left: they are dropped (T8), so the cache stays
        strictly monotone. Raises ValueError if the epoch is older than the latest, or if it is the
        latest and began at a higher offset: both show that the caller's log is not this one.
        """
        latest = self._entries[-1] if self._entries else None
        if latest is not None and epoch == latest.epoch and start_offset >= latest.start_offset:
            return False
        if epoch < 0 or start_offset < 0 or (latest is not None and epoch <= latest.epoch):
            raise ValueError(f"epoch {epoch} cannot begin at offset {start_offset} after {latest}")
        self.truncate_from_end(start_offset)
        self._entries.append(EpochEntry(epoch, start_offset))
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest epoch not above the given one, and where it ends (KIP-279).

        `UNDEFINED` for an undefined epoch, one above the latest, or a log that knows none. For an
        epoch below the first known one the answer is that epoch and the first known start: its records
        end there at the latest, and are no longer in this log.
        """
        entries = self._entries
        if epoch < 0 or not entries or epoch > entries[-1].epoch:
            return UNDEFINED
        if epoch == entries[-1].epoch:
            return EpochEnd(epoch, log_end_offset)
        above = bisect_right(entries, epoch, key=lambda entry: entry.epoch)
        floor = entries[above - 1].epoch if above else epoch
        return EpochEnd(floor, entries[above].start_offset)

    def truncate_from_end(self, offset: int) -> bool:
        """Forget the epochs that begin at or above an offset. True if there were any.

        Call it even if no record is cut: an epoch that won an election and wrote nothing conflicts with
        the epoch that wrote there instead (T8).
        """
        keep = bisect_left(self._entries, offset, key=lambda entry: entry.start_offset)
        if keep == len(self._entries):
            return False
        del self._entries[keep:]
        return True

    def truncate_from_start(self, offset: int) -> bool:
        """Forget the offsets below this one; the epoch that covers it now begins there."""
        covering = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset) - 1
        if covering < 0 or (covering == 0 and self._entries[0].start_offset == offset):
            return False
        self._entries[: covering + 1] = [EpochEntry(self._entries[covering].epoch, offset)]
        return True

    def clear(self) -> bool:
        """Forget everything. True if there was anything."""
        changed = bool(self._entries)
        self._entries.clear()
        return changed
