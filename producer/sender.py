"""Carries batches to one broker: one stream at a time, opened when there is something to send.

The stream pulls: the first batch that is ready goes at once, and whatever becomes ready until that
message is answered goes into the next one. So a lone record waits for nothing, and under load messages
grow by themselves: a broker's work is mostly by message, not by byte.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from strandline.client.backoff import backoff_s
from strandline.client.cluster import Cluster
from strandline.client.wire.produce import PRODUCE, Entry, Result
from strandline.config import ProducerSettings
from strandline.errors import BrokerNotAvailable, OutcomeUnknown, StrandlineError
from strandline.ports import Clock, Stream
from strandline.producer.core.accumulator import Accumulator, Effect
from strandline.producer.core.batch import Batch
from strandline.tasks import until_failure

logger = logging.getLogger(__name__)

ProduceStream = Stream[Sequence[Entry], Sequence[Result]]

COMPANY_S_MAX: Final = 0.005
"""A message waits for the answers to the one before it, for company, but not longer than this: it may be
one slow partition that they wait for, and the network may be long."""

ANSWER_GRACE: Final = 1.25
"""A broker answers within the request timeout by itself; one that has not after this many of them is
given up."""


@dataclass(slots=True)
class _Exchange:
    """One open stream and what is unanswered on it, the oldest first."""

    connection: int
    stream: ProduceStream
    unanswered: dict[int, tuple[Batch[Any], float]] = field(default_factory=dict)
    all_answered: asyncio.Event = field(default_factory=asyncio.Event)


class Sender:
    """`run` is its task; `wake` says that there may be something to send."""

    def __init__(
        self,
        broker: int,
        *,
        cluster: Cluster,
        accumulator: Accumulator[Any],
        carry_out: Callable[[list[Effect[Any]]], None],
        connections: Iterator[int],
        settings: ProducerSettings,
        clock: Clock,
    ) -> None:
        self._broker = broker
        self._cluster = cluster
        self._accumulator = accumulator
        self._carry_out = carry_out
        self._connections = connections
        self._settings = settings
        self._clock = clock
        self._wanted = asyncio.Event()
        self._correlation_id = 0
        self._stream: ProduceStream | None = None

    def wake(self) -> None:
        self._wanted.set()

    async def finish(self) -> None:
        """Return once the broker has handled everything written: with acks=0 no answer says so."""
        if self._stream is not None:
            await self._stream.finish()

    async def run(self) -> None:
        """Keep a stream to the broker while there is anything for it; for ever."""
        attempt = 0
        while True:
            await self._wanted.wait()
            if not self._accumulator.wants(self._broker):
                self._wanted.clear()
                continue
            try:
                stream = await self._cluster.open(self._broker, PRODUCE)
            except BrokerNotAvailable as error:
                attempt += 1
                logger.log(logging.INFO if attempt == 1 else logging.DEBUG, "%s", error)
                for queue in self._accumulator.led_by(self._broker):
                    self._cluster.doubt(queue.name)
                await self._clock.sleep(backoff_s(self._settings, attempt))
                continue
            attempt = 0
            await self._exchange(_Exchange(next(self._connections), stream))

    async def _exchange(self, exchange: _Exchange) -> None:
        """Send and receive until the stream breaks."""
        self._stream = exchange.stream
        try:
            error = await until_failure(
                StrandlineError, self._write(exchange), self._read(exchange), self._watch(exchange)
            )
            logger.info("the produce stream to broker %d ended: %s", self._broker, error)
            self._carry_out(self._accumulator.lost(exchange.connection, error))
        finally:
            self._stream = None
            self._wanted.set()  # for what was ready, but not yet on this stream
            exchange.stream.close()

    async def _write(self, exchange: _Exchange) -> None:
        acks, timeout_ms = self._settings.acks, self._settings.request_timeout_ms
        take, wanted = self._accumulator.take, self._wanted
        while True:
            wanted.clear()
            while batches := take(self._broker, exchange.connection):
                entries = []
                now = self._clock.monotonic()
                for batch in batches:
                    self._correlation_id += 1
                    if acks != 0:
                        exchange.unanswered[self._correlation_id] = (batch, now)
                    entries.append(
                        Entry(
                            self._correlation_id,
                            batch.queue.name,
                            acks,
                            timeout_ms,
                            batch.seal(),
                            expected_offset=batch.expected_offset,
                        )
                    )
                await exchange.stream.write(entries)
                self._carry_out(self._accumulator.written(batches))
                if exchange.unanswered:
                    await self._wait_for_company(exchange)
            await wanted.wait()

    async def _wait_for_company(self, exchange: _Exchange) -> None:
        exchange.all_answered.clear()
        try:
            async with asyncio.timeout(COMPANY_S_MAX):
                await exchange.all_answered.wait()
        except TimeoutError:
            return

    async def _read(self, exchange: _Exchange) -> None:
        accumulator, unanswered = self._accumulator, exchange.unanswered
        while True:
            for result in await exchange.stream.read():
                if self._settings.acks == 0:
                    self._refused_unasked(result.error)
                    continue
                batch, _ = unanswered.pop(result.correlation_id)
                if result.error is None:
                    self._carry_out(accumulator.acknowledged(batch, result.base_offset))
                else:
                    self._carry_out(accumulator.refused(batch, result.error))
            if not unanswered:
                exchange.all_answered.set()

    def _refused_unasked(self, error: StrandlineError | None) -> None:
        """With acks=0 a broker only says what it refused, and the batch is forgotten already: what can
        still be done is to ask who leads now."""
        logger.warning("broker %d refused a batch: %s", self._broker, error)
        for queue in self._accumulator:
            if queue.broker == self._broker:
                self._cluster.doubt(queue.name)

    async def _watch(self, exchange: _Exchange) -> None:
        """Raise OutcomeUnknown when the broker leaves a request unanswered for too long."""
        limit_s = ANSWER_GRACE * self._settings.request_timeout_ms / 1000
        while True:
            await self._clock.sleep(limit_s / 5)
            _, oldest = next(iter(exchange.unanswered.values()), (None, None))
            if oldest is not None and self._clock.monotonic() - oldest > limit_s:
                raise OutcomeUnknown(f"broker {self._broker} has not answered for {limit_s:.1f} s")
