"""A batch that is being handed out, record by record or by columns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, repeat

from strandline.client.reading.records import ConsumerRecord, FetchedBatch
from strandline.config.limits import DECOMPRESSED_BYTES_MAX
from strandline.records import Columns


class OpenBatch:
    """Decodes the batch when it is made, at most `bytes_max` of it. Raises UndecodableBatch.

    Records are made of its columns when they are taken: those that wait are no work for Python's garbage
    collector.
    """

    __slots__ = ("_columns", "_offsets", "batch", "record_bytes", "records")

    def __init__(self, batch: FetchedBatch, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> None:
        self.batch = batch
        (offsets, timestamps, keys, values, headers), size = batch.decoded(bytes_max=bytes_max)
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
    def untaken(self) -> int:
        """The number of records that were not taken."""
        return self._offsets.__length_hint__()  # type: ignore[attr-defined,no-any-return]  # a list's iterator
