"""What a consumer hands out: records one by one, or whole batches that are decoded when asked."""

from __future__ import annotations

from bisect import bisect_left
from itertools import repeat
from typing import NamedTuple

from strandline.errors import StrandlineError, UndecodableBatch
from strandline.ids import TopicPartition
from strandline.records import BatchHeader, Columns, RecordHeaders, decode_columns


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
    """One batch as it lies in the log, from `from_offset` on. Nothing in it is decoded yet."""

    name: TopicPartition
    header: BatchHeader
    data: bytes
    """What the header's position counts in; other batches may stand around this one."""
    from_offset: int
    """The first offset wanted: a batch may begin before the position that was asked for."""

    @property
    def topic(self) -> str:
        return self.name.topic

    @property
    def partition(self) -> int:
        return self.name.partition

    @property
    def base_offset(self) -> int:
        """Of the first record wanted."""
        return max(self.header.base_offset, self.from_offset)

    @property
    def next_offset(self) -> int:
        """After the last record."""
        return self.header.next_offset

    @property
    def record_count(self) -> int:
        """Records wanted. Nothing is decoded for it: where compaction took records out of a batch that is
        wanted from its middle on, there are as many at most."""
        return min(self.header.record_count, self.next_offset - self.base_offset)

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.header.size

    def columns(self) -> Columns:
        """The records wanted, by column. Raises UndecodableBatch."""
        try:
            columns = decode_columns(self.data, self.header)
        except StrandlineError as error:
            raise self.undecodable(error) from error
        if self.from_offset <= self.header.base_offset:
            return columns
        skipped = bisect_left(columns.offsets, self.from_offset)
        offsets, timestamps, keys, values, headers = columns
        return Columns(
            offsets[skipped:], timestamps[skipped:], keys[skipped:], values[skipped:], headers[skipped:]
        )

    def records(self) -> list[ConsumerRecord]:
        """The records wanted. Raises UndecodableBatch."""
        topic, partition = self.name
        rows = zip(repeat(topic), repeat(partition), *self.columns(), strict=False)
        return list(map(tuple.__new__, repeat(ConsumerRecord), rows))

    def undecodable(self, error: StrandlineError) -> UndecodableBatch:
        """What to raise if the records wanted cannot be had because of this error."""
        first, last = self.base_offset, self.next_offset - 1
        offsets = f"offset {first}" if first == last else f"offsets {first} to {last}"
        return UndecodableBatch(
            f"{self.name}: {offsets} cannot be decoded: {error.message}; the log goes on at offset "
            f"{self.next_offset}",
            partition=self.name,
            offset=first,
            next_offset=self.next_offset,
        )


def damaged(name: TopicPartition, offset: int, next_offset: int, error: StrandlineError) -> UndecodableBatch:
    """What to raise if a batch did not come whole. `next_offset` is a guess where its header is damaged."""
    return UndecodableBatch(
        f"{name}: the batch at offset {offset} is damaged: {error.message}; it is fetched again, and the log "
        f"goes on at offset {next_offset}",
        partition=name,
        offset=offset,
        next_offset=next_offset,
    )
