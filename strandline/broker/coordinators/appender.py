"""Writes a coordinator's records: writes that are requested during a batch go into the next batch.

So under load batches grow by themselves, and a thousand commits cost one replication. One batch is in flight
at a time: batches commit in the order in which the core decided them, and a failure concerns one batch.

A write that is part of a transaction is in no batch with others: the producer's marker ends all of its batch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from strandline.broker.core.coordinators.effects import Append
from strandline.broker.core.replication.produce_ticket import Produced, ProduceOutcome
from strandline.broker.replicas.leadership import Leadership
from strandline.config.limits import KIB, MIB
from strandline.errors import CoordinatorNotAvailable, MessageTooLarge, StrandlineError
from strandline.ids import ACKS_ALL
from strandline.ports import Clock
from strandline.records import Codec, PackedRecords, pack
from strandline.records.header import TRANSACTIONAL
from strandline.vocabulary.log import Transactional

RECORD_OVERHEAD_BYTES: Final = 32
"""A lower bound of a record's bytes besides key and value."""

BATCH_OVERHEAD_BYTES: Final = 128
COMPRESS_FROM_BYTES: Final = 4 * KIB
APPEND_BYTES_MAX: Final = 3 * MIB
"""The bytes of one write before compression. The generation that is written has to fit into its leader's
answer too, whose bound is MESSAGE_BYTES_MAX; and more would block the event loop for too long."""

WAITING_BYTES_MAX: Final = 32 * MIB
"""The bytes of writes that wait for the one in flight; further writes are refused."""

Appended = Callable[[int, StrandlineError | None], None]


@dataclass(frozen=True, slots=True)
class _Write:
    append: Append
    size: int


class Appender:
    """The appender of one leadership. `appended` is called once for each write, unless the appender is
    closed before."""

    def __init__(
        self,
        leadership: Leadership,
        clock: Clock,
        appended: Appended,
        *,
        timeout_ms: int,
        waiting_max: int,
    ) -> None:
        self._leadership = leadership
        self._timeout_ms = timeout_ms
        self._waiting_max = waiting_max
        self._clock = clock
        self._appended = appended
        self._waiting: deque[_Write] = deque()
        self._in_flight = False
        self._scheduled = False
        self._closed = False

    def add(self, append: Append) -> None:
        """Have records written. Never calls `appended` before it returns."""
        size = sum(
            len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES * (1 + len(headers))
            for key, value, headers in append.each()
        )
        self._waiting.append(_Write(append, size))
        self._schedule()

    def close(self) -> None:
        """The leadership has ended: results of waiting and unfinished writes are ignored here."""
        self._closed = True
        self._waiting.clear()

    def _schedule(self) -> None:
        """Flush after the tasks that are ready to run: they may request writes too."""
        if not self._scheduled and not self._in_flight and self._waiting:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        self._refuse_overflow()
        if self._closed or self._in_flight or not self._waiting:
            return
        writes = self._take()
        try:
            packed = self._packed(writes)
        except MessageTooLarge as error:
            self._settle(writes, error)
            return
        self._in_flight = True
        transaction = writes[0].append.transaction
        try:
            self._leadership.produce(
                _sealed(packed, transaction),
                acks=ACKS_ALL,
                timeout_ms=self._timeout_ms,
                done=partial(self._done, writes),
                transaction=transaction,
            )
        except StrandlineError as error:
            self._done(writes, error)

    def _refuse_overflow(self) -> None:
        """Refuse the newest writes, until neither number nor bytes of the waiting ones exceed their
        bounds."""
        refused: list[_Write] = []
        size = sum(write.size for write in self._waiting)
        while len(self._waiting) > self._waiting_max or (size > WAITING_BYTES_MAX and len(self._waiting) > 1):
            refused.append(self._waiting.pop())
            size -= refused[-1].size
        name = self._leadership.replica.name
        for write in reversed(refused):
            error = CoordinatorNotAvailable(
                f"{len(self._waiting)} writes of {size} bytes wait for {name} already",
                limit=self._waiting_max,
            )
            self._appended(write.append.write_id, error)

    @property
    def _bytes_max(self) -> int:
        return self._leadership.replica.config.batch_bytes_max

    def _take(self) -> list[_Write]:
        """The first write, and those after it that fit into its batch uncompressed and are part of the same
        transaction, or of none as it is."""
        writes = [self._waiting.popleft()]
        transaction = writes[0].append.transaction
        room = self._bytes_max - BATCH_OVERHEAD_BYTES - writes[0].size
        while self._waiting:
            following = self._waiting[0]
            if following.size > room or following.append.transaction != transaction:
                break
            writes.append(self._waiting.popleft())
            room -= following.size
        return writes

    def _packed(self, writes: Sequence[_Write]) -> PackedRecords:
        """Raises MessageTooLarge for a single write that fits into no batch even compressed."""
        size = sum(write.size for write in writes)
        if size > APPEND_BYTES_MAX:
            raise MessageTooLarge(
                f"{size} bytes to be written at once; at most {APPEND_BYTES_MAX}", limit=APPEND_BYTES_MAX
            )
        now_ms = self._clock.wall_ms()
        codec = Codec.ZSTD if size >= COMPRESS_FROM_BYTES else Codec.NONE
        packed = pack(
            [
                (key, value, headers, now_ms)
                for write in writes
                for key, value, headers in write.append.each()
            ],
            codec=codec,
        )
        if packed.size > self._bytes_max:
            raise MessageTooLarge(
                f"{packed.size} bytes to be written in one batch of {self._leadership.replica.name}; "
                f"at most {self._bytes_max}",
                limit=self._bytes_max,
            )
        return packed

    def _done(self, writes: Sequence[_Write], outcome: ProduceOutcome) -> None:
        """Called from within a turn of the commit loop, which has to end first."""
        error = None if isinstance(outcome, Produced) else outcome
        asyncio.get_running_loop().call_soon(self._settle, writes, error)

    def _settle(self, writes: Sequence[_Write], error: StrandlineError | None) -> None:
        self._in_flight = False
        if not self._closed:
            for write in writes:
                self._appended(write.append.write_id, error)
            self._schedule()


def _sealed(packed: PackedRecords, transaction: Transactional | None) -> bytes:
    """The batch. One in a transaction has its producer and no sequence, as from Kafka's coordinators."""
    if transaction is None:
        return packed.seal()
    identity, attributes = transaction.producer, packed.attributes | TRANSACTIONAL
    return replace(packed, attributes=attributes).seal(
        producer_id=identity.producer_id, producer_epoch=identity.producer_epoch
    )
