"""Idempotence on one partition: remembers each producer's last batches, so that a retry is not written twice.

KIP-98, and KIP-360 for forgotten producers. The state is a function of the log: it is rolled back with the
log (CORRECTNESS T12) and rebuilt from it.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import google_crc32c

from strandline.broker.core.replication.transactions import Transactions
from strandline.config.limits import OPEN_TRANSACTIONS_PER_PARTITION_MAX, PRODUCER_BATCHES_REMEMBERED
from strandline.errors import (
    ConcurrentTransactions,
    DuplicateSequence,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
    UnknownProducerId,
)
from strandline.records import BatchHeader
from strandline.records.control import WrittenMarker
from strandline.security.principal import ANONYMOUS, Principal
from strandline.vocabulary.log import NO_MARKER, ProducerIdentity, Transactional
from strandline.vocabulary.transactions import Marker

SEQUENCES: Final = 2**31
"""Sequences count modulo this."""


By = Principal | None
"""A caller; None: not known, or callers are not distinguished."""

UNKNOWN_CRC: Final = -1
"""The CRC of a batch that compaction rewrote, that a leader gave its time or its codec, or that an old
snapshot remembers."""


class RememberedBatch(NamedTuple):
    """A batch by its sequences, where it was written, and the CRC under which it was appended."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    crc: int = UNKNOWN_CRC

    @property
    def last_offset(self) -> int:
        return self.base_offset + (self.last_sequence - self.first_sequence) % SEQUENCES


@dataclass(frozen=True, slots=True)
class Accept:
    """Append the batch."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The batch is in the log already, at these offsets."""

    base_offset: int
    last_offset: int


ACCEPT: Final = Accept()


@dataclass(frozen=True, slots=True)
class Producer:
    """One producer's last batches, the oldest first, at most PRODUCER_BATCHES_REMEMBERED. None, if a marker
    raised its epoch, or its batches have no sequences."""

    epoch: int
    batches: tuple[RememberedBatch, ...]
    at_ms: int
    owner: By = None
    """The caller that sent the first of them, for as long as this is remembered. None: not known, since the
    log has no principals."""
    marker_offset: int = NO_MARKER
    """Of its last marker."""
    coordinator_epoch: int = -1
    """That of the last marker's coordinator."""


class ProducerState:
    """All producers of one partition, the least recently active first, and their transactions."""

    __slots__ = ("_expiry_ms", "_of_owner", "_open_max", "_producers", "_producers_max", "transactions")

    def __init__(
        self, *, producers_max: int, expiry_ms: int, open_max: int = OPEN_TRANSACTIONS_PER_PARTITION_MAX
    ) -> None:
        self.transactions = Transactions()
        self._producers: OrderedDict[int, Producer] = OrderedDict()
        self._of_owner: dict[By, OrderedDict[int, None]] = {}
        """The ids of each owner that has some, the least recently active first."""
        self._producers_max = producers_max
        self._expiry_ms = expiry_ms
        self._open_max = open_max

    def empty(self) -> ProducerState:
        """An empty state with the same limits."""
        return ProducerState(producers_max=self._producers_max, expiry_ms=self._expiry_ms)

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[tuple[int, Producer]]:
        return iter(self._producers.items())

    def of(self, producer_id: int) -> Producer | None:
        """None: this is not known, or no longer."""
        return self._producers.get(producer_id)

    def guard(self, producer_id: int) -> int:
        """The offset of the producer's last marker, for `Transactional`."""
        producer = self._producers.get(producer_id)
        return NO_MARKER if producer is None else producer.marker_offset

    def check(
        self,
        header: BatchHeader,
        now_ms: int,
        by: By = None,
        *,
        any_first_sequence: bool = False,
        transaction: Transactional | None = None,
    ) -> Accept | Duplicate:
        """Decides about a batch that is about to be appended. Changes nothing.

        `any_first_sequence`: take any batch of a producer that is not known here (KIP-360). Without it,
        raises UnknownProducerId unless that is the producer's first batch: one before it may come again.
        `transaction`: what its coordinator said; needed for the first batch of a transaction.

        Raises InvalidProducerEpoch, OutOfOrderSequence (also for sequences that another batch has, and
        for the producer id of another caller), DuplicateSequence (written before the batches that are
        remembered), InvalidTransactionState, ConcurrentTransactions if the producer's last one, or too many,
        are open.
        """
        if header.producer_id < 0:
            return ACCEPT
        verdict = self._check_sequence(header, now_ms, by, any_first_sequence=any_first_sequence)
        if isinstance(verdict, Accept):
            self._check_transaction(header, transaction)
        return verdict

    def _check_sequence(
        self, header: BatchHeader, now_ms: int, by: By, *, any_first_sequence: bool
    ) -> Accept | Duplicate:
        producer = self._producers.get(header.producer_id)
        if producer is None or now_ms - producer.at_ms > self._expiry_ms:
            if header.base_sequence > 0 and not any_first_sequence:
                raise UnknownProducerId(
                    f"nothing is known of producer {header.producer_id} here, "
                    f"and its batch begins with sequence {header.base_sequence} instead of 0"
                )
            return ACCEPT
        if by is not None and producer.owner not in (None, by):
            raise OutOfOrderSequence(f"producer id {header.producer_id} was not given to {by}")
        if header.producer_epoch < producer.epoch:
            raise InvalidProducerEpoch(
                f"batch of producer {header.producer_id} has epoch {header.producer_epoch}, "
                f"its latest is {producer.epoch}"
            )
        if header.base_sequence < 0:
            return ACCEPT
        if header.producer_epoch > producer.epoch or not producer.batches:
            if header.base_sequence != 0:
                raise OutOfOrderSequence(
                    f"producer {header.producer_id} begins epoch {header.producer_epoch} "
                    f"with sequence {header.base_sequence} instead of 0"
                )
            return ACCEPT
        return _follow(producer, header)

    def _check_transaction(self, header: BatchHeader, transaction: Transactional | None) -> None:
        """A batch of a transaction either continues it, or begins it as its coordinator knows. One of
        transactions v2 has an epoch of its own, so that also a producer that is not known begins at 0."""
        known = self.transactions.of(header.producer_id)
        who = f"producer {header.producer_id} of epoch {header.producer_epoch}"
        if known is not None:
            if not header.is_transactional:
                raise InvalidTransactionState(f"{who} has a transaction here, and its batch is not in one")
            if header.producer_epoch != known.epoch:
                raise ConcurrentTransactions(
                    f"the transaction of epoch {known.epoch} is open; {who} has to wait"
                )
            return
        if not header.is_transactional:
            return
        asked = ProducerIdentity(header.producer_id, header.producer_epoch)
        if transaction is None or transaction.producer != asked:
            raise InvalidTransactionState(f"{who} has no transaction here that its coordinator knows")
        if transaction.guard is None:
            if header.base_sequence > 0 and header.producer_id not in self._producers:
                raise OutOfOrderSequence(f"{who} begins with sequence {header.base_sequence} instead of 0")
        elif transaction.guard != self.guard(header.producer_id):
            raise InvalidTransactionState(f"the transaction of {who} has ended meanwhile")
        if len(self.transactions) >= self._open_max:
            raise ConcurrentTransactions(
                f"{len(self.transactions)} transactions are open in this partition; {who} has to wait",
                limit=self._open_max,
            )

    def check_marker(self, marker: Marker) -> None:
        """Decides about a marker that is about to be appended. Raises TransactionCoordinatorFenced,
        InvalidProducerEpoch."""
        producer = self._producers.get(marker.producer.producer_id)
        if producer is None:
            return
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"a marker of coordinator epoch {marker.coordinator_epoch} comes after one of "
                f"{producer.coordinator_epoch}"
            )
        if marker.producer.producer_epoch < producer.epoch:
            raise InvalidProducerEpoch(
                f"a marker of producer {marker.producer.producer_id} has epoch "
                f"{marker.producer.producer_epoch}, its latest is {producer.epoch}"
            )

    def record(self, header: BatchHeader, base_offset: int, now_ms: int, by: By = None) -> None:
        """Note a batch that is in the log at `base_offset`. A caller with a name owns the producer id from
        its first batch here on; an anonymous one owns nothing.

        Nothing is refused: a follower writes what its leader accepted. Beyond the bound the least recently
        active producer of the owner that has most is forgotten, so that no caller with new ids takes the
        places of others; its next batch gets UnknownProducerId.
        """
        producer_id, epoch = header.producer_id, header.producer_epoch
        if producer_id < 0:
            return
        known = self._producers.pop(producer_id, None)
        kept = known.batches if known is not None and known.epoch == epoch else ()
        if header.base_sequence >= 0:
            last = (header.base_sequence + header.last_offset_delta) % SEQUENCES
            batch = RememberedBatch(header.base_sequence, last, base_offset, _crc_as_appended(header))
            kept = (*kept[1 - PRODUCER_BATCHES_REMEMBERED :], batch)
        if known is None:
            owner = None if by == ANONYMOUS else by
            self._put(producer_id, Producer(epoch, kept, now_ms, owner), known)
        else:
            owner = by if known.owner is None and by != ANONYMOUS else known.owner
            marked = known.marker_offset, known.coordinator_epoch
            self._put(producer_id, Producer(epoch, kept, now_ms, owner, *marked), known)
        if header.is_transactional:
            self.transactions.begun(producer_id, epoch, base_offset, now_ms)

    def record_marker(
        self, header: BatchHeader, marker: WrittenMarker, base_offset: int, now_ms: int
    ) -> None:
        """Note a marker that is in the log: earlier epochs of its producer are fenced from here on."""
        producer_id, epoch = header.producer_id, header.producer_epoch
        known = self._producers.pop(producer_id, None)
        kept = known.batches if known is not None and known.epoch == epoch else ()
        owner = None if known is None else known.owner
        marked = Producer(epoch, kept, now_ms, owner, base_offset, marker.coordinator_epoch)
        self._put(producer_id, marked, known)
        self.transactions.ended(producer_id, base_offset, commit=marker.commit)

    def _put(self, producer_id: int, producer: Producer, known: Producer | None) -> None:
        """Adds the producer, which was taken out before if it is `known`, as the most recently active."""
        owner = producer.owner
        self._producers[producer_id] = producer
        if known is not None and known.owner == owner:
            self._of_owner[owner].move_to_end(producer_id)
            return
        if known is not None:
            self._disown(known.owner, producer_id)
        self._of_owner.setdefault(owner, OrderedDict())[producer_id] = None
        if len(self._producers) > self._producers_max:
            most = max(self._of_owner, key=lambda each: len(self._of_owner[each]))
            self._forget(next(iter(self._of_owner[most])))

    def _forget(self, producer_id: int) -> None:
        self._disown(self._producers.pop(producer_id).owner, producer_id)

    def _disown(self, owner: By, producer_id: int) -> None:
        del self._of_owner[owner][producer_id]
        if not self._of_owner[owner]:
            del self._of_owner[owner]

    def expire(self, now_ms: int) -> int:
        """Forget the producers that were inactive for the expiry time, and have no transaction; returns their
        number."""
        expired = [
            key
            for key, producer in self
            if now_ms - producer.at_ms > self._expiry_ms and self.transactions.of(key) is None
        ]
        for key in expired:
            self._forget(key)
        return len(expired)

    def clear(self) -> None:
        self._producers.clear()
        self._of_owner.clear()
        self.transactions.clear()

    # --- snapshots ---------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """A snapshot: magic, count, producers, transactions, CRC-32C."""
        parts = [_SNAPSHOT_HEAD.pack(_SNAPSHOT_MAGIC, len(self._producers))]
        for key, producer in self:
            numbers = len(producer.batches), producer.marker_offset, producer.coordinator_epoch
            parts.append(_PRODUCER.pack(key, producer.epoch, producer.at_ms, *numbers))
            parts.extend(_BATCH.pack(*batch) for batch in producer.batches)
        parts.append(self.transactions.to_bytes())
        body = b"".join(parts)
        return body + _CRC.pack(google_crc32c.value(body))

    def restore(self, snapshot: bytes) -> None:
        """Adopt the state that `to_bytes` wrote. Raises ValueError if the snapshot is damaged."""
        body, crc = snapshot[: -_CRC.size], snapshot[-_CRC.size :]
        if len(snapshot) < _SNAPSHOT_HEAD.size + _CRC.size or crc != _CRC.pack(google_crc32c.value(body)):
            raise ValueError(f"producer snapshot of {len(snapshot)} bytes is damaged")
        magic, count = _SNAPSHOT_HEAD.unpack_from(body)
        layout = _LAYOUTS.get(magic)
        if layout is None:
            raise ValueError(f"producer snapshot begins with {magic!r} instead of {_SNAPSHOT_MAGIC!r}")
        of_producer, of_batch = layout
        self.clear()
        at = _SNAPSHOT_HEAD.size
        for _ in range(count):
            key, epoch, at_ms, batches, *marked = of_producer.unpack_from(body, at)
            at += of_producer.size
            end = at + batches * of_batch.size
            tail = tuple(RememberedBatch(*fields) for fields in of_batch.iter_unpack(body[at:end]))
            self._producers[key] = Producer(epoch, tail, at_ms, None, *marked)
            at = end
        if self._producers:
            self._of_owner[None] = OrderedDict.fromkeys(self._producers)
        if magic == _SNAPSHOT_MAGIC:
            self.transactions.restore(body, at)


def _follow(producer: Producer, header: BatchHeader) -> Accept | Duplicate:
    """Checks a batch of the epoch in force: it must continue the remembered batches, or be one of them."""
    first = header.base_sequence
    last = (first + header.last_offset_delta) % SEQUENCES
    newest, oldest = producer.batches[-1], producer.batches[0]
    if first == (newest.last_sequence + 1) % SEQUENCES:
        return ACCEPT
    for batch in producer.batches:
        if batch.first_sequence == first and batch.last_sequence == last:
            if batch.crc != header.crc and UNKNOWN_CRC not in (batch.crc, header.crc):
                raise OutOfOrderSequence(
                    f"sequences {first}..{last} of producer {header.producer_id} belong to another batch, at "
                    f"offset {batch.base_offset} with CRC {batch.crc:#010x}; this one has {header.crc:#010x}"
                )
            return Duplicate(batch.base_offset, batch.last_offset)
    if precedes(last, oldest.first_sequence):
        raise DuplicateSequence(
            f"sequences {first}..{last} of producer {header.producer_id} were written before the "
            f"{len(producer.batches)} batches remembered, which begin with {oldest.first_sequence}"
        )
    raise OutOfOrderSequence(
        f"producer {header.producer_id} sends sequences {first}..{last} after {newest.last_sequence}"
    )


def _crc_as_appended(header: BatchHeader) -> int:
    """The CRC of the batch as its producer sent it, if the log still holds that batch."""
    rewritten = header.record_count <= header.last_offset_delta or header.delete_horizon_ms is not None
    return UNKNOWN_CRC if rewritten or header.is_log_append_time else header.crc


def precedes(sequence: int, other: int) -> bool:
    """True if `sequence` is the earlier one, taking the shorter way around the circle."""
    return 0 < (other - sequence) % SEQUENCES < SEQUENCES // 2


_SNAPSHOT_MAGIC: Final = b"STPS0003"
_SNAPSHOT_HEAD: Final = struct.Struct(">8sI")
_PRODUCER: Final = struct.Struct(">qhqBqq")
_BATCH: Final = struct.Struct(">iiqq")
_LAYOUTS: Final = {
    _SNAPSHOT_MAGIC: (_PRODUCER, _BATCH),
    b"STPS0002": (struct.Struct(">qhqB"), _BATCH),
    b"STPS0001": (struct.Struct(">qhqB"), struct.Struct(">iiq")),
}
"""Layouts of producers and batches by magic. The first had no CRCs, the second no transactions."""
_CRC: Final = struct.Struct(">I")
