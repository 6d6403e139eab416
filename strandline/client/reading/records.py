"""Records and batches as readers have them. A batch is decoded only on request."""

from __future__ import annotations

from bisect import bisect_left
from itertools import repeat
from typing import NamedTuple

from strandline.config.limits import DECOMPRESSED_BYTES_MAX
from strandline.errors import StrandlineError, UndecodableBatch
from strandline.ids import TopicPartition
from strandline.records import BatchHeader, Columns, RecordHeaders
from strandline.records.decode import body_of, columns_of


class ConsumerRecord(NamedTuple):
    """One record. `timestamp` is in milliseconds since the Unix epoch."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders


class OffsetAndTimestamp(NamedTuple):
    """A record's offset, and its timestamp in milliseconds since the Unix epoch."""

    offset: int
    timestamp: int


class FetchedBatch(NamedTuple):
    """One batch as it is in the log, from `from_offset` on. It is not decoded yet."""

    name: TopicPartition
    header: BatchHeader
    data: bytes
    """The bytes that the header's position refers to; they may contain other batches."""
    from_offset: int
    """The first offset wanted: a batch may begin before the requested position. It is behind the batch if
    nothing of it is wanted."""

    @property
    def topic(self) -> str:
        return self.name.topic

    @property
    def partition(self) -> int:
        return self.name.partition

    @property
    def base_offset(self) -> int:
        """The offset of the first record wanted."""
        return max(self.header.base_offset, self.from_offset)

    @property
    def next_offset(self) -> int:
        """The offset behind the last record."""
        return self.header.next_offset

    @property
    def record_count(self) -> int:
        """The number of records wanted, without decoding them. It is an upper bound if compaction has removed
        records from a batch that is wanted from its middle on."""
        return min(self.header.record_count, self.next_offset - self.base_offset)

    @property
    def size(self) -> int:
        """The size of the whole batch in bytes."""
        return self.header.size

    def columns(self, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Columns:
        """The records wanted, by column. Raises UndecodableBatch, also for a batch that decompresses to more
        than `bytes_max`."""
        return self.decoded(bytes_max=bytes_max)[0]

    def decoded(self, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> tuple[Columns, int]:
        """As `columns`, with the size of the whole batch's records in bytes, decompressed."""
        if self.from_offset >= self.next_offset:
            return Columns([], [], [], [], []), 0
        try:
            body = body_of(self.data, self.header, bytes_max=bytes_max)
            columns = columns_of(body, self.header)
        except StrandlineError as error:
            raise self.undecodable(error) from error
        if self.from_offset > self.header.base_offset:
            skipped = bisect_left(columns.offsets, self.from_offset)
            offsets, timestamps, keys, values, headers = columns
            columns = Columns(
                offsets[skipped:], timestamps[skipped:], keys[skipped:], values[skipped:], headers[skipped:]
            )
        return columns, len(body)

    def records(self) -> list[ConsumerRecord]:
        """The records wanted. Raises UndecodableBatch."""
        return records_of(self.name, self.columns())

    def undecodable(self, error: StrandlineError) -> UndecodableBatch:
        """The exception for this decoding error."""
        first, last = self.base_offset, self.next_offset - 1
        offsets = f"offset {first}" if first == last else f"offsets {first} to {last}"
        return UndecodableBatch(
            f"{self.name}: {offsets} cannot be decoded: {error.message}; the log goes on at offset "
            f"{self.next_offset}",
            partition=self.name,
            offset=first,
            next_offset=self.next_offset,
        )


def records_of(name: TopicPartition, columns: Columns) -> list[ConsumerRecord]:
    """The records of these columns."""
    topic, partition = name
    rows = zip(repeat(topic), repeat(partition), *columns, strict=False)
    return list(map(tuple.__new__, repeat(ConsumerRecord), rows))


def damaged(name: TopicPartition, offset: int, next_offset: int, error: StrandlineError) -> UndecodableBatch:
    """The exception for a damaged batch. `next_offset` is a guess if its header is damaged."""
    return UndecodableBatch(
        f"{name}: the batch at offset {offset} is damaged: {error.message}; it is fetched again, and the log "
        f"goes on at offset {next_offset}",
        partition=name,
        offset=offset,
        next_offset=next_offset,
    )
