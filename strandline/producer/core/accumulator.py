"""Decides which batches exist, what may be sent now, and how to handle an answer (KIP-98, KIP-360).

At most `in_flight_per_partition_max` batches of one partition are in flight, on one connection. A
batch gets its sequence when it is first sent and keeps it through every retry. After a failure the
accumulator waits for the batches behind it, and then sends everything unacknowledged again, in
order.

A batch ends acknowledged, or with an error whose outcome is exact: *retriable* or *fatal* only if
no attempt went unanswered. If a batch fails after it got a sequence, later sequences could never be
appended; and if the batch may still be appended, its sequence must not be reused. So the partition
*resets*: it sends nothing more, waits for what is in flight, ends with an unknown outcome every
batch that may have been appended, and continues with the others under a new producer id, from
sequence 0.

A topic that was deleted and made anew has none of the batches that were sent before: the partition begins
anew with sequence 0, and sends again what was not acknowledged. A batch is sent with the id of the topic
that it is for, so no earlier attempt can reach the new one.

A batch of several records that exceeds the topic's limit is *divided*, and its parts take its place and its
sequences (KAFKA-3995).

A *gapless* producer does not reset: all batches behind a failed one fail with it, at once and
finally, and only those before it continue. The batches in flight behind it cannot be in the log
without it: the broker accepts sequences only in order, and another producer id is never used while
a batch is in flight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, Generic

from strandline.client.backoff import backoff_s
from strandline.config.limits import RECORDS_BYTES_MAX
from strandline.config.producer import ProducerSettings
from strandline.errors import (
    DuplicateSequence,
    LeaderNotAvailable,
    MessageTooLarge,
    NotEnoughReplicas,
    Outcome,
    OutcomeUnknown,
    OutOfOrderSequence,
    StrandlineError,
    UnknownProducerId,
    UnknownTopicId,
)
from strandline.ids import ACKS_ALL, NO_BROKER, NO_TOPIC_ID, UNKNOWN_OFFSET, TopicId, TopicPartition
from strandline.ports import StreamOver
from strandline.producer.core.batch import (
    BEGINNING,
    SEQUENCES,
    Batch,
    Gap,
    PartitionQueue,
    Ticket,
)
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
from strandline.records import Codec, PackedRecords
from strandline.records.encode import NO_SEQUENCE
from strandline.vocabulary.log import ProducerIdentity

QUEUES_COUNTED_MAX: Final = 16
"""Partitions that `offers` looks at: it is asked whenever a batch is added."""


class Accumulator(Generic[Ticket]):
    """The queues of all partitions of one producer. Events return effects, to be carried out in order."""

    def __init__(self, settings: ProducerSettings) -> None:
        self._settings = settings
        self.codec = Codec.named(settings.compression)
        self._transactional = settings.transactional_id is not None
        self._gapless = settings.gapless or self._transactional
        self.idempotent = settings.enable_idempotence and settings.acks == ACKS_ALL
        ordered_by_broker = self.idempotent or settings.acks == 0
        self._in_flight_max = settings.in_flight_per_partition_max if ordered_by_broker else 1
        self._delivery_s = settings.delivery_timeout_ms / 1000
        self._queues: dict[TopicPartition, PartitionQueue[Ticket]] = {}
        self._ready: dict[int, dict[PartitionQueue[Ticket], None]] = {}
        self.identity: ProducerIdentity | None = None
        """The identity of new queues; None unless idempotent."""

    def __iter__(self) -> Iterator[PartitionQueue[Ticket]]:
        return iter(self._queues.values())

    def find(self, name: TopicPartition) -> PartitionQueue[Ticket] | None:
        return self._queues.get(name)

    def queue(
        self, name: TopicPartition, size_max: int, topic_id: TopicId = NO_TOPIC_ID
    ) -> PartitionQueue[Ticket]:
        """The partition's queue, created if necessary. `size_max`: bytes of one batch."""
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = PartitionQueue(name, self.identity, size_max, topic_id)
        elif queue.gone:
            queue.gap = None
            self.begin_anew(queue, topic_id, size_max)
        return queue

    def led_by(self, broker: int) -> list[PartitionQueue[Ticket]]:
        """The queues that are not empty and whose partition this broker leads."""
        return [queue for queue in self if queue.broker == broker and not queue.empty]

    # --- accepting ---------------------------------------------------------------------------

    def begin(self, queue: PartitionQueue[Ticket], ticket: Ticket, now: float) -> Batch[Ticket]:
        """Begin an open batch; the previously open one is closed."""
        self.close(queue)
        queue.begun += 1
        batch = queue.open = Batch(queue, (queue.begun, 0), now + self._delivery_s, ticket)
        return batch

    def add(
        self,
        queue: PartitionQueue[Ticket],
        packed: PackedRecords,
        ticket: Ticket,
        now: float,
        expected_offset: int | None = None,
    ) -> Batch[Ticket]:
        """Add a complete batch; the open one is closed before it."""
        batch = self.begin(queue, ticket, now)
        batch.expected_offset = expected_offset
        batch.packed = packed
        batch.size = packed.size
        self.close(queue)
        return batch

    def close(self, queue: PartitionQueue[Ticket]) -> None:
        """Close the open batch, if any: it takes no more records."""
        if queue.open is not None:
            queue.open.due = True
            queue.waiting.append(queue.open)
            queue.open = None

    def ready(self, queue: PartitionQueue[Ticket]) -> None:
        """The queue may have something to send: the next `take` for its leader checks it."""
        self._ready.setdefault(queue.broker, {})[queue] = None

    # --- sending -----------------------------------------------------------------------------

    def wants(self, broker: int) -> bool:
        """True if there may be something to `take` for a broker."""
        ready = self._ready.get(broker, {})
        for queue in [queue for queue in ready if queue.broker != broker]:
            del ready[queue]  # it has another leader now
        return bool(ready)

    def take(self, broker: int, connection: int) -> list[Batch[Ticket]]:
        """The batches to send to a broker now, in one message of at most RECORDS_BYTES_MAX.

        The batches count as in flight on `connection` from now on. Partitions take turns.
        """
        ready = self._ready.get(broker)
        if not ready:
            return []
        taken: list[Batch[Ticket]] = []
        room = RECORDS_BYTES_MAX
        for queue in tuple(ready):
            before = len(taken)
            while (batch := self._sendable(queue, broker, connection)) is not None:
                size = batch.pack(self.codec).size
                if size > room and taken:
                    if len(taken) > before:
                        ready[queue] = ready.pop(queue)  # it had its turn
                    return taken
                queue.waiting.popleft()
                queue.number_sequence(batch)
                batch.connection, batch.broker, batch.topic_id = connection, broker, queue.topic_id
                queue.in_flight.append(batch)
                taken.append(batch)
                room -= size
            del ready[queue]
        return taken

    def offers(self, broker: int, connection: int, size: int) -> bool:
        """True if the next message to a broker would have this many bytes, as far as the partitions show that
        come first."""
        for queue in islice(self._ready.get(broker, ()), QUEUES_COUNTED_MAX):
            room = self._room(queue, broker, connection)
            size -= sum(batch.size for batch in islice(queue.waiting, room))
            if room > len(queue.waiting) and queue.open is not None and queue.open.due:
                size -= queue.open.size
            if size <= 0:
                return True
        return False

    def _room(self, queue: PartitionQueue[Ticket], broker: int, connection: int) -> int:
        """How many of its batches may be sent on this connection now."""
        in_flight = queue.in_flight
        if queue.broker != broker or queue.resetting or queue.backing_off:
            return 0
        if in_flight and (queue.recovering or in_flight[0].connection != connection):
            return 0
        return self._in_flight_max - len(in_flight)

    def _sendable(self, queue: PartitionQueue[Ticket], broker: int, connection: int) -> Batch[Ticket] | None:
        """The head of `waiting`, if it may be sent on this connection now."""
        if self._room(queue, broker, connection) <= 0:
            return None
        queue.recovering = False
        if not queue.waiting and queue.open is not None and queue.open.due:
            self.close(queue)
        if not queue.waiting or (queue.gap is not None and queue.waiting[0].number > queue.gap.number):
            return None
        return queue.waiting[0]

    def written(self, batches: list[Batch[Ticket]]) -> list[Effect[Ticket]]:
        """The transport has accepted the batches: with acks=0 this ends them."""
        if self._settings.acks != 0:
            return []
        return [effect for batch in batches for effect in self.acknowledged(batch, UNKNOWN_OFFSET)]

    # --- answers -----------------------------------------------------------------------------

    def acknowledged(self, batch: Batch[Ticket], base_offset: int) -> list[Effect[Ticket]]:
        """The broker has appended the batch."""
        queue = batch.queue
        queue.in_flight.remove(batch)
        queue.attempts = 0
        queue.acknowledged_to = max(queue.acknowledged_to, batch.number)
        effects: list[Effect[Ticket]] = []
        if not batch.settled:
            batch.settled = True
            effects.append(Acknowledged(batch, base_offset))
        return effects + self._continue(queue)

    def refused(self, batch: Batch[Ticket], error: StrandlineError) -> list[Effect[Ticket]]:
        """The broker answered with an error."""
        queue = batch.queue
        is_old = isinstance(error, DuplicateSequence)
        if is_old and batch.number < queue.acknowledged_to:
            return self.acknowledged(batch, UNKNOWN_OFFSET)
        queue.in_flight.remove(batch)
        if batch.settled:
            return self._continue(queue)
        if batch.topic_id != queue.topic_id:
            return self._resend(batch, error)
        batch.last_error = error
        if is_old or error.outcome is Outcome.UNKNOWN:
            batch.unknown = True
        if queue.resetting:
            return self._wait_for_reset(batch) + self._continue(queue)
        if is_old:
            # It is in the log, and perhaps not yet replicated: this answer waits for nothing.
            return self._retry(batch, error)
        if self.idempotent and isinstance(error, OutOfOrderSequence | UnknownProducerId):
            if queue.has_earlier(batch):
                return self._retry(batch, error)
            if isinstance(error, UnknownProducerId) and not self._transactional:
                # The broker forgot this producer, all of whose earlier batches it had acknowledged.
                return self._reset(queue) + self._wait_for_reset(batch) + self._continue(queue)
        if isinstance(error, MessageTooLarge) and batch.record_count > 1 and not batch.unknown:
            queue.recovering = True
            return [Divide(batch, error), Send(queue)]
        if error.outcome is Outcome.FATAL:
            return self._end(batch, error)
        return self._retry(batch, error)

    def _end(self, batch: Batch[Ticket], error: StrandlineError) -> list[Effect[Ticket]]:
        queue = batch.queue
        effects = self._fail(batch, error)
        if self.idempotent and queue.gap is None:
            effects += self._reset(queue)
        return effects + self._continue(queue)

    def divided(
        self, batch: Batch[Ticket], pieces: Iterable[tuple[PackedRecords, Ticket]]
    ) -> list[Batch[Ticket]]:
        """The records of a batch are sent in these pieces, in this order. Returns the new batches."""
        queue, (begun, first) = batch.queue, batch.number
        sequence, batch.settled = batch.sequence, True
        parts: list[Batch[Ticket]] = []
        for packed, ticket in pieces:
            part = Batch(queue, (begun, first), batch.deadline, ticket, packed.size, packed=packed, due=True)
            part.sequence, part.topic_id = sequence, batch.topic_id
            parts.append(part)
            queue.requeue(part)
            first += packed.record_count
            if sequence != NO_SEQUENCE:
                sequence = (sequence + packed.record_count) % SEQUENCES
        return parts

    def indivisible(self, batch: Batch[Ticket], error: StrandlineError) -> list[Effect[Ticket]]:
        """The batch cannot be divided: it fails with this error."""
        return self._end(batch, error)

    def lost(self, connection: int, error: StrandlineError) -> list[Effect[Ticket]]:
        """A connection is lost: the batches in flight on it may have been appended, unless the broker took no
        more of them."""
        outcome = error if isinstance(error, StreamOver) else OutcomeUnknown(error.message)
        effects: list[Effect[Ticket]] = []
        for queue in self:
            for batch in [batch for batch in queue.in_flight if batch.connection == connection]:
                effects += self.refused(batch, outcome)
        return effects

    def _retry(self, batch: Batch[Ticket], error: StrandlineError) -> list[Effect[Ticket]]:
        queue = batch.queue
        queue.requeue(batch)
        effects: list[Effect[Ticket]] = []
        first = not queue.recovering
        queue.recovering = True
        if batch.broker != queue.broker:
            return self._continue(queue)  # another leader is already known, and has not refused the batch
        if first:
            queue.attempts += 1
            queue.backing_off = True
            queue.pause += 1
            effects.append(DelaySend(queue, queue.pause, backoff_s(self._settings, queue.attempts)))
        if not isinstance(
            error, NotEnoughReplicas | OutOfOrderSequence | UnknownProducerId | DuplicateSequence
        ):
            effects.append(DoubtLeader(queue, error))
        return effects + self._continue(queue)

    def _fail(self, batch: Batch[Ticket], error: StrandlineError) -> list[Effect[Ticket]]:
        """End a batch; for a gapless producer also all batches behind it."""
        failed = _failed(batch, error)
        if not self._gapless:
            return [failed]
        queue = batch.queue
        if queue.gap is None or batch.number < queue.gap.number:
            queue.gap = Gap(batch.number, failed.error)
        return [failed, *self.fail_behind_gap(queue)]

    def fail_behind_gap(self, queue: PartitionQueue[Ticket]) -> list[Effect[Ticket]]:
        """End the batches that were accepted behind a gap, if there is one. Those in flight are no
        longer awaited."""
        if queue.gap is None:
            return []
        behind = [batch for batch in queue.unsettled() if batch.number > queue.gap.number]
        for batch in behind:
            queue.withdraw(batch)
        return [_failed(batch, queue.gap.error) for batch in behind]

    def _continue(self, queue: PartitionQueue[Ticket]) -> list[Effect[Ticket]]:
        """The next step after a batch has left flight."""
        if not queue.resetting:
            return [] if queue.empty else [Send(queue)]
        if queue.in_flight or queue.renewing:
            return []
        queue.renewing = True
        return [Renew(queue)]

    # --- resetting ---------------------------------------------------------------------------

    def _reset(self, queue: PartitionQueue[Ticket]) -> list[Effect[Ticket]]:
        """The sequences cannot be continued: send nothing more under this producer id."""
        if queue.resetting:
            return []
        queue.resetting = True
        effects: list[Effect[Ticket]] = []
        for batch in [batch for batch in queue.waiting if batch.unknown]:
            if not batch.settled:  # not yet ended together with an earlier one
                queue.waiting.remove(batch)
                effects += self._wait_for_reset(batch)
        return effects

    def _wait_for_reset(self, batch: Batch[Ticket]) -> list[Effect[Ticket]]:
        """Keep a batch for the next producer id, unless it may be in the log under this one."""
        if batch.unknown:
            error = batch.last_error or OutcomeUnknown("unanswered")
            return self._fail(batch, OutcomeUnknown(f"an earlier batch failed; this one: {error.message}"))
        batch.queue.requeue(batch)
        return []

    def renewed(self, queue: PartitionQueue[Ticket], identity: ProducerIdentity) -> list[Effect[Ticket]]:
        """The partition continues under another producer id."""
        queue.identity = identity
        queue.next_sequence, queue.acknowledged_to = 0, BEGINNING
        for batch in queue.waiting:
            batch.sequence = NO_SEQUENCE
        queue.resetting = queue.renewing = queue.recovering = queue.backing_off = False
        return self._continue(queue)

    # --- transactions ------------------------------------------------------------------------

    def abandon(self, error: StrandlineError) -> list[Effect[Ticket]]:
        """End every batch: the transaction is aborted, so none takes effect, wherever it is. Those in flight
        are no longer awaited: the broker refuses one that comes after the end."""
        return [Failed(batch, error) for queue in self for batch in queue.abandon()]

    def go_on_as(self, identity: ProducerIdentity) -> None:
        """A transaction has ended, and with it every batch. The next one has this identity."""
        self.identity = identity
        for queue in self:
            queue.go_on_as(identity)

    # --- topics that change ------------------------------------------------------------------

    def begin_anew(
        self, queue: PartitionQueue[Ticket], topic_id: TopicId, size_max: int
    ) -> list[Effect[Ticket]]:
        """The topic was deleted and made anew with this id: send to it all that is not acknowledged, but for
        batches that were to be appended at an offset of the old one."""
        error = UnknownTopicId(f"{queue.name} was made anew: expected_offset is of topic id {queue.topic_id}")
        queue.topic_id, queue.size_max = topic_id, size_max
        queue.next_sequence, queue.acknowledged_to, queue.attempts = 0, BEGINNING, 0
        queue.recovering = bool(queue.in_flight)
        effects: list[Effect[Ticket]] = []
        for batch in tuple(queue.waiting):
            queue.begin_anew(batch)
            if batch.expected_offset is not None and not batch.settled:
                queue.waiting.remove(batch)
                effects += self._fail(batch, error)
        return effects + self._continue(queue)

    def _resend(self, batch: Batch[Ticket], error: StrandlineError) -> list[Effect[Ticket]]:
        """An attempt at an earlier incarnation of the topic has ended. What it came to no longer matters."""
        queue = batch.queue
        if batch.expected_offset is not None:
            return self._fail(batch, error) + self._continue(queue)
        queue.requeue(batch)
        return self._continue(queue)

    def end(self, queue: PartitionQueue[Ticket], error: StrandlineError) -> list[Effect[Ticket]]:
        """The topic no longer has this partition: its records fail, those that come later too."""
        queue.gap = Gap(BEGINNING, error)
        return self.fail_behind_gap(queue)

    # --- time and leaders --------------------------------------------------------------------

    def backed_off(self, queue: PartitionQueue[Ticket], pause: int) -> list[Effect[Ticket]]:
        """A pause has ended; only that of the last failure counts."""
        if queue.pause != pause:
            return []
        queue.backing_off = False
        return self._continue(queue)

    def led(self, name: TopicPartition, broker: int, epoch: int) -> list[Effect[Ticket]]:
        """Set a partition's leader, or that there is none. A new leader is tried at once."""
        queue = self._queues.get(name)
        if queue is None or (queue.broker, queue.epoch) == (broker, epoch):
            return []
        queue.broker, queue.epoch = broker, epoch
        queue.backing_off = False
        return [] if broker == NO_BROKER else self._continue(queue)

    def next_deadline(self) -> float | None:
        """The earliest deadline of an unsettled batch."""
        return min((batch.deadline for queue in self for batch in queue.unsettled()[:1]), default=None)

    def expire(self, now: float) -> list[Effect[Ticket]]:
        """End the batches whose deadline has passed."""
        limit = f"within delivery_timeout_ms = {self._settings.delivery_timeout_ms}"
        return [
            effect
            for queue in self
            for batch in queue.unsettled()
            if batch.deadline <= now and not batch.settled
            for effect in self._give_up(batch, limit)
        ]

    def give_up(self) -> list[Effect[Ticket]]:
        """End every batch: the producer stops."""
        return [
            effect
            for queue in self
            for batch in queue.unsettled()
            if not batch.settled
            for effect in self._give_up(batch, "before the producer was stopped")
            if isinstance(effect, Failed)
        ]

    def _give_up(self, batch: Batch[Ticket], limit: str) -> list[Effect[Ticket]]:
        queue = batch.queue
        last_error = f"; the last error: {batch.last_error.message}" if batch.last_error is not None else ""
        if batch.connection >= 0 or batch.unknown:
            effects = self._fail(batch, OutcomeUnknown(f"{queue.name}: not acknowledged {limit}{last_error}"))
        else:
            effects = self._fail(
                batch, batch.last_error or LeaderNotAvailable(f"{queue.name}: could not be sent {limit}")
            )
        queue.withdraw(batch)
        if batch.sequence != NO_SEQUENCE and not queue.resetting and queue.gap is None:
            effects += self._reset(queue) + self._continue(queue)
        return effects


def _failed(batch: Batch[Ticket], error: StrandlineError) -> Failed[Ticket]:
    """End a batch. If any attempt went unanswered, its outcome is unknown, even after a later answer."""
    batch.settled = True
    if batch.unknown and error.outcome is not Outcome.UNKNOWN:
        error = OutcomeUnknown(f"an earlier try went unanswered; the last one said: {error.message}")
    return Failed(batch, error)
