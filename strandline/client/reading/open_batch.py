"""A batch that is being delivered, record by record or by columns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, repeat

from strandline.client.core.positions import Position
from strandline.client.reading.records import ConsumerRecord, FetchedBatch
from strandline.records import Columns


class Reading:
    """Decodes the batch when it is made. Raises UndecodableBatch.

    Records are made of its columns when they are taken: those that wait are no work for Python's garbage
    collector.
    """

    __slots__ = ("_columns", "_offsets", "batch", "incarnation", "record_bytes", "records", "state")

    def __init__(self, state: Position[FetchedBatch], batch: FetchedBatch) -> None:
        self.state = state
        self.batch = batch
        self.incarnation = state.incarnation
        (offsets, timestamps, keys, values, headers), size = batch.decoded()
        self.record_bytes = size / max(1, len(offsets))
        """Of one record on average, decompressed."""
        self._offsets = iter(offsets)
        self._columns = iter(timestamps), iter(keys), iter(values), iter(headers)
        rows = zip(repeat(batch.topic), repeat(batch.partition), self._offsets, *self._columns, strict=False)
        self.records: Iterator[ConsumerRecord] = map(tuple.__new__, repeat(ConsumerRecord), rows)
        """Shares its place with `columns`."""

    def columns(self, count: int) -> Columns:
        """Take the next records, `count` at most."""
        timestamps, keys, values, headers = self._columns
        return Columns(
            list(islice(self._offsets, count)),
            list(islice(timestamps, count)),
            list(islice(keys, count)),
            list(islice(values, count)),
            list(islice(headers, count)),
        )

    @property
    def left(self) -> int:
        """The number of records to deliver: 0 once the position was moved, or while it may not be read."""
        if self.incarnation != self.state.incarnation or not self.state.readable:
            return 0
        return self.untaken

    @property
    def untaken(self) -> int:
        """The number of records that were not taken, also while they may not be read."""
        return self._offsets.__length_hint__()  # type: ignore[attr-defined,no-any-return]  # a list's iterator
