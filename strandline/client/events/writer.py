"""Writes events of the system into an internal topic.

`put` never waits, so a topic without a leader does not slow down a group or a broker. Waiting events are
written in batches, in order. A batch is retried until it is acknowledged; its producer id lets the broker
detect repeats. One batch is in flight at a time. If more events wait than the limit allows, the oldest are
dropped, with a warning that counts them.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from strandline.adapters.codecs.log import INIT_PRODUCER_ID, PRODUCE, result_of
from strandline.client.broker_stream import CallStream, answer_limit_s
from strandline.client.client import Client
from strandline.client.retry import Tries, retry
from strandline.config.client import ClientSettings
from strandline.config.limits import KIB
from strandline.config.load import load
from strandline.errors import (
    BrokerNotAvailable,
    DuplicateSequence,
    InvalidProducerEpoch,
    MessageTooLarge,
    Outcome,
    OutOfOrderSequence,
    StrandlineError,
    UnknownProducerId,
    UnknownTopicOrPartition,
)
from strandline.ids import ACKS_ALL, TopicPartition
from strandline.ports import Clock, Transport
from strandline.records import Codec, PackedRecords, pack
from strandline.vocabulary.log import ProduceEntry, ProduceResult, ProducerIdentity

logger = logging.getLogger(__name__)

BATCH_BYTES_MAX: Final = 256 * KIB
EVENT_OVERHEAD_BYTES: Final = 32
SEQUENCES: Final = 1 << 31
"""Sequence numbers count modulo this (KIP-98)."""


Done = Callable[[bool], None]
"""Called once for an event: with True when it is in the log, with False when it was dropped or refused."""


@dataclass(frozen=True, slots=True)
class _Event:
    key: bytes
    value: bytes
    at_ms: int
    done: Done | None

    @property
    def size(self) -> int:
        return len(self.key) + len(self.value) + EVENT_OVERHEAD_BYTES


@dataclass(slots=True)
class _Sequence:
    """The producer id for a partition, and the sequence number of the next record."""

    identity: ProducerIdentity
    next: int = 0


class EventWriter(Client[ClientSettings]):
    """Writes one topic. `prepare` makes sure that the topic exists; any StrandlineError of it is retried.

    `bootstrap` and `settings` (ClientSettings) as for a producer. Events of one key stay in their order.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        topic: str,
        *,
        events_max: int,
        prepare: Callable[[], Awaitable[object]],
        transport: Transport,
        clock: Clock,
        **settings: Any,
    ) -> None:
        super().__init__("event writer", bootstrap, load(ClientSettings, **settings), transport, clock)
        self.topic = topic
        self.dropped = 0
        """Events that were never written."""
        self.written = 0
        """Events that were acknowledged."""
        self._events_max = events_max
        self._prepare = prepare
        self._waiting: deque[_Event] = deque()
        self._arrived = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._overflowing = False
        self._sequences: dict[TopicPartition, _Sequence] = {}
        self._correlation_id = 0
        self._calls = CallStream(self._cluster, PRODUCE, answer_limit_s(self._settings))

    @property
    def waiting(self) -> int:
        """The number of waiting events, without those in the batch in flight."""
        return len(self._waiting)

    async def start(self) -> None:
        """Connects only with the first event."""
        await super().start()
        self._scope.spawn(self._run(), "write")

    async def stop(self) -> None:
        """Waiting events are lost: call `flush` before."""
        try:
            await super().stop()
        finally:
            self._calls.close()

    def _failed(self, error: BaseException) -> None:
        """A defect: the service that writes these events must not continue silently without them."""
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"no more events are written to {self.topic}", "exception": error}
        )

    # --- accepting ---------------------------------------------------------------------------

    def put(self, key: bytes, value: bytes, at_ms: int, done: Done | None = None) -> None:
        """Write an event later; `at_ms` (milliseconds since the Unix epoch) is its timestamp.

        `done` may be called before this returns, when there is no room.
        """
        self._waiting.append(_Event(key, value, at_ms, done))
        self._idle.clear()
        self._arrived.set()
        if len(self._waiting) > self._events_max:
            self._drop(self._waiting.popleft())

    def put_all(self, events: Sequence[tuple[bytes, bytes]], at_ms: int, done: Done | None = None) -> None:
        """`put` each of these keys and values. `done` is called once, with True when all are in the log."""
        if not events and done is not None:
            done(True)
        one = None if done is None else _Countdown(len(events), done).one
        for key, value in events:
            self.put(key, value, at_ms, one)

    def _drop(self, event: _Event) -> None:
        self.dropped += 1
        if not self._overflowing:
            self._overflowing = True
            logger.warning(
                "%d events wait for %s already: the oldest are dropped", self._events_max, self.topic
            )
        if event.done is not None:
            event.done(False)

    def reach(self, bootstrap: Sequence[str]) -> None:
        """Use these bootstrap addresses from now on: a writer may outlive the brokers that it began with."""
        self._cluster.reach(bootstrap)

    async def flush(self, timeout_s: float) -> bool:
        """Wait until every event is written or dropped; False after the timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    # --- writing -----------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                partitions = await self._count_partitions()
                name, events = self._take(partitions)
                await self._deliver(name, events)
            self._idle.set()

    async def _count_partitions(self) -> int:
        """The partition count of the topic. Waits until it exists."""

        async def ask() -> int:
            known = self._cluster.known_topic(self.topic)
            if known is None:
                await self._prepare()
                known = await self._cluster.topic(self.topic)
            return len(known.partitions)

        return await retry(
            ask,
            f"events for {self.topic} wait",
            settings=self._settings,
            clock=self._clock,
            retriable=lambda _error: True,
        )

    def _take(self, partitions: int) -> tuple[TopicPartition, list[_Event]]:
        """The oldest event, and later ones for the same partition, as many as fit into a batch."""
        chosen = _partition_of(self._waiting[0], partitions)
        events: list[_Event] = []
        left: list[_Event] = []
        room = BATCH_BYTES_MAX
        while self._waiting:
            event = self._waiting.popleft()
            if _partition_of(event, partitions) != chosen:
                left.append(event)
            elif events and event.size > room:
                left.append(event)
                break
            else:
                events.append(event)
                room -= event.size
        self._waiting.extendleft(reversed(left))
        return TopicPartition(self.topic, chosen), events

    async def _deliver(self, name: TopicPartition, events: list[_Event]) -> None:
        """Write one batch until it is acknowledged, or refused permanently."""
        packed = pack([(e.key, e.value, (), e.at_ms) for e in events], codec=Codec.ZSTD)
        tries = Tries(self._settings, self._clock)
        while (error := await self._try(name, packed)) is not None:
            if isinstance(error, MessageTooLarge) and len(events) > 1:
                half = len(events) // 2
                self._waiting.extendleft(reversed(events[half:]))
                await self._deliver(name, events[:half])
                return
            if isinstance(error, OutOfOrderSequence | UnknownProducerId | InvalidProducerEpoch):
                # The broker has lost the producer's state: another topic has this name, or it was forgotten.
                self._sequences.pop(name, None)
            elif error.outcome is Outcome.FATAL:
                logger.error("%d events for %s were refused: %s", len(events), name, error.message)
                self.dropped += len(events)
                self._sequences.pop(name, None)
                _report(events, written=False)
                return
            elif isinstance(error, UnknownTopicOrPartition):
                await self._restore()
            else:
                if isinstance(error, BrokerNotAvailable):
                    self._calls.close()  # a stream shows the members' key that was read when it was opened
                self._cluster.follow(name, error)
            tries.log(logger, f"events for {self.topic} wait", error)
            await tries.pause()
        self.written += len(events)
        if self._overflowing:
            self._overflowing = False
            logger.warning("%s is written again; events dropped so far: %d", self.topic, self.dropped)
        _report(events, written=True)

    async def _try(self, name: TopicPartition, packed: PackedRecords) -> StrandlineError | None:
        """Try once; None if the batch is in the log."""
        try:
            sequence = self._sequences.get(name)
            if sequence is None:
                sequence = self._sequences[name] = _Sequence(await self._new_identity())
            leader = await self._cluster.led_by(name)
            records = packed.seal(
                producer_id=sequence.identity.producer_id,
                producer_epoch=sequence.identity.producer_epoch,
                base_sequence=sequence.next,
            )
            result = await self._send(leader.broker, name, records)
        except StrandlineError as error:
            return error
        if result.error is not None and not isinstance(result.error, DuplicateSequence):
            return result.error
        sequence.next = (sequence.next + packed.record_count) % SEQUENCES
        return None

    async def _new_identity(self) -> ProducerIdentity:
        return await self._cluster.call_any(INIT_PRODUCER_ID, None)

    async def _send(self, broker: int, name: TopicPartition, records: bytes) -> ProduceResult:
        """Raises an error of the stream; a broker's error is in the result."""
        self._correlation_id += 1
        number = self._correlation_id
        entry = ProduceEntry(
            name, records, ACKS_ALL, self._settings.request_timeout_ms, number, internal=True
        )
        return await self._calls.call(broker, [entry], partial(result_of, number))

    async def _restore(self) -> None:
        """The topic was deleted: create it again."""
        try:
            await self._prepare()
            await self._cluster.refresh([self.topic])
        except StrandlineError as error:
            logger.info("topic %s is not there: %s", self.topic, error.message)


def _partition_of(event: _Event, partitions: int) -> int:
    return zlib.crc32(event.key) % partitions


def _report(events: Sequence[_Event], *, written: bool) -> None:
    for event in events:
        if event.done is not None:
            event.done(written)


class _Countdown:
    """Reports the end of several events as one."""

    def __init__(self, count: int, on_end: Done) -> None:
        self._left = count
        self._written = True
        self._on_end = on_end

    def one(self, written: bool) -> None:
        self._left -= 1
        self._written = self._written and written
        if self._left == 0:
            self._on_end(self._written)
