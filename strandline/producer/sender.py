"""Sends batches to one broker, over one stream at a time, which is opened when there is a batch to send.

The first batch that is ready is sent at once. The batches that become ready until that message is answered
form the next message. So a lone record does not wait, and under load messages grow: a broker's work is mostly
per message, not per byte. A message that is half full does not wait for the answer to the previous one: else
the client and the brokers would work in turns only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from strandline.adapters.codecs.log import PRODUCE
from strandline.client.broker_stream import BrokerStream, answer_limit_s
from strandline.client.cluster import Cluster
from strandline.config.limits import RECORDS_BYTES_MAX
from strandline.config.producer import ProducerSettings
from strandline.errors import OutcomeUnknown, StrandlineError
from strandline.ids import NO_BROKER, TopicPartition
from strandline.ports import Clock, Stream
from strandline.producer.core.accumulator import Accumulator
from strandline.producer.core.batch import Batch
from strandline.producer.core.effects import Effect
from strandline.producer.measures import ProducerMeasures
from strandline.vocabulary.log import ProduceEntry, ProduceResult

logger = logging.getLogger(__name__)

ProduceStream = Stream[Sequence[ProduceEntry], Sequence[ProduceResult]]

GATHER_S_MAX: Final = 0.005
"""The longest time that a message waits for the answer to the previous one, to gather more batches. A slow
partition, or a long network path, may delay answers for longer."""
MESSAGES_MAX: Final = 2
"""Messages that may be unanswered before the next one waits for an answer."""
SECOND_BYTES_MIN: Final = RECORDS_BYTES_MAX // 2
"""The size of a message that is written while another one is unanswered. Many small ones would cost the
brokers more than they gain."""

DOUBT_S: Final = 0.5
"""After this time without an answer another broker is asked who leads: a broker that hangs keeps its
connections."""


@dataclass(slots=True)
class _Message:
    """A written message."""

    unanswered: int
    """How many of its batches have no answer yet."""


class _Written(NamedTuple):
    """A batch in flight."""

    batch: Batch[Any]
    at: float
    message: _Message


class Sender(BrokerStream[Sequence[ProduceEntry], Sequence[ProduceResult]]):
    """Sends the batches of the partitions that one broker leads."""

    def __init__(
        self,
        broker: int,
        *,
        cluster: Cluster,
        accumulator: Accumulator[Any],
        carry_out: Callable[[list[Effect[Any]]], None],
        connections: Iterator[int],
        measures: ProducerMeasures,
        settings: ProducerSettings,
        clock: Clock,
    ) -> None:
        super().__init__(
            broker,
            PRODUCE,
            cluster=cluster,
            settings=settings,
            clock=clock,
            answer_s=answer_limit_s(settings),
        )
        self._accumulator = accumulator
        self._measures = measures
        self._carry_out = carry_out
        self._connections = connections
        self._settings = settings
        self._correlation_id = 0
        self._connection = -1
        """The number of the open stream, as the accumulator knows it."""
        self._unanswered: dict[int, _Written] = {}
        """By correlation id, the oldest first. Empty while no stream is open."""
        self._messages = 0
        """Messages with an unanswered batch."""
        self._gathered = asyncio.Event()
        """Not set while the next message gathers batches."""
        self._gathered.set()
        self._held_until = 0.0
        """Until when the broker reads nothing, as this client is over its quota (monotonic seconds)."""
        self._over_quota = False
        """Whether the last answer said so."""

    def wake(self) -> None:
        super().wake()
        self._end_gathering()

    async def finish(self) -> None:
        """Return once the broker has handled everything written: with acks=0 it answers nothing."""
        if self._stream is not None:
            await self._stream.finish()

    @property
    def in_flight(self) -> int:
        """Batches that are written and not answered."""
        return len(self._unanswered)

    def _has_work(self) -> bool:
        return self._accumulator.wants(self._broker)

    def _led(self) -> list[TopicPartition]:
        return [queue.name for queue in self._accumulator.led_by(self._broker)]

    async def _exchange(self, stream: ProduceStream) -> None:
        try:
            await super()._exchange(stream)
        finally:
            self._unanswered = {}
            self._messages = 0

    def _opened(self) -> None:
        self._connection = next(self._connections)

    def _lost(self, error: StrandlineError) -> None:
        self._carry_out(self._accumulator.lost(self._connection, error))

    def _oldest_at(self) -> float | None:
        return next((written.at for written in self._unanswered.values()), None)

    async def _watch(self) -> None:
        """As of every stream, and sooner: raises OutcomeUnknown when a broker that does not answer for a
        moment has a successor."""
        while True:
            await self._clock.sleep(min(DOUBT_S, self._answer_s) / 2)
            if self._check_silence() > DOUBT_S:
                self._seek_successors()

    def _seek_successors(self) -> None:
        for name in dict.fromkeys(written.batch.queue.name for written in self._unanswered.values()):
            leader = self._cluster.leader(name)
            if leader is not None and leader.broker not in (self._broker, NO_BROKER):
                raise OutcomeUnknown(
                    f"broker {self._broker} does not answer, and {leader.broker} leads {name}"
                )
            self._cluster.doubt(name)

    async def _write(self, stream: ProduceStream) -> None:
        acks, timeout_ms = self._settings.acks, self._settings.request_timeout_ms
        transactional_id = self._settings.transactional_id or ""
        take, wanted = self._accumulator.take, self._wanted
        connection, unanswered = self._connection, self._unanswered
        while True:
            wanted.clear()
            if (hold_s := self._held_until - self._clock.monotonic()) > 0:
                await self._clock.sleep(hold_s)
                continue
            while batches := take(self._broker, connection):
                entries = []
                now = self._clock.monotonic()
                message = _Message(len(batches))
                self._messages += acks != 0
                for batch in batches:
                    self._correlation_id += 1
                    if acks != 0:
                        unanswered[self._correlation_id] = _Written(batch, now, message)
                    self._measures.written_bytes.add(batch.size)
                    entries.append(
                        ProduceEntry(
                            batch.queue.name,
                            batch.seal(transactional=bool(transactional_id)),
                            acks,
                            timeout_ms,
                            self._correlation_id,
                            expected_offset=batch.expected_offset,
                            topic_id=batch.topic_id,
                            transactional_id=transactional_id,
                        )
                    )
                await stream.write(entries)
                self._carry_out(self._accumulator.written(batches))
                if unanswered:
                    await self._gather()
                if self._held_until > now:
                    wanted.set()
                    break
            await wanted.wait()

    async def _gather(self) -> None:
        """Returns once the next message may be written: after `GATHER_S_MAX` at the latest, or with the last
        answer if the client is over its quota."""
        self._gathered.clear()
        self._end_gathering()
        try:
            async with asyncio.timeout(None if self._over_quota else GATHER_S_MAX):
                await self._gathered.wait()
        except TimeoutError:
            self._gathered.set()

    def _end_gathering(self) -> None:
        if not self._gathered.is_set() and self._has_gathered():
            self._gathered.set()

    def _has_gathered(self) -> bool:
        """True if all is answered, or if there is enough for one more message under way. A client over
        its quota sends none ahead: the broker may read nothing for a while."""
        if self._messages == 0:
            return True
        if self._over_quota or self._messages >= MESSAGES_MAX:
            return False
        return self._accumulator.offers(self._broker, self._connection, SECOND_BYTES_MIN)

    async def _read(self, stream: ProduceStream) -> None:
        accumulator = self._accumulator
        while True:
            for result in await stream.read():
                self._over_quota = result.throttle_ms > 0
                if self._over_quota:
                    self._hold(result.throttle_ms)
                if self._settings.acks == 0:
                    self._refused_unasked(result.error)
                    continue
                batch = self._answered(result.correlation_id)
                if result.error is None:
                    self._carry_out(accumulator.acknowledged(batch, result.base_offset))
                else:
                    self._carry_out(accumulator.refused(batch, result.error))
            self._end_gathering()

    def _hold(self, throttle_ms: int) -> None:
        """What is sent before the broker reads again would only lie on its way, and seem unanswered."""
        self._measures.throttled_ms.add(throttle_ms)
        self._held_until = max(self._held_until, self._clock.monotonic() + throttle_ms / 1000)

    def _answered(self, correlation_id: int) -> Batch[Any]:
        """The batch that an answer is for. Raises OutcomeUnknown if there is none, which ends the stream."""
        if correlation_id not in self._unanswered:
            raise OutcomeUnknown(
                f"broker {self._broker} answered a batch that was not sent: {correlation_id}"
            )
        written = self._unanswered.pop(correlation_id)
        written.message.unanswered -= 1
        self._messages -= written.message.unanswered == 0
        self._measures.answered_ms.add((self._clock.monotonic() - written.at) * 1000)
        return written.batch

    def _refused_unasked(self, error: StrandlineError | None) -> None:
        """With acks=0 a broker reports only refusals. The batch has ended by then: request the leaders."""
        logger.warning("broker %d refused a batch: %s", self._broker, error)
        for queue in self._accumulator:
            if queue.broker == self._broker:
                self._cluster.doubt(queue.name)
