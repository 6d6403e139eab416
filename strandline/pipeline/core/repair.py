"""Finds which of an attempt's rows are already in the log, and the sequence number of the rest.

A Spark task may be repeated, run twice at the same time, and have its rows in another order and other
batches. All attempts write under one identity, one batch at a time, with sequence numbers that count its
records from 0. So a broker accepts a batch only from an attempt that knows everything written before, and
each append is a compare-and-set on the number of records. A refused attempt searches the log, removes the
records that it finds there from its remaining rows, and continues after them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from strandline.records import STAMP_BYTES, BatchHeader, Headers, RecordFields, decode_columns, iterate
from strandline.vocabulary.log import ProducerIdentity

SEQUENCES: Final = 1 << 31
"""Sequence numbers count modulo this (KIP-98)."""

WINDOW_OFFSETS: Final = 10_000
WINDOW_GROWTH: Final = 4


class FoundBatch(NamedTuple):
    """A batch of this identity in the log, with the digests of the records that it still has."""

    base_offset: int
    last_offset: int
    base_sequence: int
    next_sequence: int
    records: tuple[bytes, ...]
    keys: tuple[bytes, ...]


def digest(key: bytes | None, value: bytes | None, headers: Headers, timestamp_ms: int | None) -> bytes:
    """A digest of a record, 16 bytes; equal records have equal digests. Without a timestamp, any timestamp
    matches."""
    hashed = hashlib.blake2b(digest_size=16)
    for field in (key, value):
        hashed.update(b"-" if field is None else b"%d:" % len(field) + field)
    for name, content in headers:
        named = name.encode()
        hashed.update(b"%d:" % len(named) + named)
        hashed.update(b"-" if content is None else b"%d:" % len(content) + content)
    if timestamp_ms is not None:
        hashed.update(b"@%d" % timestamp_ms)
    return hashed.digest()


def key_digest(key: bytes | None) -> bytes:
    """The digest of the key alone."""
    return digest(key, None, (), None)


def found_batches(
    records: bytes, identity: ProducerIdentity, *, first: int, end: int, timed: bool
) -> Iterator[FoundBatch]:
    """The batches of this identity that begin at offsets from `first` up to `end`.

    `timed`: rows have timestamps, so a record matches a row only if its timestamp does.
    """
    for header in iterate(records):
        written_by = ProducerIdentity(header.producer_id, header.producer_epoch)
        if written_by == identity and first <= header.base_offset < end:
            yield _found(records, header, timed)


def _found(records: bytes, header: BatchHeader, timed: bool) -> FoundBatch:
    columns = decode_columns(records, header)
    times: Sequence[int | None] = columns.timestamps if timed else [None] * len(columns.keys)
    return FoundBatch(
        header.base_offset,
        header.last_offset,
        header.base_sequence,
        (header.base_sequence + header.last_offset_delta + 1) % SEQUENCES,
        tuple(map(digest, columns.keys, columns.values, columns.headers, times)),
        tuple(map(key_digest, columns.keys)),
    )


def windows_back(start: int, end: int, size: int = WINDOW_OFFSETS) -> Iterator[tuple[int, int]]:
    """Ranges of offsets from `end` back to `start`, the first of this size, each larger than the previous
    one."""
    while end > start:
        first = max(start, end - size)
        yield first, end
        end, size = first, size * WINDOW_GROWTH


class Progress:
    """The progress of one target partition: records of this attempt, and those that other attempts wrote.

    `timed`: see `found_batches`. `compacts`: records that were replaced by a later one with their key may be
    missing.
    """

    def __init__(self, *, timed: bool, compacts: bool) -> None:
        self.next_sequence = 0
        self.searched_to: int | None = None
        """The offset up to which the log was searched; None before the first search."""
        self.first_offset: int | None = None
        self.last_offset = -1
        """The range of all records known to be written, by any attempt; `first_offset` None: there is none.
        """
        self.matched = 0
        """Rows that were found in the log instead of being written."""
        self._timed = timed
        self._compacts = compacts
        self._mine: dict[int, int] = {}
        self._found: Counter[bytes] = Counter()
        self._keys: Counter[bytes] = Counter()
        self._gone = 0

    @property
    def unmatched(self) -> int:
        """Records that were found and that no row of this attempt has claimed yet."""
        return self._found.total()

    @property
    def mine(self) -> int:
        """Rows that this attempt certainly wrote itself."""
        return sum(self._mine.values())

    @property
    def first_of_mine(self) -> int | None:
        """The first offset that this attempt certainly wrote; None if there is none."""
        return min(self._mine, default=None)

    # --- events ------------------------------------------------------------------------------

    def appended(self, base_offset: int, count: int) -> None:
        """The batch that this attempt sent was found in the log, byte for byte, at this offset."""
        self._mine[base_offset] = count
        self.next_sequence = (self.next_sequence + count) % SEQUENCES
        self._note(base_offset, base_offset + count - 1)

    def found(self, batches: Sequence[FoundBatch], searched_to: int, *, forgotten: bool) -> bool:
        """The log was searched: these are all batches of the identity that were not known before, in order.

        `forgotten`: the broker no longer knows the identity, and accepts only sequence 0. Returns False if
        nothing was found, now or before, and the broker nevertheless knows the identity.
        """
        for batch in batches:
            if batch.base_offset not in self._mine:
                self._found.update(batch.records)
                if self._compacts:
                    self._keys.update(batch.keys)
                self._note(batch.base_offset, batch.last_offset)
        if batches:
            self.next_sequence = batches[-1].next_sequence
            covered = sum(batch.last_offset - batch.base_offset + 1 for batch in batches)
            missing = batches[-1].next_sequence - batches[0].base_sequence - covered
            self._gone += max(0, missing) + covered - sum(len(batch.records) for batch in batches)
            if self.searched_to is None:
                self._gone += batches[0].base_sequence
        self.searched_to = searched_to
        if forgotten:
            self.next_sequence = 0
        return bool(batches) or forgotten or self.first_offset is not None

    def begin_again(self) -> None:
        """Start again under another identity, without any records."""
        self.next_sequence = 0
        self.searched_to = None

    # --- remaining rows ----------------------------------------------------------------------

    @property
    def may_have_found(self) -> bool:
        """True if `missing` may leave rows out."""
        return bool(self._found)

    def missing(self, rows: Sequence[RecordFields]) -> list[RecordFields]:
        """The rows that are not in the log, in order; found records are claimed by the others."""
        if not self._found:
            return list(rows)
        return [row for row in rows if not self._claim(row)]

    def _claim(self, row: RecordFields) -> bool:
        key, value, headers, timestamp = row
        wanted = digest(key, value, headers, timestamp if self._timed else None)
        if self._found[wanted] > 0:
            _take(self._found, wanted)
            if self._compacts:
                _take(self._keys, key_digest(key))
            self.matched += 1
            return True
        if self._compacts and self._gone > 0 and self._keys[key_digest(key)] > 0:
            # A record of this key is in the log, and some written records are missing: this one was
            # replaced. Writing it now would restore an old value over a new one.
            self._gone -= 1
            self.matched += 1
            return True
        return False

    @property
    def gone(self) -> int:
        """Records that were written and are no longer in the log."""
        return self._gone

    def _note(self, first: int, last: int) -> None:
        self.first_offset = first if self.first_offset is None else min(first, self.first_offset)
        self.last_offset = max(last, self.last_offset)


def _take(counted: Counter[bytes], item: bytes) -> None:
    if counted[item] > 1:
        counted[item] -= 1
    else:
        del counted[item]


def same_batch(sealed: bytes, stored: bytes, base_offset: int) -> bool:
    """Whether the stored batch at this offset is the one that was sent: all bytes are equal except the base
    offset and the leader epoch, which the leader writes."""
    size = len(sealed)
    return (
        int.from_bytes(stored[:_LENGTH_AT], "big") == base_offset
        and stored[_LENGTH_AT:_EPOCH_AT] == sealed[_LENGTH_AT:_EPOCH_AT]
        and stored[STAMP_BYTES:size] == sealed[STAMP_BYTES:]
    )


_LENGTH_AT: Final = 8
_EPOCH_AT: Final = 12
