"""What of an attempt's rows is in the log already, and with which sequence number the rest begins.

A Spark task may be repeated, twice at the same time, with its rows in another order and its batches cut
otherwise. All its attempts write under one identity, one batch at a time, with sequence numbers that count
its records from 0: so a broker takes a batch only from who knows all that was written before it, and each
append is a compare-and-set on the number of records. Who is refused looks into the log, takes the records
that it finds there out of what it still has to write, and goes on behind them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from strandline.client.messages import ProducerIdentity
from strandline.records import STAMP_BYTES, BatchHeader, Headers, RecordFields, decode_columns, iterate

SEQUENCES: Final = 1 << 31
"""Sequence numbers count modulo this (KIP-98)."""

WINDOW_OFFSETS: Final = 10_000
WINDOW_GROWTH: Final = 4


class FoundBatch(NamedTuple):
    """A batch of one's own identity that lies in the log, with the digests of the records it still has."""

    base_offset: int
    last_offset: int
    base_sequence: int
    next_sequence: int
    records: tuple[bytes, ...]
    keys: tuple[bytes, ...]


def digest(key: bytes | None, value: bytes | None, headers: Headers, timestamp_ms: int | None) -> bytes:
    """What two equal records have in common, and nobody else: 16 bytes. Without time: whatever it is."""
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
    """Of the key alone."""
    return digest(key, None, (), None)


def found_batches(
    records: bytes, identity: ProducerIdentity, *, first: int, end: int, timed: bool
) -> Iterator[FoundBatch]:
    """The batches of this identity that begin at offsets from `first` up to `end`.

    `timed`: rows say their records' times, so a record is the one of a row only if its time is.
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
    """Ranges of offsets from `end` back to `start`, of this size first, each larger than the one before."""
    while end > start:
        first = max(start, end - size)
        yield first, end
        end, size = first, size * WINDOW_GROWTH


class Progress:
    """How far one target partition is written by this attempt, and what others have written of it.

    `timed`: see `found_batches`. `compacts`: records that a later one with their key replaced may be gone.
    """

    def __init__(self, *, timed: bool, compacts: bool) -> None:
        self.next_sequence = 0
        self.searched_to: int | None = None
        """The offset up to which the log was looked at; None before it was."""
        self.first_offset: int | None = None
        self.last_offset = -1
        """Of what is known to be written, by whomever; `first_offset` None: nothing is."""
        self.matched = 0
        """Rows that were found instead of being written."""
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
        """Rows that this attempt has written itself, for certain."""
        return sum(self._mine.values())

    @property
    def first_of_mine(self) -> int | None:
        """The first offset that this attempt has written, for certain; None if there is none."""
        return min(self._mine, default=None)

    # --- what happens --------------------------------------------------------------------------

    def appended(self, base_offset: int, count: int) -> None:
        """The batch that this attempt sent was seen in the log, byte for byte, at this offset."""
        self._mine[base_offset] = count
        self.next_sequence = (self.next_sequence + count) % SEQUENCES
        self._note(base_offset, base_offset + count - 1)

    def found(self, batches: Sequence[FoundBatch], searched_to: int, *, forgotten: bool) -> bool:
        """The log was searched: these are all batches of the identity that were not known before, in order.

        `forgotten`: the broker knows nothing of the identity any more, and takes nothing but a new beginning.
        False if nothing was found, now or before, and the broker nevertheless knows the identity.
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
        """Under another identity, of which nothing is known."""
        self.next_sequence = 0
        self.searched_to = None

    # --- what is left --------------------------------------------------------------------------

    def missing(self, rows: Sequence[RecordFields]) -> list[RecordFields]:
        """Those of the rows that are not in the log, in their order; what is found is claimed by them."""
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
            # A record of this key lies in the log, and some that were written do not any more: this one was
            # replaced. To write it now would bring an old value back over a new one.
            self._gone -= 1
            self.matched += 1
            return True
        return False

    @property
    def gone(self) -> int:
        """Records that were written and are in the log no more, whichever they were."""
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
    """Whether what lies in the log at this offset begins with what was sent: all but the first offset and
    the leader's epoch, which the leader wrote."""
    size = len(sealed)
    return (
        int.from_bytes(stored[:_LENGTH_AT], "big") == base_offset
        and stored[_LENGTH_AT:_EPOCH_AT] == sealed[_LENGTH_AT:_EPOCH_AT]
        and stored[STAMP_BYTES:size] == sealed[STAMP_BYTES:]
    )


_LENGTH_AT: Final = 8
_EPOCH_AT: Final = 12
