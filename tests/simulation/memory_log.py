"""A log without a disk: records in a list, epochs in the real `EpochCache`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from strandline.broker.core.replication.epochs import EpochCache, EpochEnd


class Record(NamedTuple):
    """One record. No two that were ever produced have the same value."""

    epoch: int
    value: int


class MemoryLog:
    """Models `PartitionLog` (append, epochs, truncation), and the effects of a loss of power."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.epochs = EpochCache()
        self.synced = 0
        """Everything below is on the medium."""

    @property
    def end(self) -> int:
        return len(self.records)

    @property
    def last_epoch(self) -> int:
        return self.records[-1].epoch if self.records else -1

    def end_offset_for(self, epoch: int) -> EpochEnd:
        return self.epochs.end_offset_for(epoch, self.end)

    def append(self, records: Sequence[Record]) -> None:
        """As a follower. An epoch in which this broker led and wrote nothing is none of theirs (T8)."""
        self.epochs.truncate_from_end(self.end)
        for record in records:
            if record.epoch != self.epochs.latest:
                self.epochs.assign(record.epoch, self.end)
            self.records.append(record)

    def truncate_to(self, offset: int) -> None:
        end = min(offset, self.end)
        del self.records[end:]
        self.epochs.truncate_from_end(end)
        self.synced = min(self.synced, end)

    def lose_power(self, kept: int) -> None:
        """Only what was synced, and by luck some more, is there afterwards."""
        assert self.synced <= kept
        self.truncate_to(kept)
