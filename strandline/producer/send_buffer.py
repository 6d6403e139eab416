"""What a producer has accepted and not yet delivered: its batches, and the senders that carry them."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from math import inf
from typing import Final

from strandline.client.cluster import Cluster
from strandline.client.scope import Scope
from strandline.client.waits import NOTICE_AFTER_S, WAITS_LOGGER, Notice
from strandline.config.producer import ProducerSettings
from strandline.errors import MessageTooLarge, StrandlineError, TransactionAbortable
from strandline.ids import NO_BROKER, TopicPartition
from strandline.ports import Clock
from strandline.producer.bulk import divided
from strandline.producer.core.accumulator import Accumulator
from strandline.producer.core.batch import Batch, PartitionQueue
from strandline.producer.core.effects import (
    Acknowledged,
    DelaySend,
    Divide,
    DoubtLeader,
    Effect,
    Failed,
    Renew,
    Send,
)
from strandline.producer.flushes import Flushes
from strandline.producer.identity import new_identity
from strandline.producer.measures import ProducerMeasures
from strandline.producer.sender import Sender
from strandline.producer.tickets import RecordTicket, Ticket
from strandline.records import PackedRecords
from strandline.vocabulary.log import ProducerIdentity

logger = logging.getLogger(__name__)
waits = logging.getLogger(WAITS_LOGGER)

Queue = PartitionQueue[Ticket]


class SendBuffer:
    """Holds the batches within `buffer_bytes`, and does what the accumulator decides about them."""

    def __init__(self, cluster: Cluster, settings: ProducerSettings, scope: Scope, clock: Clock) -> None:
        self._cluster = cluster
        self._settings = settings
        self._scope = scope
        self._clock = clock
        self.accumulator: Final[Accumulator[Ticket]] = Accumulator(settings)
        self.bytes_max: Final = settings.buffer_bytes
        self.used = 0
        """Bytes of records that have not ended."""
        self._room = asyncio.Event()
        self._linger_s = settings.linger_ms / 1000
        self._senders: dict[int, Sender] = {}
        self._connections = itertools.count()
        self._flushes = Flushes[Ticket]()
        self._measures = ProducerMeasures(clock, self.bytes_max)
        self._refused: dict[TopicPartition, Notice] = {}
        """Of the partitions whose batches are refused again and again."""
        self._noted_at = -inf
        self.may_begin: Callable[[], None] = lambda: None
        """Raises why no batch may begin now: called before each."""
        self.on_failure: Callable[[StrandlineError], StrandlineError] = lambda error: error
        """Called with the error of each batch that fails; returns the one for its records."""

    def start(self, identity: ProducerIdentity | None) -> None:
        """`identity`: of an idempotent producer."""
        self._loop = asyncio.get_running_loop()
        self.accumulator.identity = identity
        self._scope.spawn(self._watch_deadlines(), "deadlines")

    # --- batches -----------------------------------------------------------------------------

    def begin(self, queue: Queue) -> Batch[Ticket]:
        """A new open batch. Raises as `Scope.check` and `may_begin`."""
        self._scope.check()
        self.may_begin()
        batch = self.accumulator.begin(queue, RecordTicket(queue.name), self._clock.monotonic())
        self.used += batch.size
        if queue.gap is not None:
            self._loop.call_soon(self._fail_behind_gap, queue)
        if self._linger_s == 0:
            batch.due = True
            self._wake_sender(queue)
        else:
            self._loop.call_later(self._linger_s, self._linger_ended, batch)
            if queue.waiting:
                self._wake_sender(queue)
        return batch

    async def add(
        self, queue: Queue, packed: PackedRecords, ticket: Ticket, expected_offset: int | None = None
    ) -> None:
        """Add a complete batch, once there is room. Raises as `Scope.check` and `may_begin`."""
        await self.wait_for_room()
        self.may_begin()
        batch = self.accumulator.add(queue, packed, ticket, self._clock.monotonic(), expected_offset)
        self.used += batch.size
        self._wake_sender(queue)
        if queue.gap is not None:
            self._fail_behind_gap(queue)
        await asyncio.sleep(0)

    async def wait_for_room(self) -> None:
        """Return once less than `bytes_max` is used. Raises as `Scope.check`."""
        self._scope.check()
        while self.used >= self.bytes_max:
            self._room.clear()
            await self._room.wait()
            self._scope.check()  # a producer that ends has room for everyone

    def free(self, size: int) -> None:
        """These bytes are no longer used."""
        self.used -= size
        self._room.set()

    async def flush(self) -> None:
        """Send the open batches, and wait for the ends of all that are there."""
        batches: set[Batch[Ticket]] = set()
        for queue in self.accumulator:
            if queue.open is not None:
                queue.open.due = True
                self._wake_sender(queue)
            batches.update(queue.unsettled())
        await self._flushes.ends_of(batches)

    async def finish(self) -> None:
        """Return once the brokers have handled all that was written: with acks=0 they answer nothing."""
        for sender in tuple(self._senders.values()):
            await sender.finish()

    def give_up(self) -> None:
        """Fail every batch that has not ended."""
        self.carry_out(self.accumulator.give_up())

    def abandon(self) -> None:
        """Fail every batch that has not ended: their transaction is aborted."""
        error = TransactionAbortable("the transaction was aborted before these records were acknowledged")
        self.carry_out(self.accumulator.abandon(error))

    def go_on_as(self, identity: ProducerIdentity) -> None:
        """The transaction has ended, and with it every batch; the next ones have this identity."""
        self.accumulator.go_on_as(identity)

    def led(self, queue: Queue, broker: int, epoch: int) -> None:
        """A partition's leader is known anew."""
        self.carry_out(self.accumulator.led(queue.name, broker, epoch))
        if broker == NO_BROKER and not queue.empty:
            self._cluster.doubt(queue.name)

    def measured(self) -> dict[str, float]:
        """By Kafka's names. From any thread."""
        in_flight = sum([sender.in_flight for sender in tuple(self._senders.values())])
        return self._measures.read(self.used, in_flight)

    def _fail_behind_gap(self, queue: Queue) -> None:
        self.carry_out(self.accumulator.fail_behind_gap(queue))

    def _linger_ended(self, batch: Batch[Ticket]) -> None:
        if not (batch.due or batch.settled):
            batch.due = True
            self._wake_sender(batch.queue)

    def _wake_sender(self, queue: Queue) -> None:
        """The queue may have something to send."""
        if queue.broker == NO_BROKER:
            self._cluster.doubt(queue.name)
            return
        self.accumulator.ready(queue)
        sender = self._senders.get(queue.broker)
        if sender is None:
            if not self._scope.runs:
                return  # every batch is about to end
            sender = self._senders[queue.broker] = Sender(
                queue.broker,
                cluster=self._cluster,
                accumulator=self.accumulator,
                carry_out=self.carry_out,
                connections=self._connections,
                measures=self._measures,
                settings=self._settings,
                clock=self._clock,
            )
            self._scope.spawn(sender.run(), f"broker {queue.broker}")
        sender.wake()

    # --- what the accumulator decides --------------------------------------------------------

    def carry_out(self, effects: list[Effect[Ticket]]) -> None:
        """Do what the accumulator has decided."""
        for effect in effects:
            match effect:
                case Acknowledged(batch, base_offset):
                    self._measures.sent.add(batch.record_count)
                    batch.ticket.acknowledge(batch.queue.name, base_offset, batch.record_count)
                    self._settled(batch)
                case Failed(batch, cause):
                    self._measures.failed.add(batch.record_count)
                    error = self.on_failure(cause)
                    self._log_failure(batch, error)
                    batch.ticket.fail(error)
                    self._settled(batch)
                case Send(queue):
                    self._wake_sender(queue)
                case DelaySend(queue, pause, seconds):
                    self._loop.call_later(seconds, self._backed_off, queue, pause)
                    self._note_refused(queue)
                case DoubtLeader(queue, error):
                    self._cluster.follow(queue.name, error)
                case Divide(batch, error):
                    self._divide(batch, error)
                case Renew(queue) if self._scope.runs:
                    self._scope.spawn(self._renew(queue), f"producer id for {queue.name}")

    def _divide(self, batch: Batch[Ticket], error: MessageTooLarge) -> None:
        """The topic's limit was lowered, or is not known here: what follows keeps to it, too."""
        assert batch.packed is not None
        queue, limit = batch.queue, error.limit or batch.packed.size // 2
        pieces = divided(batch.packed, limit, self.accumulator.codec)
        tickets = batch.ticket.divide([piece.record_count for piece in pieces])
        if tickets is None:
            self.carry_out(self.accumulator.indivisible(batch, error))
            return
        queue.size_max = min(queue.size_max, limit)
        parts = self.accumulator.divided(batch, zip(pieces, tickets, strict=True))
        self.used += sum(part.size for part in parts)
        self.free(batch.size)
        self._flushes.divided(batch, parts)
        if self._scope.runs:
            self._scope.spawn(self._learn(queue.name.topic), f"metadata of {queue.name.topic}")

    async def _learn(self, topic: str) -> None:
        try:
            await self._cluster.refresh([topic])
        except StrandlineError as error:
            logger.info("the metadata of topic %s could not be requested: %s", topic, error)

    def _settled(self, batch: Batch[Ticket]) -> None:
        self.free(batch.size)
        self._flushes.settled(batch)

    @staticmethod
    def _log_failure(batch: Batch[Ticket], error: StrandlineError) -> None:
        logger.warning(
            "%d records of %s not delivered: %s (%s): %s",
            batch.record_count, batch.queue.name, type(error).__name__, error.outcome.value, error,
        )  # fmt: skip

    def _note_refused(self, queue: Queue) -> None:
        """Log what holds a partition up, if that lasts; one of them stands for others at the same time."""
        notice = self._refused.setdefault(queue.name, Notice(self._clock))
        if queue.attempts == 1:
            notice.over()  # the batch before was taken
        lasting, now = notice.lasting(), self._clock.monotonic()
        if lasting is not None and now - self._noted_at > NOTICE_AFTER_S:
            self._noted_at = now
            reason = queue.waiting[0].last_error if queue.waiting else None
            waits.warning("%s takes no records, for %.0f s by now: %s", queue.name, lasting, reason)

    def _backed_off(self, queue: Queue, pause: int) -> None:
        self.carry_out(self.accumulator.backed_off(queue, pause))

    async def _renew(self, queue: Queue) -> None:
        self.carry_out(
            self.accumulator.renewed(queue, await new_identity(self._cluster, self._settings, self._clock))
        )

    async def _watch_deadlines(self) -> None:
        """Fail the batches at their deadlines. A new batch's deadline is never earlier than an old one's."""
        delivery_s = self._settings.delivery_timeout_ms / 1000
        while True:
            now = self._clock.monotonic()
            self.carry_out(self.accumulator.expire(now))
            deadline = self.accumulator.next_deadline()
            await self._clock.sleep(delivery_s if deadline is None else deadline - now)
