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

from strandline.config.limits import PRODUCER_BATCHES_REMEMBERED
from strandline.errors import DuplicateSequence, InvalidProducerEpoch, OutOfOrderSequence, UnknownProducerId
from strandline.records import BatchHeader
from strandline.security.principal import ANONYMOUS, Principal

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
    """One producer's last batches, the oldest first; never empty, at most PRODUCER_BATCHES_REMEMBERED."""

    epoch: int
    batches: tuple[RememberedBatch, ...]
    at_ms: int
    owner: By = None
    """The caller that sent the first of them, for as long as this is remembered. None: not known, since the
    log has no principals."""


class ProducerState:
    """All producers of one partition, the least recently active first."""

    __slots__ = ("_expiry_ms", "_of_owner", "_producers", "_producers_max")

    def __init__(self, *, producers_max: int, expiry_ms: int) -> None:
        self._producers: OrderedDict[int, Producer] = OrderedDict()
        self._of_owner: dict[By, OrderedDict[int, None]] = {}
        """The ids of each owner that has some, the least recently active first."""
        self._producers_max = producers_max
        self._expiry_ms = expiry_ms

    def empty(self) -> ProducerState:
        """An empty state with the same limits."""
        return ProducerState(producers_max=self._producers_max, expiry_ms=self._expiry_ms)

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[tuple[int, Producer]]:
        return iter(self._producers.items())

    def check(
        self, header: BatchHeader, now_ms: int, by: By = None, *, any_first_sequence: bool = False
    ) -> Accept | Duplicate:
        """Decides about a batch that is about to be appended. Changes nothing.

        `any_first_sequence`: take any batch of a producer that is not known here (KIP-360). Without it,
        raises UnknownProducerId unless that is the producer's first batch: one before it may come again.

        Raises InvalidProducerEpoch, OutOfOrderSequence (also for sequences that another batch has, and
        for the producer id of another caller), DuplicateSequence (written before the batches that are
        remembered).
        """
        if header.producer_id < 0:
            return ACCEPT
        producer = self._producers.get(header.producer_id)
        if producer is None or now_ms - producer.at_ms > self._expiry_ms:
            if header.base_sequence != 0 and not any_first_sequence:
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
        if header.producer_epoch > producer.epoch:
            if header.base_sequence != 0:
                raise OutOfOrderSequence(
                    f"producer {header.producer_id} begins epoch {header.producer_epoch} "
                    f"with sequence {header.base_sequence} instead of 0"
                )
            return ACCEPT
        return _follow(producer, header)

    def record(self, header: BatchHeader, base_offset: int, now_ms: int, by: By = None) -> None:
        """Note a batch that is in the log at `base_offset`. A caller with a name owns the producer id from
        its first batch here on; an anonymous one owns nothing.

        Nothing is refused: a follower writes what its leader accepted. Beyond the bound the least recently
        active producer of the owner that has most is forgotten, so that no caller with new ids takes the
        places of others; its next batch gets UnknownProducerId.
        """
        producer_id = header.producer_id
        if producer_id < 0:
            return
        last = (header.base_sequence + header.last_offset_delta) % SEQUENCES
        batch = RememberedBatch(header.base_sequence, last, base_offset, _crc_as_appended(header))
        known = self._producers.pop(producer_id, None)
        tail = known.batches if known is not None and known.epoch == header.producer_epoch else ()
        kept = (*tail[1 - PRODUCER_BATCHES_REMEMBERED :], batch)
        owner = None if known is None else known.owner
        if owner is None and by != ANONYMOUS:
            owner = by
        self._producers[producer_id] = Producer(header.producer_epoch, kept, now_ms, owner)
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
        """Forget the producers that were inactive for the expiry time; returns their number."""
        expired = [key for key, producer in self if now_ms - producer.at_ms > self._expiry_ms]
        for key in expired:
            self._forget(key)
        return len(expired)

    def clear(self) -> None:
        self._producers.clear()
        self._of_owner.clear()

    # --- snapshots ---------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """A snapshot: magic, count, producers, CRC-32C."""
        parts = [_SNAPSHOT_HEAD.pack(_SNAPSHOT_MAGIC, len(self._producers))]
        for key, producer in self:
            parts.append(_PRODUCER.pack(key, producer.epoch, producer.at_ms, len(producer.batches)))
            parts.extend(_BATCH.pack(*batch) for batch in producer.batches)
        body = b"".join(parts)
        return body + _CRC.pack(google_crc32c.value(body))

    def restore(self, snapshot: bytes) -> None:
        """Adopt the state that `to_bytes` wrote. Raises ValueError if the snapshot is damaged."""
        body, crc = snapshot[: -_CRC.size], snapshot[-_CRC.size :]
        if len(snapshot) < _SNAPSHOT_HEAD.size + _CRC.size or crc != _CRC.pack(google_crc32c.value(body)):
            raise ValueError(f"producer snapshot of {len(snapshot)} bytes is damaged")
        magic, count = _SNAPSHOT_HEAD.unpack_from(body)
        layout = _BATCH_LAYOUTS.get(magic)
        if layout is None:
            raise ValueError(f"producer snapshot begins with {magic!r} instead of {_SNAPSHOT_MAGIC!r}")
        self.clear()
        at = _SNAPSHOT_HEAD.size
        for _ in range(count):
            key, epoch, at_ms, batches = _PRODUCER.unpack_from(body, at)
            at += _PRODUCER.size
            end = at + batches * layout.size
            tail = tuple(RememberedBatch(*fields) for fields in layout.iter_unpack(body[at:end]))
            self._producers[key] = Producer(epoch, tail, at_ms)
            at = end
        if self._producers:
            self._of_owner[None] = OrderedDict.fromkeys(self._producers)


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


_SNAPSHOT_MAGIC: Final = b"STPS0002"
_SNAPSHOT_HEAD: Final = struct.Struct(">8sI")
_PRODUCER: Final = struct.Struct(">qhqB")
_BATCH: Final = struct.Struct(">iiqq")
_BATCH_LAYOUTS: Final = {_SNAPSHOT_MAGIC: _BATCH, b"STPS0001": struct.Struct(">iiq")}
"""Batch layouts by magic. Snapshots of the first layout have no CRCs."""
_CRC: Final = struct.Struct(">I")
