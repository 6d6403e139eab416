"""Fetches from one broker everything that it leads of what is assigned, over one stream at a time.

As soon as an answer is here the next fetch is under way, before anybody has looked at the records.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from strandline.client.backoff import backoff_s
from strandline.client.cluster import Cluster
from strandline.client.fetches import FetchRequest, FetchResponse
from strandline.client.wire.fetch import FETCH
from strandline.config import ConsumerSettings
from strandline.consumer.core.positions import Effect, Positions
from strandline.errors import BrokerNotAvailable, OutcomeUnknown, StrandlineError
from strandline.ports import Clock, Stream
from strandline.tasks import until_failure

logger = logging.getLogger(__name__)

FETCHES_IN_FLIGHT_MAX: Final = 4
"""One may be a long poll for partitions at their ends; the others are for those that moved meanwhile."""


class Fetcher:
    """`run` is its task; `wake` says that there may be something to fetch."""

    def __init__(
        self,
        broker: int,
        *,
        cluster: Cluster,
        positions: Positions[Any],
        carry_out: Callable[[list[Effect]], None],
        settings: ConsumerSettings,
        clock: Clock,
    ) -> None:
        self._broker = broker
        self._cluster = cluster
        self._positions = positions
        self._carry_out = carry_out
        self._settings = settings
        self._clock = clock
        self._wanted = asyncio.Event()
        self._unanswered: dict[int, float] = {}

    def wake(self) -> None:
        self._wanted.set()

    def _leads(self) -> bool:
        return any(state.broker == self._broker for state in self._positions)

    async def run(self) -> None:
        """Keep a stream to the broker while it leads anything that is assigned; for ever."""
        attempt = 0
        while True:
            await self._wanted.wait()
            if not self._leads():
                self._wanted.clear()
                continue
            try:
                stream = await self._cluster.open(self._broker, FETCH)
            except BrokerNotAvailable as error:
                attempt += 1
                logger.log(logging.INFO if attempt == 1 else logging.DEBUG, "%s", error)
                for state in self._positions:
                    if state.broker == self._broker:
                        self._cluster.doubt(state.name)
                await self._clock.sleep(backoff_s(self._settings, attempt))
                continue
            attempt = 0
            await self._exchange(stream)

    async def _exchange(self, stream: Stream[FetchRequest, FetchResponse]) -> None:
        """Fetch until the stream breaks."""
        self._wanted.set()
        try:
            error = await until_failure(
                StrandlineError, self._write(stream), self._read(stream), self._watch()
            )
            logger.info("the fetch stream to broker %d ended: %s", self._broker, error)
            self._carry_out(self._positions.lost(self._broker, error))
        finally:
            self._unanswered.clear()
            self._wanted.set()
            stream.close()

    async def _write(self, stream: Stream[FetchRequest, FetchResponse]) -> None:
        settings = self._settings
        while True:
            self._wanted.clear()
            while len(self._unanswered) < FETCHES_IN_FLIGHT_MAX:
                plan = self._positions.plan(self._broker)
                if plan is None:
                    break
                self._unanswered[plan.number] = self._clock.monotonic()
                await stream.write(
                    FetchRequest(
                        plan,
                        wait_ms=settings.fetch_wait_ms,
                        bytes_min=settings.fetch_min_bytes,
                        bytes_max=settings.fetch_bytes,
                        partition_bytes_max=settings.partition_fetch_bytes,
                    )
                )
            await self._wanted.wait()

    async def _read(self, stream: Stream[FetchRequest, FetchResponse]) -> None:
        while True:
            response = await stream.read()
            del self._unanswered[response.number]
            self._carry_out(self._positions.answered(response.number, response.answers))
            self._wanted.set()

    async def _watch(self) -> None:
        """Raise OutcomeUnknown when the broker leaves a fetch unanswered for too long."""
        limit_s = (self._settings.fetch_wait_ms + self._settings.request_timeout_ms) / 1000
        while True:
            await self._clock.sleep(limit_s / 5)
            oldest = next(iter(self._unanswered.values()), None)
            if oldest is not None and self._clock.monotonic() - oldest > limit_s:
                raise OutcomeUnknown(f"broker {self._broker} has not answered for {limit_s:.1f} s")
