"""A batch that is being delivered record by record."""

from __future__ import annotations

from collections.abc import Iterator

from strandline.consumer.core.positions import Position
from strandline.consumer.records import ConsumerRecord, FetchedBatch


class Reading:
    """Decodes the batch when it is made. Raises UndecodableBatch."""

    __slots__ = ("batch", "incarnation", "records", "state")

    def __init__(self, state: Position[FetchedBatch], batch: FetchedBatch) -> None:
        self.state = state
        self.batch = batch
        self.incarnation = state.incarnation
        self.records: Iterator[ConsumerRecord] = iter(batch.records())

    @property
    def left(self) -> int:
        """The number of records to deliver: 0 once the position was moved, or while it may not be read."""
        if self.incarnation != self.state.incarnation or not self.state.readable:
            return 0
        return self.untaken

    @property
    def untaken(self) -> int:
        """The number of records that were not taken, also while they may not be read."""
        return self.records.__length_hint__()  # type: ignore[attr-defined,no-any-return]  # a list's iterator
